"""Two results folders side by side: which cells and which verdicts are the same in both?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tabulate import tabulate

from harness.report.page_reference import EXPLAINED, Pair, beside
from harness.report.stats import Interval
from harness.report.verdicts import Verdict, every_verdict
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, read_records

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class CellCount:
    """The cells (arm and seed) of one world: in how many folders, and how alike.

    `same_digest` and `same_metrics` count among `both`; `largest_difference` is that of the primary
    metric's macro mean, None where no cell has it in both.
    """

    ablation: str
    world: str
    only_first: int
    only_second: int
    both: int
    same_digest: int
    same_metrics: int
    largest_difference: float | None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Every world's cells, every contrast that both folders have, and those of one alone."""

    cells: tuple[CellCount, ...]
    pairs: tuple[Pair, ...]
    unpaired: tuple[Verdict, ...]


def compare_results(ablations: Sequence[Ablation], first: Path, second: Path) -> Compared:
    """Hold the runs of `first` beside those of `second`.

    Raises ValueError for a folder without runs/, and where the two have no ablation in common.
    """
    for folder in (first, second):
        if not (folder / "runs").is_dir():
            raise ValueError(f"results must be a folder with runs/, got {str(folder)!r}")
    counted: list[CellCount] = []
    pairs: list[Pair] = []
    unpaired: list[Verdict] = []
    for ablation in ablations:
        ours, theirs = (
            read_records(folder / "runs" / f"{ablation.name}.jsonl") for folder in (first, second)
        )
        if not ours or not theirs:
            continue
        counted += [_count(ablation, world, ours, theirs) for world in ablation.worlds]
        here, there = every_verdict(ablation, ours), every_verdict(ablation, theirs)
        pairs += (found := beside(here, there))
        paired = {id(v) for pair in found for v in (pair.here, pair.published)}
        unpaired += [v for v in (*here, *there) if id(v) not in paired]
    if not counted:
        raise ValueError(f"{first} and {second} must have runs of one ablation in common, got none")
    return Compared(cells=tuple(counted), pairs=tuple(pairs), unpaired=tuple(unpaired))


def _count(
    ablation: Ablation, world: str, first: Sequence[TrialRecord], second: Sequence[TrialRecord]
) -> CellCount:
    ours, theirs = (_newest(records, world) for records in (first, second))
    shared = [key for key in ours if key in theirs]
    metric = ablation.worlds[world].metric
    values = [(_macro(ours[key], metric), _macro(theirs[key], metric)) for key in shared]
    gaps = [abs(a - b) for a, b in values if a is not None and b is not None]
    return CellCount(
        ablation=ablation.name,
        world=world,
        only_first=len(ours) - len(shared),
        only_second=len(theirs) - len(shared),
        both=len(shared),
        same_digest=sum(ours[key].digest == theirs[key].digest for key in shared),
        same_metrics=sum(
            (ours[key].status, ours[key].metrics) == (theirs[key].status, theirs[key].metrics)
            for key in shared
        ),
        largest_difference=max(gaps, default=None),
    )


def _newest(records: Sequence[TrialRecord], world: str) -> dict[Key, TrialRecord]:
    """The newest record of every cell: a runs file is append-only."""
    return {(r.profile, r.arm, r.seed): r for r in records if r.world == world}


def _macro(record: TrialRecord, metric: str) -> float | None:
    return record.metrics.get(metric, {}).get("macro") if record.status == "finished" else None


def as_json(compared: Compared) -> dict[str, Any]:
    """Plain JSON; null stands for a bound that is not there."""
    return {
        "cells": [asdict(count) for count in compared.cells],
        "verdicts": [
            {
                **_named(pair.here),
                "agree": pair.here.verdict == pair.published.verdict,
                "agreement": pair.agreement,
                "first": _told(pair.here),
                "second": _told(pair.published),
            }
            for pair in compared.pairs
        ],
        "unpaired": [_named(verdict) for verdict in compared.unpaired],
    }


def _named(verdict: Verdict) -> dict[str, str]:
    names = ("ablation", "world", "arm", "control")
    return {name: str(getattr(verdict, name)) for name in names}


def _told(verdict: Verdict) -> Mapping[str, Any]:
    d = verdict.difference
    bounds = (None, None, None) if d is None else (d.estimate, d.low, d.high)
    numbers = [x if x is not None and isfinite(x) else None for x in bounds]
    told = dict(zip(("difference", "low", "high"), numbers, strict=True))
    return {"verdict": verdict.verdict, "seeds": verdict.seeds, **told}


def in_words(compared: Compared) -> str:
    """Two tables and the answer."""
    cells = [
        (c.ablation, c.world, c.both, c.same_digest, c.same_metrics, _gap(c.largest_difference),
         c.only_first, c.only_second)
        for c in compared.cells
    ]  # fmt: skip
    verdict_rows = [
        (p.here.ablation, p.here.world, f"{p.here.arm} against {p.here.control}",
         "agree" if p.here.verdict == p.published.verdict else "differ",
         _shown(p.here), _shown(p.published), p.agreement)
        for p in compared.pairs
    ]  # fmt: skip
    first = _grid(cells, ("ablation", "world", "cells in both", "same digest", "same bits",
                          "largest difference", "only first", "only second"))  # fmt: skip
    second = _grid(verdict_rows, ("ablation", "world", "contrast", "verdicts", "first", "second",
                                  "estimates"))  # fmt: skip
    return "\n".join([first, "", second, "", *_answer(compared)]) + "\n"


def _answer(compared: Compared) -> list[str]:
    words = [pair.agreement for pair in compared.pairs]
    agree = sum(p.here.verdict == p.published.verdict for p in compared.pairs)
    said = [f"{word}: {words.count(word)} ({told})." for word, told in EXPLAINED.items()]
    return [
        f"{agree} of {len(words)} verdicts agree; "
        f"{len(compared.unpaired)} stand in one folder only.",
        *said,
    ]


def _grid(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    return tabulate(rows, headers, tablefmt="simple", disable_numparse=True)


def _gap(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"


def _shown(verdict: Verdict) -> str:
    d: Interval | None = verdict.difference
    if d is None:
        return f"{verdict.verdict}, no pair of seeds finished"
    bounds = f" [{d.low:+.4f}, {d.high:+.4f}]" if isfinite(d.high - d.low) else ""
    return f"{verdict.verdict} {d.estimate:+.4f}{bounds}"
