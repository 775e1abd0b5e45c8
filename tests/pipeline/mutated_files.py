"""Files changed at random: bytes of any file, values of YAML and JSON, values of annotations. The seed decides all."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import yaml

from tests.pipeline.calls import Said
from tests.policy.mutations import ODD_VALUES, inside, paths

TOKENS = (
    *(
        b"\x00",
        b"\x1b[31m",
        b"\r",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xae",
        b"\xed\xa0\x80",
        b"\n---\n",
        b"\n...\n",
    ),
    *(
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!python/object:os.system ",
        b"!!binary ",
        b"? ",
        b"|+\n",
        b"{",
        b"[",
        b"}",
        b"]",
        b'"',
    ),
    *(b"9" * 400, b"-1", b"1e999", b".nan", b"0x" + b"f" * 40, b"2147483648"),
    *(b"9999-12-31T23:59:59Z", b"0001-01-01T00:00:00Z"),
    *(b"[" * 3000, b"{a: " * 300, b"\\u0000", b"\\ud800", b"null", b"true", b"~"),
)
HOSTILE_VALUES = (
    *(*ODD_VALUES, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-11-20T22:00:00", "99999999999999999999"),
    *("1" * 5000, "-0", "1_000", "٣", "\x1b]0;x\x07", "\u202e", "{}", "[]", '{"replicas": 1e400}', "[" * 2000, "null"),
    *('[{"kind":"Deployment","name":"x","group":"apps","replicas":2147483648}]', '[{"kind":1}]', '{"at":"","by":[]}'),
    *(2147483648, 10**400, 1e308, float("inf"), float("nan"), -(2**63), {"a": [{}] * 50}),
)
KEYS = (
    *("idling.kubernetes.io/idled-at", "idling.kubernetes.io/unidle-targets", "idling.kubernetes.io/previous-scale"),
    *("reconciler/owner", "reconciler/idled-to", "reconciler/wake-due", "reconciler/cause", "reconciler/awake-until"),
    *("reconciler/awake-since", "reconciler/undone", "reconciler/contested", "reconciler/exclude-until"),
    *("reconciler/wake-requested-at", "reconciler/previous-bounds", "reconciler/previous-suspend"),
    *("reconciler/wake-begun-at", "scale.kubernetes.io/previous-scale"),
    *("reconciler/observed-capacity", "reconciler/frs", "reconciler/policy-digest", "reconciler/on-delete"),
    *("scale.kubernetes.io/scale-reason", "scale.kubernetes.io/scale-time", "reconciler/orphaned-since"),
    *("controller.kubernetes.io/pod-deletion-cost", "reconciler/exclude", "reconciler/status"),
)
"""Every annotation that a run reads."""

Mutant = Callable[[random.Random, bytes], bytes]


def of_bytes(chance: random.Random, content: bytes) -> bytes:
    """Return `content` with bytes flipped, cut out, moved, doubled, or with something odd put in."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at, other = chance.randrange(len(changed) + 1), chance.randrange(len(changed) + 1)
        first, last = min(at, other), min(max(at, other), min(at, other) + 200)
        how = chance.randrange(5)
        if how == 0:
            changed[at:at] = chance.choice(TOKENS)
        elif how == 1:
            del changed[first:last]
        elif how == 2:
            changed[at:at] = changed[first:last] * chance.choice((1, 2, 50))
        elif how == 3 and changed:
            changed[at % len(changed)] = chance.randrange(256)
        else:
            del changed[at:]
    return bytes(changed)


def of_yaml(chance: random.Random, content: bytes) -> bytes:
    """Return YAML with values put in the place of others, taken away or renamed."""
    documents = list(yaml.safe_load_all(content))
    _mutate(chance, documents)
    return yaml.safe_dump_all(documents, allow_unicode=True, sort_keys=False).encode(errors="surrogatepass")


def of_json(chance: random.Random, content: bytes) -> bytes:
    """Return JSON with values put in the place of others, taken away or renamed; of what is no JSON, other bytes."""
    try:
        document = json.loads(content)
    except ValueError:
        return of_bytes(chance, content)
    if not isinstance(document, dict | list) or not document:
        return of_bytes(chance, content)
    _mutate(chance, document)
    return json.dumps(document, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


def of_annotations(chance: random.Random, content: bytes) -> bytes:
    """Return manifests in which a few objects carry annotations of ours with any value."""
    documents = [one for one in yaml.safe_load_all(content) if one]
    objects = [one for document in documents for one in document.get("items", [document])]
    for _ in range(chance.randint(1, 4)):
        metadata = chance.choice(objects).setdefault("metadata", {})
        texts = [value for value in HOSTILE_VALUES if isinstance(value, str)]
        value = chance.choice(texts) if chance.random() < 0.8 else deepcopy(chance.choice(HOSTILE_VALUES))
        place = "annotations" if chance.random() < 0.9 else "labels"
        named = metadata.get(place)
        metadata[place] = {**(named if isinstance(named, dict) else {}), chance.choice(KEYS): value}
    return yaml.safe_dump_all(documents, allow_unicode=True, sort_keys=False).encode(errors="surrogatepass")


def _mutate(chance: random.Random, whole: Any) -> None:
    for _ in range(chance.randint(1, 3)):
        places = [path for path in paths(whole) if path]
        if not places:
            return
        path = chance.choice(places)
        parent, step = inside(whole, path[:-1]), path[-1]
        how = chance.randrange(4)
        if how == 0:
            del parent[step]
        elif how == 1 and isinstance(parent, dict):
            parent[chance.choice((f"{step}x", str(step)[:-1], "\u202e", str(step).upper()))] = parent.pop(step)
        else:
            parent[step] = deepcopy(chance.choice(HOSTILE_VALUES))


DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 64}
LIMIT_SECONDS = 30
"""A run on the quickstart takes a fraction of a second; the machine may be busy."""
BUG = re.compile(r"Traceback|a bug: |\w+\.py:\d")


def judge(said: Said, began: float, mutant: str) -> None:
    assert said.code in DOCUMENTED, f"{mutant}: exit {said.code}\n{said.err}"
    assert not BUG.search(said.err + said.out), f"{mutant}:\n{said.err}\n{said.out[:2000]}"
    assert time.monotonic() - began < LIMIT_SECONDS, f"{mutant}: took {time.monotonic() - began:.0f} s"
