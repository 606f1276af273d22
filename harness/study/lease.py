"""Is a worker on another machine still at its cell? It counts, and whoever reads has a clock."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypedDict

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial

from harness.study.process import is_alive
from harness.study.storage import losses

BEAT_SECONDS = 5.0
LEASE_SECONDS = 30.0
UNSIGNED_SECONDS = 5.0
"""How long a claim may stay without a name: its worker may have died between the two."""


class Beat(TypedDict):
    """`count` is what a lease is judged by. `at`, the worker's own date, is only for the eye."""

    count: int
    at: float


def beat(count: int) -> Beat:
    """What a worker writes now."""
    return Beat(count=count, at=time.time())


class Leases:
    """What one reader has seen of all counters. No clock is ever compared with another's."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int | None, float]] = {}
        self._looked_at: float | None = None

    def look(self, now: float) -> None:
        """To be called before a round of `is_lost`, with the reader's monotonic clock.

        A reader that did not look for a while (it was paused, the server was away) has not seen
        that a counter stood still: it starts anew.
        """
        if self._looked_at is not None and now - self._looked_at > LEASE_SECONDS / 2:
            self._seen.clear()
        self._looked_at = now

    def is_lost(self, trial: FrozenTrial, now: float) -> bool:
        """Whether nobody runs this cell any more, though it is marked as running."""
        owner, count = trial.user_attrs.get("owner"), _count(trial.user_attrs)
        alive = is_alive(owner) if owner else None
        if alive is not None:
            return not alive
        seen = self._seen.get(trial.number)
        if seen is None or seen[0] != count:
            seen = self._seen[trial.number] = (count, now)
        return now - seen[1] >= (LEASE_SECONDS if owner else UNSIGNED_SECONDS)


def _count(attributes: dict[str, Any]) -> int | None:
    found: Beat | None = attributes.get("beat")
    return found["count"] if found else None


class Beating:
    """Renews a lease from a thread for as long as the `with` block takes.

    It ends early where the cell was given to another meanwhile. A server that does not answer is
    asked again at the next beat; a folder that cannot be written to is the worker's to report.
    """

    def __init__(self, renew: Callable[[Beat], None]) -> None:
        self._renew = renew
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        count = 0
        silent: tuple[type[Exception], ...] = (OSError, *losses())
        while not self._over.wait(BEAT_SECONDS):
            count += 1
            try:
                self._renew(beat(count))
            except UpdateFinishedTrialError:
                return
            except silent:
                continue

    def __enter__(self) -> "Beating":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()
