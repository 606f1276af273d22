"""When does one teacher take all rollouts?"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from harness.teachers.collapse import PREFIX, collapse_facts
from harness.trial.record import TrialRecord


def teacher_shares(record: TrialRecord) -> Mapping[str, list[float | None]]:
    """Share of every teacher at every update; empty for a run without teachers."""
    columns = record.curve.get("training", {})
    return {k.removeprefix(PREFIX): v for k, v in columns.items() if k.startswith(PREFIX)}


def smooth(values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Running mean over a twentieth of the run, since one batch holds few rollouts."""
    if len(values) == 0:
        return values
    kernel = np.ones(max(1, len(values) // 20))
    weights = np.convolve(np.ones(len(values)), kernel, mode="same")
    mean: Float[np.ndarray, " steps"] = np.convolve(values, kernel, mode="same") / weights
    return mean


def collapse_step(record: TrialRecord) -> int | None:
    """The update from which on one teacher held almost all rollouts; None if none did."""
    step = collapse_facts(record.curve.get("training", {})).get("collapse_step")
    return None if step is None else int(step)
