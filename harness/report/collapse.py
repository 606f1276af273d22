"""When does one teacher take all rollouts?"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from harness.trial.record import TrialRecord

COLLAPSED = 0.95


def teacher_shares(record: TrialRecord) -> Mapping[str, list[float | None]]:
    """Share of every teacher at every update; empty for a run without teachers."""
    columns = record.curve.get("training", {})
    return {k.removeprefix("share."): v for k, v in columns.items() if k.startswith("share.")}


def smooth(values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Running mean over a twentieth of the run, since one batch holds few rollouts."""
    if len(values) == 0:
        return values
    kernel = np.ones(max(1, len(values) // 20))
    weights = np.convolve(np.ones(len(values)), kernel, mode="same")
    mean: Float[np.ndarray, " steps"] = np.convolve(values, kernel, mode="same") / weights
    return mean


def collapse_step(record: TrialRecord) -> int | None:
    """The update from which one teacher holds 95 % of the rollouts to the end; None if none does.

    A batch of 16 rollouts goes to one teacher by chance, so the smoothed share has to stay there.
    """
    shares = teacher_shares(record)
    if not shares or not record.curve["training"].get("step"):
        return None
    table = np.array([smooth(np.array(share, dtype=float)) for share in shares.values()])
    outside = np.flatnonzero(~(table.max(axis=0) >= COLLAPSED))
    first = 0 if len(outside) == 0 else int(outside[-1]) + 1
    steps = record.curve["training"]["step"]
    step = steps[first] if first < len(steps) else None
    return None if step is None else int(step)
