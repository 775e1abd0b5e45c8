"""One write of an object of a live cluster: its request, what a lost answer may have done, and whose refusal it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

import msgspec
from msgspec.structs import replace

from reconciler.backends.kubernetes.client import ApiClient, Attempts
from reconciler.backends.kubernetes.pages import answer_to, decoded
from reconciler.backends.kubernetes.request_form import (
    APPLY_PATCH,
    JSON_PATCH,
    ApiRequest,
    Operation,
    RequestFields,
    object_request,
)
from reconciler.backends.kubernetes.rights import Right, impersonation_right, is_allowed
from reconciler.backends.patched_values import equal, patched, value_at
from reconciler.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    ImpersonationError,
    InvalidError,
    MalformedAnswerError,
    NotFoundError,
    RefusedError,
    StaleError,
)
from reconciler.http.client import HttpResponse
from reconciler.model import FIELD_MANAGER, PatchOperation, ServiceAccount, Write, pointer
from reconciler.workload_kinds import WorkloadKind

_MANAGED = {"fieldManager": FIELD_MANAGER}


class _Written(msgspec.Struct):
    """What every answer to a write has, an object or a Status."""

    kind: str


class ObjectWrite:
    """One write of an object of the resource `plural`; `scale` is set where the kind has /scale.

    What is written impersonates `account`, where one is given; what is read is read as ourselves.
    """

    def __init__(
        self, client: ApiClient, write: Write, plural: str, scale: WorkloadKind | None, account: ServiceAccount | None
    ) -> None:
        self._client = client
        self._write = write
        self._plural = plural
        self._scale = scale
        self._account = account
        self._attempts = Attempts()

    def carry_out(self) -> None:
        """Do it, whole or not at all.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: the server's own refusal.
            ForbiddenError: we have no right to. ImpersonationError: we may not impersonate the account.
            ClusterError: nobody knows, or nothing answered.
        """
        {"patch": self._patch, "create": self._create, "delete": self._delete, "event": self._event}[self._write.verb]()

    def _patch(self) -> None:
        request = self._patch_request(*self._write.patch)
        for last in (False, True):
            try:
                _check_taken(self._send(request), request, self._write)
                return
            except (ConflictError, InvalidError) as error:
                if self._still_fits():
                    return
                if last:
                    raise self._stale(error) if isinstance(error, ConflictError) else error from error

    def _patch_request(self, *changes: PatchOperation) -> ApiRequest:
        operations = [*_tests(self._write), *changes]
        subresource = ""
        if self._is_scale_only(changes):
            subresource = "/scale"
            operations = [*_tests(self._write), *map(_of_scale, changes)]
        body = [_wire(operation) for operation in operations]
        return self._request("patch", body, subresource, query=_MANAGED, content_type=JSON_PATCH)

    def _is_scale_only(self, changes: Sequence[PatchOperation]) -> bool:
        """Whether only replicas change that were given: of absent ones /scale says 0 or 1, as the kind likes."""
        if self._scale is None or not self._scale.status_path:
            return False
        replicas = pointer(self._scale.replicas_path)
        given = all(change.value is not None and change.op in ("test", "replace") for change in changes)
        return given and all(change.path == replicas for change in changes)

    def _still_fits(self) -> bool:
        """Look at the object again after a refusal; return whether an attempt without an answer had done it all.

        Raises:
            StaleError: it is not what the write expects. NotFoundError: it is gone.
        """
        write, found = self._write, self._read()
        if self._attempts.unsure and _is_done(found, write):
            return True
        patched(found, [test for test in (*_tests(write), *write.patch) if test.op == "test"], str(write.ref))
        return False

    def _create(self) -> None:
        if self._write.uid is not None:
            self._apply()
            return
        try:
            self._send(self._request("create", self._write.manifest, query=_MANAGED))
        except AlreadyExistsError:
            if not self._attempts.unsure or not _holds(self._read(), self._write.manifest):
                raise

    def _apply(self) -> None:
        """Apply the whole object over the one with the expected uid; a gone one is not made anew."""
        manifest = dict(self._write.manifest or {})
        manifest["metadata"] = {**manifest.get("metadata", {}), "uid": self._write.uid}
        query = {**_MANAGED, "force": "true"}
        try:
            self._send(self._request("patch", manifest, query=query, content_type=APPLY_PATCH))
        except ConflictError as error:
            raise self._stale(error) from error

    def _delete(self) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Orphan" if self._write.orphan else "Background",
        }
        if self._write.uid is not None:
            options["preconditions"] = {"uid": self._write.uid}
        try:
            self._send(self._request("delete", options))
        except ConflictError as error:
            raise self._stale(error) from error
        except NotFoundError:
            if not self._attempts.unsure:
                raise

    def _event(self) -> None:
        try:
            self._send(self._request("create", self._write.manifest))
        except AlreadyExistsError:
            if self._write.patch and not self._attempts.unsure:
                self._count_on()

    def _count_on(self) -> None:
        """Raise the count of an Event; the write has its other changes. A lost race loses one count."""
        for _ in range(2):
            count = value_at(self._read(), "/count")
            raised = PatchOperation("add", "/count", count + 1 if isinstance(count, int) else 1)
            with suppress(ConflictError, InvalidError):
                self._send(self._patch_request(raised, *self._write.patch))
                return

    def _request(self, verb: str, content: Any, subresource: str = "", **how: Unpack[RequestFields]) -> ApiRequest:
        """Return what asks for `verb` on the object that is written, or on a subresource of it."""
        how |= {"body": msgspec.json.encode(content), "writes": True, "account": self._account}
        return self._about(verb, subresource, **how)

    def _about(self, verb: str, subresource: str = "", **how: Unpack[RequestFields]) -> ApiRequest:
        ref, key = self._write.ref, (self._write.ref.group, self._version, self._plural + subresource)
        return object_request(ref.cluster, verb, key, ref.namespace, ref.name, **how)

    def _send(self, request: ApiRequest) -> HttpResponse:
        """Send a write and return the answer.

        What is forbidden although we have the right to was refused by admission or a quota.
        """
        try:
            return self._answered(request)
        except ForbiddenError as error:
            if self._may(request.operation):
                raise RefusedError(f"{self._write.ref}: {error.words}, expected it to be accepted") from error
            if self._account is not None and not self._may_impersonate():
                words = f"impersonate serviceaccounts {self._account.name} in {self._account.namespace}"
                lacks = f"{request.operation}: forbidden ({error.words}), expected the right to {words}"
                raise ImpersonationError(f"{lacks}; see `reconciler doctor`", error.words) from error
            raise

    def _answered(self, request: ApiRequest) -> HttpResponse:
        """Send a write until its answer is that of an API server, twice at most; return that.

        What answers in another way, such as a gateway with a page of its own, may not have passed it on.

        Raises:
            MalformedAnswerError: it answered like that twice.
        """
        for last in (False, True):
            answer = self._client.send(request, self._attempts)
            try:
                decoded(answer.body, _Written, request.operation)
                return answer
            except MalformedAnswerError:
                self._attempts.unsure += 1
                if last:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _may(self, operation: Operation) -> bool:
        _, slash, subresource = operation.resource.partition("/")
        ref, name = self._write.ref, "" if operation.verb == "create" else self._write.ref.name
        resource = f"{self._plural}{slash}{subresource}"
        right = Right(ref.group, resource, operation.verb, name=name, version=self._version)
        try:
            return is_allowed(self._client, right, ref.namespace, self._account)
        except ClusterError:
            return False

    def _may_impersonate(self) -> bool:
        """Return whether we may impersonate the account, True where nobody knows."""
        assert self._account is not None
        try:
            return is_allowed(self._client, impersonation_right(self._account), self._account.namespace)
        except ClusterError:
            return True

    def _read(self) -> Any:
        return answer_to(self._client, self._about("get"), dict[str, Any])

    @property
    def _version(self) -> str:
        return self._write.api_version.rpartition("/")[2]

    def _stale(self, error: ClusterError) -> StaleError:
        words = f"changed meanwhile, expected it as the plan saw it; plan again ({error})"
        return StaleError(f"{self._write.ref}: {words}")


def _tests(write: Write) -> list[PatchOperation]:
    return [] if write.uid is None else [PatchOperation("test", "/metadata/uid", write.uid)]


def _of_scale(change: PatchOperation) -> PatchOperation:
    """Return a change of replicas as one of a Scale, which leaves out a 0: there is nothing to test, or to replace."""
    if change.op == "test":
        return replace(change, path="/spec/replicas", value=change.value or None)
    return replace(change, path="/spec/replicas", op="add")


def _wire(operation: PatchOperation) -> dict[str, Any]:
    value = {} if operation.op == "remove" else {"value": operation.value}
    return {"op": operation.op, "path": operation.path, **value}


def _check_taken(answer: HttpResponse, request: ApiRequest, write: Write) -> None:
    """Check that the server took the numbers and switches of a patch as they are: admission may change them, and a
    schema may drop them. Where only replicas were sent, its answer is a Scale, which leaves out a 0.

    Raises:
        RefusedError: it made others of them.
    """
    given = [change for change in write.patch if change.op != "test" and _is_scale(change)]
    found = decoded(answer.body, dict[str, Any], request.operation) if given else None
    for change in given:
        of_scale = request.path.endswith("/scale")
        value = value_at(found, "/spec/replicas") or 0 if of_scale else value_at(found, change.path)
        if not equal(value, change.value):
            made, expected = (msgspec.json.encode(each).decode() for each in (value, change.value))
            raise RefusedError(
                f"{write.ref}: the server made {change.path} {made}, expected {expected}; look for an admission "
                "webhook or policy that changes it"
            )


def _is_scale(change: PatchOperation) -> bool:
    """Return whether `change` writes a number, or a single value of the spec."""
    return isinstance(change.value, int) or (isinstance(change.value, str) and change.path.startswith("/spec/"))


def _is_done(found: Any, write: Write) -> bool:
    """Return whether an object is as it would be after the write."""
    expected = [*_tests(write), *(operation for operation in write.patch if operation.op != "test")]
    return all(
        equal(value_at(found, operation.path), None if operation.op == "remove" else operation.value)
        for operation in expected
    )


def _holds(found: Any, manifest: Any) -> bool:
    """Return whether everything in `manifest` is in `found`, which may hold more; servers leave out what is empty."""
    if isinstance(manifest, Mapping):
        return isinstance(found, Mapping) and all(
            _holds(found[key], value) if key in found else value in (None, {}, []) for key, value in manifest.items()
        )
    if isinstance(manifest, Sequence) and not isinstance(manifest, str):
        return isinstance(found, Sequence) and len(found) == len(manifest) and all(map(_holds, found, manifest))
    return equal(found, manifest)
