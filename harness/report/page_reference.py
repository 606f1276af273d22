"""Did this machine reproduce what is published, within the intervals?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from harness.report.stats import Interval
from harness.report.verdicts import Verdict
from harness.trial.record import TrialRecord

Agreement = Literal["reproduced", "within", "outside", "not compared"]
EXPLAINED: Mapping[Agreement, str] = {
    "reproduced": "the verdict is the same, and one estimate lies within the other's interval",
    "within": "one estimate lies within the other's interval, yet the verdict differs",
    "outside": "neither estimate lies within the other's interval",
    "not compared": "a smoke run, or fewer than two pairs of seeds finished",
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One contrast as it came out here, beside the one that is published."""

    here: Verdict
    published: Verdict

    @property
    def agreement(self) -> Agreement:
        """Which of `EXPLAINED` it is."""
        ours, theirs = self.here.difference, self.published.difference
        hidden = self.here.shows_nothing or self.published.shows_nothing
        if ours is None or theirs is None or hidden or not (_known(ours) and _known(theirs)):
            return "not compared"
        if not (_holds(ours, theirs) or _holds(theirs, ours)):
            return "outside"
        return "reproduced" if self.here.verdict == self.published.verdict else "within"


def _known(interval: Interval) -> bool:
    """One pair of seeds has no interval: everything would lie within."""
    return isfinite(interval.high - interval.low)


def _holds(interval: Interval, other: Interval) -> bool:
    return interval.low <= other.estimate <= interval.high


def beside(here: Sequence[Verdict], published: Sequence[Verdict]) -> tuple[Pair, ...]:
    """The contrasts that both have, in the order of `here`."""
    known = {(v.ablation, v.world, v.arm, v.control): v for v in published}
    keys = [(v.ablation, v.world, v.arm, v.control) for v in here]
    return tuple(
        Pair(here=verdict, published=known[key])
        for key, verdict in zip(keys, here, strict=True)
        if key in known
    )


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Of `shared` cells that were run in both, how many gave the same bits?"""

    shared: int
    identical: int


def cells(here: Sequence[TrialRecord], published: Sequence[TrialRecord]) -> Cells:
    """Cells are the same where their digest is; the newest record of a cell counts."""
    ours, theirs = ({run.digest: run for run in runs} for runs in (here, published))
    shared = [digest for digest in ours if digest in theirs]
    same = [d for d in shared if ours[d].metrics == theirs[d].metrics]
    return Cells(shared=len(shared), identical=len(same))
