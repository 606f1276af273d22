"""What is kept of a trial, and how does a line of it survive a crash?"""

import dataclasses
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

SCHEMA = 1
Status = Literal["finished", "diverged"]


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One finished cell: one line of `runs/NAME.jsonl`.

    `metrics` maps a metric to its value per domain and `macro` (their mean); None where a diverged
    run has none. `curve["evaluation"]` and `curve["training"]` map a column to its values, `step`
    first. `budget` counts tokens, FLOPs and seconds of this trial and of making its teachers.
    """

    ablation: str
    world: str
    arm: str
    seed: int
    profile: str
    digest: str
    status: Status
    metrics: dict[str, dict[str, float | None]]
    curve: dict[str, dict[str, list[float | None]]]
    budget: dict[str, float]
    config: dict[str, Any]
    environment: dict[str, Any]
    wall_seconds: float
    cause: str | None = None
    facts: dict[str, float | None] = field(default_factory=dict)
    schema: int = SCHEMA

    def line(self) -> str:
        """This record as one line of strict JSON: no NaN, no infinity, keys sorted."""
        return json.dumps(_finite(dataclasses.asdict(self)), sort_keys=True, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same structure with every NaN and infinity as None."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse_record(line: str, where: str) -> TrialRecord:
    """The record of one line; raises ValueError naming `where` and the field at fault."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{where}: expected an object, got {type(fields).__name__}")
    if fields.get("schema") != SCHEMA:
        raise ValueError(f"{where}: schema must be {SCHEMA}, got {fields.get('schema')!r}")
    known = {f.name: f.default is f.default_factory for f in dataclasses.fields(TrialRecord)}
    for name in fields:
        if name not in known:
            raise ValueError(f"{where}: unknown field {name!r}; allowed: {', '.join(known)}")
    for name, required in known.items():
        if required and name not in fields:
            raise ValueError(f"{where}: field {name!r} is missing")
    return TrialRecord(**fields)


def read_records(path: Path) -> list[TrialRecord]:
    """All records of a runs file, in order; a missing file has none."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [parse_record(line, f"{path}:{n}") for n, line in enumerate(lines, start=1) if line]


def append_records(path: Path, records: Iterable[TrialRecord]) -> None:
    """Append and flush to disk; callers hold the lock of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(record.line() + "\n" for record in records)
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial found out, before it is filed under an ablation; fields as in TrialRecord."""

    status: Status
    metrics: dict[str, dict[str, float | None]]
    curve: dict[str, dict[str, list[float | None]]]
    budget: dict[str, float]
    cause: str | None = None
    facts: dict[str, float | None] = field(default_factory=dict)
