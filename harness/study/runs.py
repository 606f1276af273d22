"""What is known already? The runs files: read as they grow, appended once per cell."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.study.plan import Cell, Filing
from harness.study.results import Results, whole_lines
from harness.trial.record import Status, TrialRecord, append_records, parse_record

EXPLORE = "explore"


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the planner keeps in memory of a record, and where the whole of it stands."""

    file: "RunsFile"
    offset: int
    status: Status
    macro: dict[str, float | None]
    wall_seconds: float
    profile: str


@dataclass(kw_only=True)
class RunsFile:
    """One `runs/NAME.jsonl`. `refresh` reads what was added; `append` adds what is not there."""

    results: Results
    name: str
    filed: set[Filing] = field(default_factory=set)
    known: dict[str, Known] = field(default_factory=dict)
    read_bytes: int = 0
    read_lines: int = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self.results.runs / f"{self.name}.jsonl"

    def refresh(self) -> int:
        """Take in the whole lines that were added since; returns how many records.

        Raises ValueError naming file and line where one cannot be read.
        """
        if not self.path.exists() or self.path.stat().st_size <= self.read_bytes:
            return 0
        with self.path.open("rb") as file:
            file.seek(self.read_bytes)
            added = [line for line in file if line.endswith(b"\n")]
        for line in added:
            self.read_lines += 1
            if line.strip():
                self._take(self._parse(line))
            self.read_bytes += len(line)
        return len(added)

    def _parse(self, line: bytes) -> TrialRecord:
        where = f"{self.path}:{self.read_lines}"
        try:
            return parse_record(line.decode(), where)
        except UnicodeDecodeError as error:
            raise ValueError(f"{where}: not UTF-8: {error.reason}") from None

    def _take(self, record: TrialRecord) -> None:
        self.filed.add((record.world, record.arm, record.seed, record.digest))
        self.known[record.digest] = Known(
            file=self,
            offset=self.read_bytes,
            status=record.status,
            macro={name: values.get("macro") for name, values in record.metrics.items()},
            wall_seconds=record.wall_seconds,
            profile=record.profile,
        )

    def record(self, offset: int) -> TrialRecord:
        """The record of the line that starts at `offset`."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return self._parse(file.readline())

    def append(self, records: Iterable[TrialRecord]) -> int:
        """Write those not filed yet, flushed to disk, under the file's lock; returns how many."""
        with self.results.lock(self.name):
            self.mend()
            self.refresh()
            new = [
                record
                for record in records
                if (record.world, record.arm, record.seed, record.digest) not in self.filed
            ]
            append_records(self.path, new)
            self.refresh()
        return len(new)

    def mend(self) -> str | None:
        """Deal with a last line that was not written whole; callers hold the lock.

        Completes it if only its end is missing, else cuts it off: its cell is run again.
        """
        if not self.path.exists():
            return None
        whole, size = whole_lines(self.path), self.path.stat().st_size
        if whole == size:
            return None
        with self.path.open("r+b") as file:
            file.seek(whole)
            if _is_json(file.read()):
                file.write(b"\n")
                return f"{self.path}: completed the last line, which lacked its end"
            file.truncate(whole)
            return f"{self.path}: cut off a half-written last line ({size - whole} bytes)"


class Runs:
    """All runs files of a results folder."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._files: dict[str, RunsFile] = {}
        for path in sorted(results.runs.glob("*.jsonl")):
            self.file(path.stem)

    def file(self, name: str) -> RunsFile:
        """The runs file of one ablation."""
        return self._files.setdefault(name, RunsFile(results=self._results, name=name))

    def mend(self) -> list[str]:
        """Repair every file that needs it; returns what was done, in words."""
        reports = []
        for file in self._files.values():
            with self._results.lock(file.name):
                reports.append(file.mend())
        return [report for report in reports if report]

    def refresh(self) -> int:
        """Take in what was added to any file; returns how many records."""
        return sum(file.refresh() for file in self._files.values())

    @property
    def records_read(self) -> int:
        """How much is known: grows with every record that is taken in, by whatever call."""
        return sum(file.read_lines for file in self._files.values())

    def known(self, digest: str) -> Known | None:
        """The record of a confirm cell, under whatever ablation."""
        for name, file in self._files.items():
            if name != EXPLORE and digest in file.known:
                return file.known[digest]
        return None

    def explored(self, digest: str) -> Known | None:
        """The record of a tuning cell."""
        return self.file(EXPLORE).known.get(digest)

    def is_filed(self, cell: Cell) -> bool:
        """Whether the cell's record stands in the runs file of its own ablation."""
        return cell.filing in self.file(cell.ablation).filed

    def file_copies(self, cells: Iterable[Cell]) -> int:
        """File what is known under another ablation or arm; returns how many were copied."""
        copies: dict[str, list[TrialRecord]] = {}
        for cell in cells:
            known = None if self.is_filed(cell) else self.known(cell.digest)
            if known is not None:
                copies.setdefault(cell.ablation, []).append(
                    replace(
                        known.file.record(known.offset),
                        ablation=cell.ablation,
                        world=cell.world,
                        arm=cell.arm,
                        profile=cell.profile,
                    )
                )
        return sum(self.file(name).append(records) for name, records in copies.items())


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
