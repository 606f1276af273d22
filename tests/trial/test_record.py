"""Is a record strict JSON, and is a broken line named?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.trial.record import TrialRecord, append_records, parse_record, read_records

RECORD = TrialRecord(
    ablation="a", world="w", arm="x", seed=0, profile="smoke", digest="d", status="finished",
    metrics={"m": {"macro": 1.0}}, curve={"evaluation": {"step": [0]}}, budget={"flops": 1},
    config={}, environment={}, wall_seconds=0.5,
)  # fmt: skip


def test_lines_round_trip(tmp_path: Path) -> None:
    append_records(tmp_path / "runs" / "a.jsonl", [RECORD, replace(RECORD, seed=1)])
    append_records(tmp_path / "runs" / "a.jsonl", [replace(RECORD, seed=2)])
    assert [r.seed for r in read_records(tmp_path / "runs" / "a.jsonl")] == [0, 1, 2]
    assert read_records(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_becomes_null(value: float) -> None:
    line = replace(RECORD, metrics={"m": {"macro": value}}).line()
    assert json.loads(line)["metrics"] == {"m": {"macro": None}}
    assert parse_record(line, "here").metrics["m"]["macro"] is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"schema": 1, "abl', "not JSON"),
        ("[1]", "expected an object, got list"),
        ('{"schema": 7}', "schema must be 1, got 7"),
        ('{"schema": 1}', "field 'ablation' is missing"),
        ('{"schema": 1, "hat": 2}', "unknown field 'hat'"),
    ],
)
def test_a_broken_line_is_named(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(RECORD.line() + "\n" + line + "\n")
    with pytest.raises(ValueError, match=complaint) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path}:2: ")
