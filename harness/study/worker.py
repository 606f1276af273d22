"""Who runs the cells? One process, one thread, one cell at a time, until told to stop."""

import errno
import importlib
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch

from harness.domains.base import Split
from harness.study.lease import Beating
from harness.study.plan import Cell
from harness.study.process import this_process
from harness.study.queue import Claim, Queue, Reason
from harness.study.results import Results
from harness.study.runs import RunsFile
from harness.study.storage import StorageLost, patiently
from harness.trial.config import TrialConfig, from_normal_form
from harness.trial.environment import environment
from harness.trial.record import Outcome, TrialRecord

FOLDER_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
UNUSABLE, LOST = 2, 3
T = TypeVar("T")


@runtime_checkable
class Runner(Protocol):
    """What runs a cell: `harness.trial.run.run_trial`, or a stand-in."""

    def __call__(
        self, config: TrialConfig, seed: int, cache: Path, *, held_out: Split
    ) -> Outcome: ...


class Stopped(BaseException):
    """The worker was told to stop; not an Exception, so that no trial catches it."""


def runner_named(name: str) -> Runner:
    """The callable of `package.module:name`."""
    module, _, attribute = name.partition(":")
    runner: Runner = getattr(importlib.import_module(module), attribute)
    return runner


class StopSignal:
    """Signals end the cell at hand, never a write: `wanted` is looked at in between.

    SIGUSR2 is what submitit sends to a job whose time is nearly over.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._in_trial = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True
        if self._in_trial:
            self._in_trial = False
            raise Stopped

    def during(self, trial: Callable[[], Outcome]) -> Outcome:
        """The outcome of `trial`; raises Stopped as soon as a signal comes."""
        if self.wanted:
            raise Stopped
        self._in_trial = True
        try:
            return trial()
        finally:
            self._in_trial = False


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Takes cells from the queue, runs them, files their records."""

    results: Results
    queue: Queue
    runner: Runner
    stop: StopSignal
    environment: dict[str, Any]
    files: dict[str, RunsFile]

    def work(self, is_wanted: Callable[[], bool]) -> None:
        """Run cells until stopped, or until `is_wanted` says no between two cells."""
        owner = this_process()
        while not self.stop.wanted and self._ask(is_wanted):
            claim = self._ask(lambda: self.queue.claim(owner))
            if claim is None:
                time.sleep(self.queue.poll_seconds)
            else:
                self._run(claim)

    def idle_for(self, seconds: float) -> Callable[[], bool]:
        """Says no once nothing has waited or run for so long."""
        last = time.monotonic()

        def is_wanted() -> bool:
            nonlocal last
            now = time.monotonic()
            if self.queue.has_work(now):
                last = now
            return now - last < seconds

        return is_wanted

    def _ask(self, question: Callable[[], T]) -> T:
        return patiently(question, self.queue.where)

    def _run(self, claim: Claim) -> None:
        cell, started = claim.cell, time.monotonic()
        try:
            config = from_normal_form(dict(cell.config))
            with Beating(lambda beat: self.queue.renew(claim.number, beat)):
                outcome = self.stop.during(
                    lambda: self.runner(config, cell.seed, self.results.cache, held_out=cell.split)
                )
        except Stopped:
            self._fail(claim, "released", "")
            return
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FOLDER_ERRORS:
                self._fail(claim, "released", "")
                raise
            self._fail(claim, "raised", _tail(error))
            return
        seconds = time.monotonic() - started
        self._hand_in(claim, self._record(cell, outcome, seconds))
        self._ask(lambda: self.queue.finish(claim.number, seconds))

    def _fail(self, claim: Claim, reason: Reason, error: str) -> None:
        self._ask(lambda: self.queue.fail(claim.number, reason, error))

    def _hand_in(self, claim: Claim, record: TrialRecord) -> None:
        """Into the planner's folder where that is seen from here, else through the queue."""
        if self._ask(lambda: self.queue.files_in(self.results)):
            name = claim.cell.ablation
            file = self.files.setdefault(name, RunsFile(results=self.results, name=name))
            file.append([record])
        else:
            self._ask(lambda: self.queue.deliver(claim.number, record.line()))

    def _record(self, cell: Cell, outcome: Outcome, seconds: float) -> TrialRecord:
        return TrialRecord(
            ablation=cell.ablation,
            world=cell.world,
            arm=cell.arm,
            seed=cell.seed,
            profile=cell.profile,
            digest=cell.digest,
            status=outcome.status,
            metrics=outcome.metrics,
            curve=outcome.curve,
            budget=outcome.budget,
            config=dict(cell.config),
            environment=self.environment,
            wall_seconds=round(seconds, 3),
            cause=outcome.cause,
            facts=outcome.facts,
        )


def _tail(error: Exception) -> str:
    """The error first, then where it came from, innermost last."""
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines)[-2000:]}"


def run_worker(
    root: Path,
    runner: str,
    parent: int | None,
    storage: str | None = None,
    idle_seconds: float | None = None,
) -> int:
    """Work for the queue of the results folder, or of `storage`.

    With `parent`, only as long as that process is ours; with `idle_seconds`, until nothing has been
    left to do for so long. Returns the exit code: 0, 2 where the folder cannot be written to, 3
    where the storage went away.
    """
    torch.set_num_threads(1)
    stop = StopSignal()
    results = Results(root=root)
    try:
        worker = Worker(
            results=results,
            queue=Queue(results, storage),
            runner=runner_named(runner),
            stop=stop,
            environment=environment(),
            files={},
        )
        has_work = worker.idle_for(math.inf if idle_seconds is None else idle_seconds)
        worker.work(lambda: (parent is None or os.getppid() == parent) and has_work())
    except StorageLost as error:
        print(error, file=sys.stderr)
        return LOST
    except OSError as error:
        if error.errno not in FOLDER_ERRORS:
            raise
        print(f"{root}: {error.strerror}: {error.filename or 'while writing'}", file=sys.stderr)
        return UNUSABLE
    return 0


if __name__ == "__main__":
    root, runner, parent, *address = sys.argv[1:]
    sys.exit(run_worker(Path(root), runner, int(parent), address[0] if address else None))
