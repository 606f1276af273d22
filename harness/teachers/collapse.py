"""When does one teacher take all rollouts?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COLLAPSED_SHARE = 0.95
COLLAPSED_UPDATES = 20
PREFIX = "share."
"""Of the training curve's columns that hold a teacher's share of the rollouts."""


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """The first update of a collapse, and the teacher that took all."""

    step: int
    teacher: int


def find_collapse(steps: Sequence[float], shares: Sequence[Sequence[float]]) -> Collapse | None:
    """The start of the first stretch in which one teacher keeps almost all rollouts; None if none.

    `shares` holds a row per teacher, a column per update of `steps`. A stretch is 20 updates in a
    row with more than 95 % for the same teacher: a batch or two go to one teacher by chance.
    """
    found: Collapse | None = None
    for teacher, row in enumerate(shares):
        run = 0
        for index, share in enumerate(row):
            run = run + 1 if share > COLLAPSED_SHARE else 0
            if run == COLLAPSED_UPDATES:
                step = int(steps[index + 1 - run])
                if found is None or step < found.step:
                    found = Collapse(step=step, teacher=teacher)
                break
    return found


def collapse_facts(training: Mapping[str, Sequence[float | None]]) -> dict[str, float | None]:
    """What a record says of it: `collapse_step` and `collapsed_teacher`, None where none did.

    `training` is the curve of a distillation; of another training there is nothing to say, nor of
    one with a single teacher, who has all rollouts from the start.
    """
    shares = [
        [0.0 if share is None else share for share in column]
        for name, column in training.items()
        if name.startswith(PREFIX)
    ]
    if len(shares) < 2:
        return {}
    steps = [0.0 if step is None else step for step in training["step"]]
    found = find_collapse(steps, shares)
    return {
        "collapse_step": None if found is None else found.step,
        "collapsed_teacher": None if found is None else found.teacher,
    }
