"""`compile`: the rules after all defaults are policies again, and the same ones."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Struct
from msgspec.structs import replace

from reconciler.policy.compiled import compile_policies
from reconciler.policy.kinds.fields import Share, parse_duration, scalar_of, scalar_text, spelt_duration
from reconciler.policy.load import read_policies
from reconciler.policy.schemas import load_schema
from reconciler.policy.types import Place
from tests.policy.base import FILES, SAMPLES


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


WRITTEN = {"limits_place": None, "place": Place(""), "digest": "", "warnings": (), "specs": {}}
"""Fields that tell where and how something was written, not what is decided."""


def decided(value: Any) -> Any:
    """Return `value` without what tells where and how it was written."""
    if isinstance(value, tuple):
        return tuple(decided(inside) for inside in value)
    if not isinstance(value, Struct):
        return value
    return replace(
        value, **{name: WRITTEN.get(name, decided(getattr(value, name))) for name in value.__struct_fields__}
    )


def as_policies(rules: list[dict[str, Any]]) -> str:
    return "".join(f"---\n{json.dumps({key: rule[key] for key in rule if key != 'at'})}\n" for rule in rules)


@pytest.mark.parametrize("files", [pytest.param(FILES, id="one of each"), pytest.param(SAMPLES, id="documentation")])
def test_compiled_policies_read_back_are_the_same(tmp_path, files):
    first = read_policies(written(tmp_path / "first", files))
    text = as_policies(compile_policies(first)["rules"])
    second = read_policies(written(tmp_path / "second", {"all.yaml": text}))
    assert decided(second) == decided(first)
    assert decided(second) != decided(replace(first, fleet=replace(first.fleet, home="C")))


def test_compiling_what_was_compiled_changes_nothing(tmp_path):
    rules = compile_policies(read_policies(written(tmp_path / "first", SAMPLES)))["rules"]
    again = compile_policies(read_policies(written(tmp_path / "second", {"all.yaml": as_policies(rules)})))["rules"]
    assert [{**rule, "at": ""} for rule in again] == [{**rule, "at": ""} for rule in rules]


def test_every_rule_meets_its_schema_and_says_every_field_that_has_a_default(tmp_path):
    for rule in compile_policies(read_policies(written(tmp_path / "policies", SAMPLES)))["rules"]:
        document = {key: rule[key] for key in rule if key != "at"}
        schema = load_schema(rule["kind"])
        assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
        fields = schema["properties"]["spec"]["properties"]
        assert {name for name, field in fields.items() if "default" in field} <= rule["spec"].keys()


def test_rules_come_in_fixed_order_each_with_its_place(tmp_path, monkeypatch):
    written(tmp_path / "policies", FILES)
    monkeypatch.chdir(tmp_path)
    compiled = compile_policies(read_policies("policies"))
    assert list(compiled) == ["schemaVersion", "kind", "digest", "rules", "warnings"]
    assert [(rule["at"], rule["kind"], rule["metadata"]["name"]) for rule in compiled["rules"]] == [
        ("policies/fleet.yaml:1", "Fleet", "production"),
        ("policies/calendar.yaml:1", "Calendar", "nights"),
        ("policies/idling.yaml:1", "IdlingPolicy", "idle-dev"),
        ("policies/replicaset.yaml:1", "FederatedReplicaSet", "cache"),
        ("policies/federated.yaml:1", "FederatedReplicaSet", "web"),
        ("policies/downscale.yaml:1", "DownscalePolicy", "workers"),
    ]


@given(st.integers(0, 999 * 86_400))
def test_a_duration_is_spelt_as_it_is_read(seconds):
    duration = timedelta(seconds=seconds)
    assert parse_duration(spelt_duration(duration)) == duration


@given(st.integers(0, 100 * 10**4).map(lambda share: f"{share / 10**4:.4f}%"))
def test_a_share_is_spelt_as_it_is_read(text):
    share = scalar_of(Share, text)
    assert scalar_of(Share, scalar_text(share)) == share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1d2h3m4s", 93_784),
        ("0s", 0),
        ("", None),
        ("m", None),
        ("30", None),
        ("30 m", None),
        ("1.5h", None),
        ("-1h", None),
        ("30m1h", None),
        ("1h1h", None),
        ("30M", None),
        ("30m\n", None),
        ("٣m", None),
        ("1234567d", None),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("text", "share"),
    [("25%", 0.25), ("0%", 0), ("100%", 1), ("12.5%", 0.125)],
)
def test_shares(text, share):
    assert scalar_of(Share, text) == share


@pytest.mark.parametrize("text", ["101%", "25", "-1%", "%", "25 %", "٣%"])
def test_what_is_no_share(text):
    with pytest.raises(ValueError, match="is no share"):
        scalar_of(Share, text)
