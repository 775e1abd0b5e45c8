"""The fields of policies: single values, each with what is allowed and expected, and how every document begins."""

import re
from collections.abc import Collection
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

from reconciler.errors import PolicyError
from reconciler.messages import alternatives, nearest, shown
from reconciler.model import QueryKey
from reconciler.untrusted_text import LARGEST, MOST_REPLICAS

_DURATION_PARTS = r"([0-9]{1,3}d)?([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,7}s)?\Z"
MOST_DURATION = timedelta(days=999)


@lru_cache(maxsize=256)
def parse_duration(text: str) -> timedelta | None:
    """Return `90s`, `30m`, `1h30m` or `2d` as a duration; None where `text` is none, or more than 999d."""
    match = re.match(_DURATION_PARTS, text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int((part or "0s")[:-1]) for part in match.groups())
    found = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return found if found <= MOST_DURATION else None


def spelt_duration(duration: timedelta) -> str:
    """Return a duration of whole seconds as `parse_duration` reads it: 1h30m; 0s for none."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


_LABEL_KEY = (
    r"^(?![^/]{254})([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z"
)
_DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z"
_AS_NAMES = "of lower-case letters, digits, - and . that starts and ends with a letter or digit"
# Patterns end in \Z, as Python's $ also stands before a line break at the end; in the JSON Schema it is $.


def expected(words: str, **more: Any) -> dict[str, Any]:
    """Return what a JSON Schema says beside the types: `words` are what a problem says was expected."""
    return {"x-expected": words, **more}


def matching(pattern: str, words: str, **more: Any) -> Meta:
    """Return what is said of a text that matches `pattern`: `words` are what a problem says was expected."""
    return Meta(pattern=pattern, extra_json_schema=expected(words), **more)


def either(one: str, other: str) -> dict[str, Any]:
    """Return what a JSON Schema says of two fields of which one is given. `PolicyDocument.check_either` checks it."""
    return {"oneOf": [{"required": [one]}, {"required": [other]}], "x-expected": f'either "{one}" or "{other}"'}


_CLUSTER = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?"
_OBJECTS = r"^([a-z0-9.*?-]|\[!?[a-z0-9.-]+\])+\Z"
_CHARACTERS = "letters, digits, -, _ and ."

Text = Annotated[str, Meta(min_length=1)]
Query = Annotated[str, Meta(max_length=16384, extra_json_schema=expected("a query"))]
Name = Annotated[str, matching(_DNS_NAME, f"a name {_AS_NAMES}", min_length=1, max_length=253)]
ObjectName = Annotated[str, matching(_DNS_NAME, f"a name {_AS_NAMES}", max_length=253)]
NamespaceName = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z",
        "a namespace: at most 63 lower-case letters, digits and - that starts and ends with a letter or digit",
    ),
]
Kind = Annotated[str, matching(r"^[A-Za-z][A-Za-z0-9]*\Z", "a kind like Deployment")]
KindAndGroup = Annotated[
    str, matching(r"^[A-Za-z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z", "a kind like Deployment")
]
"""A kind, alone or with its group as kubectl writes it: Service.serving.knative.dev."""

ApiVersion = Annotated[
    str, matching(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*\Z", "an apiVersion like apps/v1")
]
LabelKey = Annotated[str, matching(_LABEL_KEY, f"a label key: [prefix/]name of {_CHARACTERS}")]
LabelValue = Annotated[
    str, matching(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z", f"a label value of at most 63 {_CHARACTERS}")
]
AnnotationKey = Annotated[str, matching(_LABEL_KEY, f"an annotation key: [prefix/]name of {_CHARACTERS}")]
Labels = dict[LabelKey, LabelValue]
Annotations = dict[AnnotationKey, str]

ClusterName = Annotated[
    str,
    matching(rf"^{_CLUSTER}\Z", f"the name of a cluster: {_CHARACTERS} that starts and ends with a letter or digit"),
]
ClusterOrAll = Annotated[str, matching(rf"^(\*|{_CLUSTER})\Z", 'the name of a cluster, or "*"')]
ClusterPattern = Annotated[
    str, matching(r"^([A-Za-z0-9_.*?-]|\[!?[A-Za-z0-9_.-]+\])+\Z", "the name of a cluster or a pattern like eu-*")
]
NamespacePattern = Annotated[
    str, matching(r"^([a-z0-9*?-]|\[!?[a-z0-9-]+\])+\Z", "a namespace or a pattern like dev-*")
]
ServicePattern = Annotated[str, matching(_OBJECTS, "the name of a Service or a pattern like web-*")]
WorkloadPattern = Annotated[str, matching(_OBJECTS, "the name of a workload or a pattern like web-*")]

HttpUrl = Annotated[
    str,
    matching(r"^https?://[^\s/?#@]+(/[^\s?#]*)?\Z", "an http or https URL without user, password, query or fragment"),
]

Replicas = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Number = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]

PositiveDuration = Annotated[
    str,
    matching(
        rf"^(?=.*[1-9])(?=[0-9]){_DURATION_PARTS}", "a duration like 90s, 30m, 1h30m or 2d, above zero and at most 999d"
    ),
]
"""A duration as it is written, for queries."""


class Duration(timedelta):
    """A duration, written `1h30m`. `+duration` is a plain timedelta."""

    json_schema: ClassVar = {
        "type": "string",
        "pattern": rf"^(?=[0-9]){_DURATION_PARTS}",
        "x-expected": "a duration like 90s, 30m, 1h30m or 2d, at most 999d",
    }


class Share(float):
    """A fraction from 0 to 1, written `25%`."""

    json_schema: ClassVar = {
        "type": "string",
        "pattern": r"^(100(\.0{1,6})?|[0-9]{1,2}(\.[0-9]{1,6})?)%\Z",
        "x-expected": 'a share from "0%" to "100%"',
    }


def scalar_of(kind: Any, value: Any) -> Duration | Share:
    """Return the value of the type `kind` that is written as `value`.

    Raises:
        ValueError: it cannot be read.
    """
    if isinstance(value, str) and kind in (Duration, Share) and re.search(kind.json_schema["pattern"], value):
        if kind is Share:
            return Share(float(value.removesuffix("%")) / 100)
        if (found := parse_duration(value)) is not None:
            return Duration(days=found.days, seconds=found.seconds)
    raise ValueError(f"{value!r} is no {kind.__name__.lower()}")


def scalar_text(value: Duration | Share) -> str:
    """Return a Duration or a Share as policies write it."""
    return f"{round(value * 100, 6):.15g}%" if isinstance(value, Share) else spelt_duration(value)


T = TypeVar("T")
V = TypeVar("V", bound=Struct)

API_VERSION = "reconciler/v1alpha1"


class Fields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping with these fields and no other. `json_schema` adds what the types cannot say to its JSON Schema.

    Modules of such structs do without `from __future__ import annotations`: see `Wire` in `backends/decode/values.py`.
    """

    json_schema: ClassVar[dict[str, Any]] = {}


def given(value: T | UnsetType) -> T | None:
    """Return the value of an optional field, None where it is not set."""
    return None if value is UNSET else value


def from_fields(kind: type[V], *stated: Struct, **derived: Any) -> V:
    """Return a `kind`, which has what is `stated` of its fields, apart from what is `derived` from that."""
    named: dict[str, Any] = {}
    for fields in stated:
        named |= structs.asdict(fields)
    return kind(**({name: named[name] for name in kind.__struct_fields__ if name in named} | derived))


class _MetadataFields(Fields, frozen=True, kw_only=True):
    """The name of the policy, with its labels and annotations."""

    name: Name
    """name is unique among the policies of its kind."""
    labels: Labels = field(default_factory=dict)
    """labels are for your own tools; the reconciler does not read them."""
    annotations: Annotations = field(default_factory=dict)
    """annotations are for your own tools; the reconciler does not read them."""


KIND = Meta(description="kind is the kind of this document.")


class OwnDocument(Fields, Generic[T], frozen=True, kw_only=True):
    """What a document of a kind of our own begins with; `T` is the literal of the kind."""

    api_version: Literal["reconciler/v1alpha1"]
    """apiVersion is the version of the schema that this document follows."""
    kind: Annotated[T, KIND]
    metadata: _MetadataFields
    """metadata names the policy."""


# What policies with a selector have in common, and how much they may take down for the first time.


Mode = Annotated[
    Literal["Enforce", "Observe"],
    Meta(
        description="mode is Enforce, or Observe. Changes of a policy in mode Observe are planned and reported, but "
        "never applied."
    ),
]
PRIORITY = (
    "priority decides which of two policies applies to a workload that both select: the one with the higher priority. "
    "If both are equal,"
)
PRODUCTION = Meta(
    description="production is true for a policy that selects what is production too. Without it, production is left "
    "as it is, and no policy of lower priority decides there."
)


_WORKLOADS = Meta(
    description="workloads is how many workloads may go idle for the first time in 24 hours. What was idled on the "
    "same hours, or on a metric, in the last 35 days does not count."
)
_REPLICAS = Meta(description="replicas is how many replicas one run may remove.")


class _Numbers(Fields, frozen=True):
    """Limits, by what they count."""

    def of(self, unit: str) -> int | None:
        """Return the limit of "workloads" or "replicas", None where it is not stated."""
        return given(getattr(self, unit, UNSET))


class Limits(_Numbers, frozen=True):
    """Limits of what goes idle for the first time. Each that is stated applies instead of the default."""

    workloads: Annotated[Replicas | UnsetType, _WORKLOADS] = UNSET
    replicas: Annotated[Replicas | UnsetType, _REPLICAS] = UNSET


class ReplicasLimits(_Numbers, frozen=True):
    """The limit of a policy that idles nothing. If it is stated, it applies instead of the default."""

    replicas: Annotated[Replicas | UnsetType, _REPLICAS] = UNSET


class DefaultLimit(Fields, frozen=True):
    """The greater of share of what runs, rounded up, and atLeast is allowed; of replicas at least 10."""

    share: Share = Share(0.1)
    """share is the part of what runs, idled workloads included."""
    at_least: Replicas = 10
    """atLeast is allowed however little runs."""


class ClusterDefaultLimit(DefaultLimit, frozen=True):
    """The greater of share of what runs in a cluster, rounded up, and atLeast is allowed; of replicas at least 10."""

    share: Share = Share(0.25)
    at_least: Replicas = 3


class DefaultLimits(Fields, frozen=True):
    """What the policies that state no limit may take down together. Both limits apply."""

    per_cluster: ClusterDefaultLimit = ClusterDefaultLimit()
    """perCluster is the limit in each cluster."""
    fleet: DefaultLimit = DefaultLimit()
    """fleet is the limit in all clusters together."""


class FleetLimits(Fields, frozen=True):
    """Limits of a Fleet."""

    default: DefaultLimits = DefaultLimits()
    """default limits all policies together that state no limit and belong to no tenant, the number of workloads that go
    idle for the first time as well as the number of replicas that are removed otherwise."""


# The queries of policies: PromQL, in which `{{ window }}`, `{{ cluster }}` and `{{ policy }}` stand for their values.
# Nothing is evaluated. What looks like more than that is refused, so that nobody takes it for a template.


VARIABLES = ("cluster", "policy", "window")
_LONGEST = 20_000
_VARIABLE = r"(?a)\{\{[ \t]*(\w+)[ \t]*\}\}"
_SYNTAX = r"(?s)\{[{%#].{0,40}"


def query_fault(text: str, variables: Collection[str] = VARIABLES) -> str | None:
    """Return what is wrong with a query in which `variables` may stand, None where it can be filled in."""
    if not text.strip():
        return "is empty, expected a query"
    if len(text) > _LONGEST:
        return f"has {len(text)} characters, expected at most {_LONGEST}"
    pieces = re.split(_VARIABLE, text)
    unknown = sorted(set(pieces[1::2]) - set(variables))
    if unknown:
        return f'uses "{unknown[0]}", expected only {alternatives(sorted(variables))}{nearest(unknown[0], variables)}'
    syntax = next((found for piece in pieces[::2] if (found := re.search(_SYNTAX, piece))), None)
    if syntax is None:
        return None
    names = ", ".join(f"{{{{ {name} }}}}" for name in sorted(variables))
    return f"holds {shown(syntax[0])}, expected plain text with no more than {names} in it"


def render_query(key: QueryKey) -> str:
    """Return the text of `key` as it goes to the metrics source. Values are never looked at again.

    Raises:
        PolicyError: it is too long with its values in it.
    """
    values = {"window": key.window, "cluster": key.cluster, "policy": key.policy}
    filled = re.sub(_VARIABLE, lambda match: values.get(match[1], match[0]), key.template.removesuffix("\n"))
    if len(filled) > _LONGEST:
        raise PolicyError(f"is {len(filled)} characters long when rendered, expected at most {_LONGEST}")
    return filled
