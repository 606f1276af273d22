"""How does a study run from the first cell to the last, whatever ends in between?"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from optuna.trial import TrialState

from harness.study.collect import Collector
from harness.study.plan import Cell
from harness.study.queue import Failure, Queue
from harness.study.request import Request
from harness.study.results import Results, write_whole
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from harness.study.storage import patiently

POLL_SECONDS = 0.2
REAP_SECONDS = 0.25
LOOKAHEAD_CELLS = 8  # per worker: enough to be busy while a report is drawn
LOOKAHEAD_AT_LEAST = 32  # so that workers who join find something


@runtime_checkable
class Watcher(Protocol):
    """Who is told how it goes; see `harness.study.progress`."""

    def say(self, line: str) -> None:
        """Something that happened once."""

    def begin(self, schedules: Sequence[Schedule], workers: int) -> None:
        """What is going to be run."""

    def update(self, schedules: Sequence[Schedule]) -> None:
        """Called a few times per second."""

    def finished(self, schedule: Schedule) -> None:
        """Nothing is left to run of an ablation: all its cells are filed, or have failed."""


@runtime_checkable
class Workers(Protocol):
    """Who starts workers: processes here (`harness.study.pool`), or jobs of a cluster."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exception: object) -> None: ...

    def keep(self, count: int) -> None:
        """See to it that `count` are at work."""

    def progressed(self) -> None:
        """A cell was finished."""


@dataclass(kw_only=True)
class Planner:
    """The one process that decides what is queued. Nothing in it outlives it."""

    results: Results
    runs: Runs
    queue: Queue
    collector: Collector
    schedules: Sequence[Schedule]
    workers: int
    watcher: Watcher
    open: list[Schedule] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    records_used: int = 0
    reaped_at: float = -REAP_SECONDS

    def step(self, pool: Workers) -> bool:
        """Look, file, queue what has become ready; returns whether anything is left to do.

        The queue is looked at before the runs: a cell that has just left the queue has its record
        on disk by then, so it can never be taken for one that is still to be run.
        """
        self._reap()
        pending = self.queue.pending()
        self.failures = self.queue.failed_for_good()
        self.collector.collect()
        if self._take_in():
            pool.progressed()
        queued = self._top_up(pending)
        self._close()
        pool.keep(min(self.workers, queued))
        self.watcher.update(self.schedules)
        return bool(self.open)

    def _take_in(self) -> bool:
        """Let searches go on and file copies; returns whether there was anything new.

        Filing reads what workers wrote meanwhile, so this ends only when all that was read is used.
        """
        self.runs.refresh()
        was_new = self.runs.records_read != self.records_used
        while self.runs.records_read != self.records_used:
            self.records_used = self.runs.records_read
            for schedule in self.schedules:
                schedule.advance()
        return was_new

    def _reap(self) -> None:
        if time.monotonic() - self.reaped_at >= REAP_SECONDS:
            self.reaped_at = time.monotonic()
            self.queue.reap(self._is_done, self.reaped_at)

    def _is_done(self, digest: str) -> bool:
        return bool(self.runs.known(digest) or self.runs.explored(digest))

    def _top_up(self, pending: Mapping[str, TrialState]) -> int:
        """Queue ablation after ablation until no worker can run dry; returns cells in the queue.

        Not all at once: every process that asks reads whatever waits.
        """
        queued = set(pending)
        running = list(pending.values()).count(TrialState.RUNNING)  # wherever they are
        enough = max(LOOKAHEAD_AT_LEAST, LOOKAHEAD_CELLS * max(self.workers, running))
        for schedule in self.open:
            ready: dict[str, Cell] = {}
            for cell in schedule.wanted():
                if len(queued) + len(ready) >= enough:
                    break
                if cell.digest not in queued and cell.digest not in self.failures:
                    ready.setdefault(cell.digest, cell)
            self.queue.enqueue(ready.values())
            queued |= set(ready)
        return len(queued)

    def _close(self) -> None:
        """Report ablations that are whole, or of which nothing is left that could be run."""
        for schedule in list(self.open):
            if any(cell.digest not in self.failures for cell in schedule.wanted()):
                continue
            self.open.remove(schedule)
            write_plan(self.results, schedule)
            self.watcher.finished(schedule)


def run_study(
    requests: Sequence[Request],
    results: Results,
    watcher: Watcher,
    *,
    pool: Workers,
    workers: int,
    storage: str | None = None,
) -> list[Failure]:
    """Run every cell of `requests` that `results` lacks; returns those that cannot be run.

    The queue lives in `results`, or at `storage`. Raises ValueError where something in the folder
    cannot be read or the storage is not to be used, OSError where the folder cannot be written to,
    StorageLost where the storage went away, and what `pool` raises. Whenever it is stopped, the
    same call goes on from there.
    """
    results.prepare()
    with results.sole_planner(lambda: watcher.say("waiting for the other `opd run` to end")):
        runs = Runs(results)
        for report in runs.mend():
            watcher.say(report)
        runs.refresh()
        queue = Queue(results, storage)
        queue.begin()
        schedules = [Schedule(request, runs) for request in requests]
        for schedule in schedules:
            write_plan(results, schedule)
        queue.withdraw({cell.digest for schedule in schedules for cell in schedule.wanted()})
        planner = Planner(
            results=results,
            runs=runs,
            queue=queue,
            collector=Collector(queue=queue, runs=runs),
            schedules=schedules,
            workers=workers,
            watcher=watcher,
            open=list(schedules),
        )
        watcher.begin(schedules, workers)
        with pool:
            while patiently(lambda: planner.step(pool), queue.where):
                time.sleep(POLL_SECONDS)
        return list(planner.failures.values())


def write_plan(results: Results, schedule: Schedule) -> None:
    """Keep what was asked for beside the runs; where all else is equal, arms from before stay."""
    plan = schedule.as_json()
    path = results.plans / f"{plan['ablation']}.json"
    if path.exists():
        before = read_plan(path)
        if all(before.get(key) == plan[key] for key in ("profile", "seeds", "set")):
            for world, arms in plan["worlds"].items():
                plan["worlds"][world] = before["worlds"].get(world, {}) | arms
            plan["tuned"] = before["tuned"] | plan["tuned"]
    write_whole(path, json.dumps(plan, indent=1, sort_keys=True) + "\n")


def read_plan(path: Path) -> dict[str, Any]:
    """A plan that `write_plan` wrote; raises ValueError naming the file where it is none."""
    try:
        plan: dict[str, Any] = json.loads(path.read_text())
    except ValueError:
        raise ValueError(f"{path}: not a plan; remove it, the next run writes it again") from None
    return plan
