"""Writes: each tests what it rests on, so that it is done whole or not at all, also when it has to be sent twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from reconciler.backends.json_patch import equal, patched, value_at
from reconciler.backends.kubernetes.client import (
    APPLY_PATCH,
    JSON_PATCH,
    ApiClient,
    ApiRequest,
    Attempts,
    collection,
    one,
    resource_name,
)
from reconciler.backends.kubernetes.errors import Operation
from reconciler.backends.kubernetes.pages import decoded, decoded_object
from reconciler.backends.kubernetes.rbac import Right, is_allowed
from reconciler.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MalformedAnswerError,
    NotFoundError,
    RefusedError,
    StaleError,
)
from reconciler.model import FIELD_MANAGER, PatchOperation, ScaleKind, Write

_MANAGED = {"fieldManager": FIELD_MANAGER}
_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}


class _Written(msgspec.Struct):
    """What every answer to a write has, an object or a Status."""

    kind: str


class ObjectWriter:
    """Writes objects of one resource, `plural`, of one cluster; `scale` is set where the kind has /scale."""

    def __init__(self, requests: ApiClient, plural: str, scale: ScaleKind | None = None) -> None:
        self._requests = requests
        self._plural = plural
        self._scale = scale

    def write(self, write: Write) -> None:
        """Carry out `write`, whole or not at all.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: the server's own refusal.
            ForbiddenError: we have no right to. ClusterError: nobody knows, or nothing answered.
        """
        verbs = {"patch": self._patch, "create": self._create, "delete": self._delete, "event": self._event}
        verbs[write.verb](write)

    def _patch(self, write: Write) -> None:
        request = self._patch_request(write)
        attempts = Attempts()
        for last in (False, True):
            try:
                self._send(request, write, attempts)
                return
            except (ConflictError, InvalidError) as error:
                if self._still_fits(write, attempts):
                    return
                if last:
                    raise _stale(write, error) if isinstance(error, ConflictError) else error from error

    def _patch_request(self, write: Write) -> ApiRequest:
        operations = [*_tests(write), *write.patch]
        subresource = ""
        if self._scale is not None and self._is_scale_only(write):
            subresource = "/scale"
            operations = [
                one if one.path == "/metadata/uid" else replace(one, path="/spec/replicas") for one in operations
            ]
        body = [_wire(operation) for operation in operations]
        return self._request("patch", write, body, subresource, query=_MANAGED, content_type=JSON_PATCH)

    def _is_scale_only(self, write: Write) -> bool:
        """Whether only replicas change that were given: of absent ones /scale says 0 or 1, as the kind likes."""
        assert self._scale is not None
        pointer = "/" + "/".join(self._scale.replicas_path)
        given = all(operation.value is not None and operation.op in ("test", "replace") for operation in write.patch)
        return given and bool(self._scale.status_path) and all(one.path == pointer for one in write.patch)

    def _still_fits(self, write: Write, attempts: Attempts) -> bool:
        """Look at the object again after a refusal; return whether an attempt without an answer had done it all.

        Raises:
            StaleError: it is not what the write expects. NotFoundError: it is gone.
        """
        found = self._read(write)
        if attempts.unsure and _is_done(found, write):
            return True
        patched(found, [one for one in (*_tests(write), *write.patch) if one.op == "test"], str(write.ref))
        return False

    def _create(self, write: Write) -> None:
        if write.uid is not None:
            self._apply(write)
            return
        attempts = Attempts()
        try:
            self._send(self._request("create", write, write.manifest, query=_MANAGED), write, attempts)
        except AlreadyExistsError:
            if not attempts.unsure or not _holds(self._read(write), write.manifest):
                raise

    def _apply(self, write: Write) -> None:
        """Apply the whole object over the one with the expected uid; a gone one is not made anew."""
        manifest = dict(write.manifest or {})
        manifest["metadata"] = {**manifest.get("metadata", {}), "uid": write.uid}
        query = {**_MANAGED, "force": "true"}
        try:
            self._send(self._request("patch", write, manifest, query=query, content_type=APPLY_PATCH), write)
        except ConflictError as error:
            raise _stale(write, error) from error

    def _delete(self, write: Write) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Orphan" if write.orphan else "Background",
        }
        if write.uid is not None:
            options["preconditions"] = {"uid": write.uid}
        attempts = Attempts()
        try:
            self._send(self._request("delete", write, options), write, attempts)
        except ConflictError as error:
            raise _stale(write, error) from error
        except NotFoundError:
            if not attempts.unsure:
                raise

    def _event(self, write: Write) -> None:
        attempts = Attempts()
        try:
            self._requests.send(self._request("create", write, write.manifest), attempts)
        except AlreadyExistsError:
            if write.patch and not attempts.unsure:
                self._count_on(write)

    def _count_on(self, write: Write) -> None:
        """Raise the count of an Event; `write` has its other changes. A lost race loses one count."""
        for _ in range(2):
            count = value_at(self._read(write), "/count")
            raised = PatchOperation("add", "/count", count + 1 if isinstance(count, int) else 1)
            with suppress(ConflictError, InvalidError):
                self._send(self._patch_request(replace(write, patch=(raised, *write.patch))), write)
                return

    def _request(self, verb: str, write: Write, body: Any, subresource: str = "", **how: Any) -> ApiRequest:
        """Return what asks for `verb` on the object that is written, or on a subresource of it."""
        path = self._path(write) + subresource
        if verb == "create":
            path = collection(write.ref.group, _version(write), self._plural, write.ref.namespace)
        operation = self._question(verb, write, subresource)
        return ApiRequest(_METHODS[verb], path, operation, body=msgspec.json.encode(body), writes=True, **how)

    def _send(self, request: ApiRequest, write: Write, attempts: Attempts | None = None) -> None:
        """Send a write; what is forbidden although we have the right to was refused by admission or a quota."""
        try:
            self._answered(request, attempts or Attempts())
        except ForbiddenError as error:
            if self._may(request.operation, write):
                raise RefusedError(f"{write.ref}: {error.words}, expected it to be accepted") from error
            raise

    def _answered(self, request: ApiRequest, attempts: Attempts) -> None:
        """Send a write until its answer is that of an API server, twice at most.

        What answers in another way, such as a gateway with a page of its own, may not have passed it on.

        Raises:
            MalformedAnswerError: it answered like that twice.
        """
        for last in (False, True):
            answer = self._requests.send(request, attempts)
            try:
                decoded(answer, _Written, request.operation)
                return
            except MalformedAnswerError:
                attempts.unsure += 1
                if last:
                    raise

    def _may(self, operation: Operation, write: Write) -> bool:
        _, slash, subresource = operation.resource.partition("/")
        name = "" if operation.verb == "create" else write.ref.name
        right = Right(write.ref.group, f"{self._plural}{slash}{subresource}", operation.verb, name=name)
        try:
            return is_allowed(self._requests, operation.cluster, right, write.ref.namespace, _version(write))
        except ClusterError:
            return False

    def _read(self, write: Write) -> Any:
        operation = self._question("get", write)
        answer = self._requests.send(ApiRequest("GET", self._path(write), operation))
        return decoded_object(answer, operation)

    def _path(self, write: Write) -> str:
        return one(write.ref.group, _version(write), self._plural, write.ref.namespace, write.ref.name)

    def _question(self, verb: str, write: Write, subresource: str = "") -> Operation:
        resource = resource_name(write.ref.group, self._plural + subresource)
        return Operation(write.ref.cluster, verb, resource, write.ref.namespace, write.ref.name)


def _version(write: Write) -> str:
    return write.api_version.rpartition("/")[2]


def _tests(write: Write) -> list[PatchOperation]:
    return [] if write.uid is None else [PatchOperation("test", "/metadata/uid", write.uid)]


def _wire(operation: PatchOperation) -> dict[str, Any]:
    value = {} if operation.op == "remove" else {"value": operation.value}
    return {"op": operation.op, "path": operation.path, **value}


def _stale(write: Write, error: ClusterError) -> StaleError:
    return StaleError(f"{write.ref}: changed meanwhile, expected it as the plan saw it; plan again ({error})")


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
