"""How does a study look to somebody who started it in a shell, and how does it end?"""

import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from harness.study.ablation import Ablation
from harness.study.launch import Workers, run_study
from harness.study.pool import LocalPool
from harness.study.progress import ConsoleWatcher
from harness.study.queue import Failure
from harness.study.request import Request
from harness.study.results import Results
from harness.study.schedule import Schedule
from harness.study.storage import check_storage
from harness.trial.record import read_records

LAUNCHERS = ("local", "slurm")
DONE, FAILED, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a study is run: how many workers, which, started by what, and where they queue."""

    workers: int
    runner: str
    storage: str | None = None
    launcher: str = "local"
    slurm: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_storage(self.storage, self.workers)
        if self.launcher not in LAUNCHERS:
            allowed = ", ".join(LAUNCHERS)
            raise ValueError(f"--launcher must be one of {allowed}, got {self.launcher!r}")
        if self.slurm and self.launcher != "slurm":
            raise ValueError("--slurm is for --launcher slurm")

    def pool(self, results: Results) -> Workers:
        """Who starts the workers."""
        if self.launcher == "local":
            return LocalPool(results=results, runner=self.runner, storage=self.storage)
        from harness.study.slurm import SlurmPool  # here: submitit is an extra

        return SlurmPool(
            results=results, runner=self.runner, storage=self.storage, options=self.slurm
        )


def watch(asked: Sequence[Request], results: Results, how: Manner) -> int:
    """Run and report, with progress; returns the exit code.

    0: done. 1: a trial failed for good, or a report could not be made; all else was done.
    130: stopped by Ctrl-C or SIGTERM.
    """
    reporter = Reporter(results=results.root)
    watcher = ConsoleWatcher(console=Console(), on_finished=reporter.lines)
    pool = how.pool(results)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failures = run_study(
            asked, results, watcher, pool=pool, workers=how.workers, storage=how.storage
        )
    except KeyboardInterrupt:
        watcher.end()
        _say("stopped; nothing is lost: the same command goes on from here")
        return INTERRUPTED
    finally:
        watcher.end()
    for failure in failures:
        _say(describe(failure))
    return FAILED if failures or reporter.errors else DONE


def _say(line: str) -> None:
    print(f"opd: {line}", file=sys.stderr)


def describe(failure: Failure) -> str:
    """Which cell, how often, and the error."""
    cell = failure.cell
    where = f"{cell.ablation}/{cell.world}/{cell.arm}, seed {cell.seed}"
    return f"{where}: failed {failure.attempts} times\n{failure.error}"


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """Makes reports as ablations end; one that cannot be made stops no other."""

    results: Path
    errors: list[Exception] = field(default_factory=list)

    def lines(self, schedule: Schedule) -> list[str]:
        """Write the report; what it decides, and where it lies."""
        try:
            return [
                *report(schedule.request.ablation, self.results),
                *schedule.tuned_lines(),
            ]
        except Exception as error:
            self.errors.append(error)
            return traceback.format_exception(error)


def report(ablation: Ablation, results: Path) -> list[str]:
    """Write the report of one ablation; its question, verdicts and files, a line each."""
    from harness.report.verdicts import Verdict, verdicts  # here: plotting takes long to load
    from harness.report.write import write_report

    paths = write_report(ablation, results)
    found = verdicts(ablation, read_records(results / "runs" / f"{ablation.name}.jsonl"))
    where = [str(path) for path in paths if path.suffix in (".md", ".svg")]
    return [f"{ablation.name}: {ablation.question}", *map(Verdict.sentence, found), *where]
