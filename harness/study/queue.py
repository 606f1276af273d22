"""Which cells wait, which run, and which worker has which?"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.study.journal import RepairingJournal
from harness.study.plan import Cell
from harness.study.process import Owner, is_alive
from harness.study.results import Results

FORMAT = 1
STUDY = "cells"
RAISED_LIMIT = 3
KILLED_LIMIT = 10
UNSIGNED_SECONDS = 5.0
Reason = Literal["raised", "killed", "released", "withdrawn"]


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

    Raises ValueError where the journal holds a study that is not such a queue.
    """

    def __init__(self, results: Results) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._journal = RepairingJournal(results.journal, results.lock("journal"))
        self._where = results.journal
        self._unsigned_since: dict[int, float] = {}
        try:
            self._storage = JournalStorage(self._journal)
        except (ValueError, KeyError, AssertionError) as error:
            raise ValueError(f"{results.journal}: not an Optuna journal: {error}") from None
        try:
            self._study = optuna.load_study(study_name=STUDY, storage=self._storage)
        except KeyError:
            self._study = optuna.create_study(study_name=STUDY, storage=self._storage)
        self._check()

    def _check(self) -> None:
        made_by = self._study.user_attrs.get("format")
        if made_by is None and not self.trials():
            self._study.set_user_attr("format", FORMAT)
        elif made_by != FORMAT:
            raise ValueError(
                f"{self._where}: its study {STUDY!r} was made by another plan (format {made_by}, "
                f"here {FORMAT}); move the file away: all results are kept in runs/"
            )

    def begin(self) -> None:
        """A planner takes over: every cell has all its attempts again."""
        self._study.set_user_attr("first_number", len(self.trials()))

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
        self._study.add_trials(trials[:1])  # at once: Optuna looks for a trial of its own below
        with self._journal.batch():
            self._study.add_trials(trials[1:])

    def claim(self, owner: Owner) -> Claim | None:
        """The first waiting cell, now running here; None if there is none."""
        if not self.trials(TrialState.WAITING):
            return None
        trial = self._study.ask()
        if "cell" not in trial.user_attrs:  # others were faster, and Optuna sampled: not a cell
            self._end(trial.number, "withdrawn", "")
            return None
        try:
            trial.set_user_attr("owner", owner)
        except UpdateFinishedTrialError:  # stopped for so long that the cell was given to another
            return None
        return Claim(number=trial.number, cell=Cell.from_json(trial.user_attrs["task"]))

    def finish(self, number: int, seconds: float) -> None:
        """The record of this cell is on disk."""
        self._study.tell(number, seconds, skip_if_finished=True)

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
        study = self._storage.get_study_id_from_name(STUDY)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def withdraw(self, wanted: set[str]) -> None:
        """Take out waiting cells that an earlier plan left behind."""
        stale = [t for t in self.trials(TrialState.WAITING) if _digest(t) not in wanted]
        with self._journal.batch():
            for trial in stale:
                self._storage.set_trial_state_values(
                    self._identifier(trial.number), TrialState.FAIL
                )

    def reap(self, is_done: Callable[[str], bool], now: float) -> None:
        """End what dead workers left running; `now` is the caller's monotonic clock.

        A digest that `is_done` was recorded before its worker died. A worker may also die between
        claiming and signing: a claim that stays unsigned for UNSIGNED_SECONDS is ended too.
        """
        for trial in self.trials(TrialState.RUNNING):
            owner = trial.user_attrs.get("owner")
            since = self._unsigned_since.setdefault(trial.number, now)
            lost = is_alive(owner) is False if owner else now - since >= UNSIGNED_SECONDS
            if lost and is_done(_digest(trial)):
                self.finish(trial.number, 0.0)
            elif lost:
                self._end(trial.number, "killed", "the worker died")

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


def _digest(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get("cell"))


def _failure(trial: FrozenTrial, attempts: int) -> Failure:
    task: dict[str, Any] = trial.user_attrs["task"]
    error = str(trial.user_attrs.get("error", ""))
    return Failure(cell=Cell.from_json(task), attempts=attempts, error=error)
