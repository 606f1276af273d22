"""Which cells wait, which run, and which worker has which?"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.study.lease import Beat, Leases, beat
from harness.study.plan import Cell
from harness.study.process import Owner
from harness.study.results import Results
from harness.study.storage import open_storage

FORMAT = 1
STUDY = "cells"
RAISED_LIMIT = 3
KILLED_LIMIT = 10
Reason = Literal["raised", "killed", "released"]
ANOTHER = "give each results folder a database of its own"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A cell that this worker, and no other, is to run."""

    number: int
    cell: Cell


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why the last attempt at a cell came to nothing."""

    cell: Cell
    attempts: int
    error: str


class Queue:
    """Planned cells as trials of an Optuna study: WAITING, RUNNING, COMPLETE or FAIL.

    It lives in the results folder, or at `url`. Raises ValueError where that cannot be opened, or
    holds a study that is not such a queue.
    """

    def __init__(self, results: Results, url: str | None = None) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        opened = open_storage(results, url)
        self.where, self.poll_seconds = opened.where, opened.poll_seconds
        self._storage, self._batch = opened.storage, opened.batch
        weakref.finalize(self, opened.close)
        self._results, self._is_in_folder = results, url is None
        self._leases = Leases()
        self._study = _study(self._storage)
        self._check()

    def _check(self) -> None:
        made_by = self._study.user_attrs.get("format")
        if made_by is None and not self.trials():
            self._study.set_user_attr("format", FORMAT)
        elif made_by != FORMAT:
            advice = "move the file away: all results are kept in runs/"
            raise ValueError(
                f"{self.where}: its study {STUDY!r} was made by another plan (format {made_by}, "
                f"here {FORMAT}); {advice if self._is_in_folder else ANOTHER}"
            )

    def begin(self) -> None:
        """A planner takes over: every cell has all its attempts again.

        Raises ValueError where the queue serves another results folder.
        """
        if not self._is_in_folder:
            mine, theirs = self._results.identity(), self._study.user_attrs.get("folder")
            if theirs not in (None, mine):
                raise ValueError(
                    f"{self.where}: its study {STUDY!r} is another plan's, that of a results "
                    f"folder other than {self._results.root}; {ANOTHER}"
                )
            self._study.set_user_attr("folder", mine)
        self._study.set_user_attr("first_number", len(self.trials()))

    def files_in(self, results: Results) -> bool:
        """Whether `results` is the planner's own folder, seen from here."""
        mine = results.known_identity()
        return self._is_in_folder or (
            mine is not None and mine == self._study.user_attrs.get("folder")
        )

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """All entries, or those in `states`, in the order they were planned."""
        return self._study.get_trials(deepcopy=False, states=states or None)

    def enqueue(self, cells: Iterable[Cell]) -> None:
        """Add cells at the end; the caller is the planner, and has seen that none is there."""
        trials = [
            create_trial(
                state=TrialState.WAITING,
                user_attrs={"cell": cell.digest, "task": cell.as_json()},
            )
            for cell in cells
        ]
        self.add(trials)

    def add(self, trials: Iterable[FrozenTrial]) -> None:
        """Add entries as they are, all in one write."""
        made = list(trials)
        self._study.add_trials(made[:1])  # at once: Optuna looks for a trial of its own below
        with self._batch():
            self._study.add_trials(made[1:])

    def drop(self) -> None:
        """Take the whole queue away; it is made anew by whoever opens it next."""
        self._storage.delete_study(self._study._study_id)

    def claim(self, owner: Owner) -> Claim | None:
        """The first waiting cell, now running here; None if there is none."""
        for trial in self.trials(TrialState.WAITING):
            identifier = self._identifier(trial.number)
            try:
                # Not `study.ask`: where others were faster, that would sample a trial of its own.
                if not self._storage.set_trial_state_values(identifier, TrialState.RUNNING):
                    continue
                self._storage.set_trial_user_attr(identifier, "beat", beat(0))
                self._storage.set_trial_user_attr(identifier, "owner", owner)
            except UpdateFinishedTrialError:
                continue  # withdrawn; or stopped for so long that the cell was given to another
            return Claim(number=trial.number, cell=Cell.from_json(trial.user_attrs["task"]))
        return None

    def renew(self, number: int, beat: Beat) -> None:
        """The worker is still at it; raises UpdateFinishedTrialError where it is no longer its."""
        self._storage.set_trial_user_attr(self._identifier(number), "beat", beat)

    def deliver(self, number: int, record: str) -> None:
        """Hand in a record from where the planner's folder cannot be seen; `finish` follows."""
        with suppress(UpdateFinishedTrialError):  # given to another, whose record counts
            self._storage.set_trial_user_attr(self._identifier(number), "record", record)

    def finish(self, number: int, seconds: float) -> None:
        """The record of this cell is on disk, or delivered."""
        done = TrialState.COMPLETE
        with suppress(UpdateFinishedTrialError):  # somebody saw the record, and said so before
            self._storage.set_trial_state_values(self._identifier(number), done, [seconds])

    def fail(self, number: int, reason: Reason, error: str) -> None:
        """This attempt came to nothing."""
        self._end(number, reason, error)

    def _end(self, number: int, reason: Reason, error: str) -> None:
        identifier = self._identifier(number)
        try:
            self._storage.set_trial_user_attr(identifier, "reason", reason)
            if error:
                self._storage.set_trial_user_attr(identifier, "error", error)
            self._storage.set_trial_state_values(identifier, TrialState.FAIL)
        except UpdateFinishedTrialError:
            pass  # it ended meanwhile, which is what was wanted

    def _identifier(self, number: int) -> int:
        study = self._study._study_id
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def withdraw(self, wanted: set[str]) -> None:
        """Take out waiting cells that an earlier plan left behind."""
        stale = [t for t in self.trials(TrialState.WAITING) if _digest(t) not in wanted]
        with self._batch():
            for trial in stale:
                self._storage.set_trial_state_values(
                    self._identifier(trial.number), TrialState.FAIL
                )

    def reap(self, is_done: Callable[[str], bool], now: float) -> None:
        """End what dead workers left running; `now` is the caller's monotonic clock.

        A digest that `is_done`, or a record that is delivered, outlived its worker.
        """
        for trial in self.lost(now):
            if is_done(_digest(trial)) or "record" in trial.user_attrs:
                self.finish(trial.number, 0.0)
            else:
                self._end(trial.number, "killed", "the worker died")

    def lost(self, now: float) -> list[FrozenTrial]:
        """What runs by the book, while its worker is dead or silent."""
        self._leases.look(now)
        running = self.trials(TrialState.RUNNING)
        return [trial for trial in running if self._leases.is_lost(trial, now)]

    def has_work(self, now: float) -> bool:
        """Whether a cell waits, or runs and may come back."""
        lost = len(self.lost(now))
        return len(self.trials(TrialState.WAITING, TrialState.RUNNING)) > lost

    def pending(self) -> dict[str, TrialState]:
        """Digests that wait or run."""
        trials = self.trials(TrialState.WAITING, TrialState.RUNNING)
        return {_digest(trial): trial.state for trial in trials}

    def failed_for_good(self) -> dict[str, Failure]:
        """Cells whose attempts since the last `begin` are used up."""
        first = int(self._study.user_attrs.get("first_number", 0))
        counts: dict[str, Counter[str]] = {}
        failures: dict[str, Failure] = {}
        for trial in self.trials(TrialState.FAIL):
            reason = trial.user_attrs.get("reason")
            if trial.number < first or "cell" not in trial.user_attrs:
                continue
            if reason not in ("raised", "killed"):
                continue
            seen = counts.setdefault(_digest(trial), Counter())
            seen[reason] += 1
            if seen["raised"] >= RAISED_LIMIT or seen["killed"] >= KILLED_LIMIT:
                failures[_digest(trial)] = _failure(trial, seen.total())
        return failures


def _study(storage: BaseStorage) -> optuna.Study:
    """The study that is the queue; one that another process makes at the same moment is it too."""
    try:
        return optuna.load_study(study_name=STUDY, storage=storage)
    except KeyError:
        try:
            return optuna.create_study(study_name=STUDY, storage=storage)
        except DuplicatedStudyError:
            return optuna.load_study(study_name=STUDY, storage=storage)


def _digest(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get("cell"))


def _failure(trial: FrozenTrial, attempts: int) -> Failure:
    task: dict[str, Any] = trial.user_attrs["task"]
    error = str(trial.user_attrs.get("error", ""))
    return Failure(cell=Cell.from_json(task), attempts=attempts, error=error)
