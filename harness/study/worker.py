"""Who runs the cells? One process, one thread, one cell at a time, until told to stop."""

import errno
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import torch

from harness.domains.base import Split
from harness.study.plan import Cell
from harness.study.process import this_process
from harness.study.queue import Claim, Queue
from harness.study.results import Results
from harness.study.runs import RunsFile
from harness.trial.config import TrialConfig, from_normal_form
from harness.trial.environment import environment
from harness.trial.record import Outcome, TrialRecord

RUNNER = "harness.trial.run:run_trial"
IDLE_SECONDS = 0.05
FOLDER_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
UNUSABLE = 2


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
    """SIGTERM and SIGINT end the cell at hand, never a write: `wanted` is looked at in between."""

    def __init__(self) -> None:
        self.wanted = False
        self._in_trial = False
        for number in (signal.SIGTERM, signal.SIGINT):
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
        while not self.stop.wanted and is_wanted():
            claim = self.queue.claim(owner)
            if claim is None:
                time.sleep(IDLE_SECONDS)
            else:
                self._run(claim)

    def _run(self, claim: Claim) -> None:
        cell, started = claim.cell, time.monotonic()
        try:
            config = from_normal_form(dict(cell.config))
            outcome = self.stop.during(
                lambda: self.runner(config, cell.seed, self.results.cache, held_out=cell.split)
            )
        except Stopped:
            self.queue.fail(claim.number, "released", "")
            return
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FOLDER_ERRORS:
                self.queue.fail(claim.number, "released", "")
                raise
            self.queue.fail(claim.number, "raised", _tail(error))
            return
        seconds = time.monotonic() - started
        self._file(cell, outcome, seconds)
        self.queue.finish(claim.number, seconds)

    def _file(self, cell: Cell, outcome: Outcome, seconds: float) -> None:
        file = self.files.setdefault(
            cell.ablation, RunsFile(results=self.results, name=cell.ablation)
        )
        record = TrialRecord(
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
        file.append([record])


def _tail(error: Exception) -> str:
    """The error first, then where it came from, innermost last."""
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines)[-2000:]}"


def run_worker(root: Path, runner: str, parent: int | None) -> int:
    """Work on the results folder; with `parent`, only as long as that process is ours.

    Returns the exit code: 0, or 2 where the folder cannot be written to.
    """
    torch.set_num_threads(1)
    stop = StopSignal()
    results = Results(root=root)
    try:
        worker = Worker(
            results=results,
            queue=Queue(results),
            runner=runner_named(runner),
            stop=stop,
            environment=environment(),
            files={},
        )
        worker.work(lambda: parent is None or os.getppid() == parent)
    except OSError as error:
        if error.errno not in FOLDER_ERRORS:
            raise
        print(f"{root}: {error.strerror}: {error.filename or 'while writing'}", file=sys.stderr)
        return UNUSABLE
    return 0


if __name__ == "__main__":
    root, runner, parent = sys.argv[1:]
    sys.exit(run_worker(Path(root), runner, int(parent)))
