"""How often does an arm differ from itself? It should at 5 %, or the study's errors are not even.

The same configuration is run on 2n seeds, the seeds are dealt into two halves again and again, and
each deal is tested as a table tests an arm. The pairs share no seed, so the spread is that of
unpaired runs: the test is of the error rate, not of the power.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from harness.report.families import tost_p
from harness.report.outcomes import World
from harness.report.stats import ALPHA, SMALLEST_TESTABLE, sign_flip_p

DEALS = 2_000
AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class FalseAlarms:
    """One world: shares over the deals, and the sd of a difference of two runs, nats."""

    world: str
    arm: str
    pairs: int
    deals: int
    significant: float
    equivalent: float
    difference_sd: float

    @property
    def low(self) -> float:
        """Of the 99 % Monte-Carlo interval of `significant`."""
        return self.significant - self._reach

    @property
    def high(self) -> float:
        """Its other end."""
        return self.significant + self._reach

    @property
    def _reach(self) -> float:
        spread = max(self.significant * (1 - self.significant), ALPHA * (1 - ALPHA))
        return 2.58 * float(np.sqrt(spread / self.deals))

    def sentence(self) -> str:
        """What was found, and what it should be."""
        return (
            f"{self.world}, {self.arm} against itself: p <= {ALPHA:g} in {self.significant:.1%} "
            f"[{max(self.low, 0):.1%}, {self.high:.1%}] of {self.deals} deals of "
            f"{2 * self.pairs} seeds, should be {ALPHA:.0%} or less; "
            f"equivalent in {self.equivalent:.1%}; A/A sd {self.difference_sd:.3g}"
        )


def deal(
    values: Float[np.ndarray, " runs"], deals: int, generator: np.random.Generator
) -> Float[np.ndarray, "pairs deals"]:
    """Differences of one half from the other, in a new random pairing per column."""
    shuffled = generator.permuted(np.tile(values, (deals, 1)), axis=1)
    pairs = len(values) // 2
    differences: Float[np.ndarray, "pairs deals"]
    differences = (shuffled[:, :pairs] - shuffled[:, pairs : 2 * pairs]).T
    return differences


def false_alarms(world: World, deals: int = DEALS) -> FalseAlarms:
    """The reference arm of a world against itself.

    Raises ValueError where fewer than twelve runs finished: their test cannot reach 5 %.
    """
    section, arm = world.section, world.section.reference
    runs = world.values(arm, section.metric).mean(axis=1)
    runs = runs[~np.isnan(runs)]
    if len(runs) < 2 * SMALLEST_TESTABLE:
        needed = 2 * SMALLEST_TESTABLE
        raise ValueError(f"{world.name}: {arm} needs {needed} finished runs, got {len(runs)}")
    generator = np.random.default_rng(0)
    p, equivalence, spreads = [], [], []
    for start in range(0, deals, AT_ONCE):
        differences = deal(runs, min(AT_ONCE, deals - start), generator)
        p.append(sign_flip_p(differences))
        equivalence.append(tost_p(differences, section.margin))
        spreads.append(differences.std(axis=0, ddof=1))
    return FalseAlarms(
        world=world.name,
        arm=arm,
        pairs=len(runs) // 2,
        deals=deals,
        significant=float((np.concatenate(p) <= ALPHA).mean()),
        equivalent=float((np.concatenate(equivalence) <= ALPHA).mean()),
        difference_sd=float(np.concatenate(spreads).mean()),
    )
