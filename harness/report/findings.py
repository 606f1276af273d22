"""What does one world say of a claim, and by which kinds of test?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.report.contrasts import Contrast, contrasts
from harness.report.outcomes import World
from harness.report.stats import ALPHA, SMALLEST_TESTABLE, Interval, paired_t, sign_flip_p

Outcome = Literal[
    "reproduced",
    "reversed",
    "not resolved at this scale",
    "false by the source",
    "source only",
]
OPEN: Outcome = "not resolved at this scale"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one world says of a claim: the outcome, the number with its interval, and n."""

    world: str
    outcome: Outcome
    number: str
    seeds: int


def shown(interval: Interval | None, unit: str = " nats") -> str:
    """An interval as text."""
    if interval is None:
        return "no pair of seeds finished"
    return f"{interval.estimate:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]{unit}"


def single(world: World, arm: str, control: str, metric: str | None = None) -> Contrast | None:
    """One contrast as a family of its own; None where an arm has no records."""
    if arm not in world.records or control not in world.records:
        return None
    return contrasts(world, [(arm, control)], metric or world.section.metric)[arm]


def by_sign(world: World, contrast: Contrast | None, *, claimed: float) -> list[Finding]:
    """Reproduced or reversed by the sign of a significant difference, open otherwise."""
    if contrast is None:
        return []
    outcome = OPEN
    if contrast.adjusted_p is not None and contrast.adjusted_p <= ALPHA:
        outcome = "reproduced" if contrast.direction * claimed > 0 else "reversed"
    number = shown(contrast.interval)
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=contrast.seeds)]


def one_sample(world: World, values: list[float], *, claimed: float, unit: str) -> list[Finding]:
    """The sign of the mean of one value per seed, by sign flips."""
    if len(values) < 2:
        return []
    table = np.array(values)[:, None]
    (interval,) = paired_t(table)
    outcome = OPEN
    if len(values) >= SMALLEST_TESTABLE and sign_flip_p(table)[0] <= ALPHA:
        outcome = "reproduced" if interval.estimate * claimed > 0 else "reversed"
    number = shown(interval, unit)
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=len(values))]


def not_better(world: World, contrast: Contrast | None) -> list[Finding]:
    """Reproduced where the arm is equivalent or worse, reversed where it is better."""
    if contrast is None:
        return []
    words: Mapping[str, Outcome] = {
        "equivalent": "reproduced",
        "worse": "reproduced",
        "better": "reversed",
    }
    outcome = words.get(contrast.verdict, OPEN)
    number = shown(contrast.interval)
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=contrast.seeds)]
