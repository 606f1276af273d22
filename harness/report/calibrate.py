"""Do our own statistics keep what they promise? Measured on made-up studies with a known truth.

`python -m harness.report.calibrate` prints the table that docs/statistics.md quotes; the test
suite asserts every line of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats
from tabulate import tabulate

from harness.report.break_even import break_even
from harness.report.failures import rank_differences
from harness.report.families import compare, noninferiority_p, tost_p
from harness.report.stats import (
    ALPHA,
    detectable_effect,
    is_constant,
    paired_t,
    sign_flip_p,
    t_statistic,
)

STUDIES = 2_000
FEWER = 1_000  # where every study needs a loop of its own
Studies = Float[np.ndarray, "seeds studies"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A measured rate and the range it must lie in."""

    name: str
    measure: Callable[[np.random.Generator], float]
    low: float
    high: float

    def rate(self) -> float:
        """The rate, from a generator of the check's own: checks do not disturb each other."""
        return self.measure(np.random.default_rng([2021, *self.name.encode()]))


def at_most(level: float, studies: int) -> float:
    """A level plus three standard errors of its measurement."""
    return level + 3 * float(np.sqrt(level * (1 - level) / studies))


def uniformity(seeds: int) -> Callable[[np.random.Generator], float]:
    """Kolmogorov-Smirnov p of "sign-flip p values of A/A studies are uniform"."""

    def measure(generator: np.random.Generator) -> float:
        p = sign_flip_p(generator.normal(size=(seeds, FEWER)))
        step = 2.0 ** (1 - min(seeds, 14))  # p is a multiple of it: spread each over its step
        return float(stats.kstest(p - step * generator.uniform(size=len(p)), "uniform").pvalue)

    return measure


def coverage(seeds: int) -> Callable[[np.random.Generator], float]:
    """How often the paired t interval holds the true difference."""

    def measure(generator: np.random.Generator) -> float:
        intervals = paired_t(generator.normal(size=(seeds, STUDIES)))
        return float(np.mean([i.low <= 0 <= i.high for i in intervals]))

    return measure


def _family(generator: np.random.Generator, seeds: int, arms: int) -> Float[np.ndarray, "s a"]:
    """Differences of arms that share one control: correlated 1/2, no effect, variance 2."""
    shared = generator.normal(size=(seeds, 1))
    noise: Float[np.ndarray, "s a"] = shared + generator.normal(size=(seeds, arms))
    return noise


def family_error(seeds: int, arms: int) -> Callable[[np.random.Generator], float]:
    """How often any of `arms` without effect gets an adjusted p of .05 or less."""

    def measure(generator: np.random.Generator) -> float:
        smallest = [compare(_family(generator, seeds, arms)).adjusted_p.min() for _ in range(FEWER)]
        return float(np.mean(np.array(smallest) <= ALPHA))

    return measure


def simultaneous_coverage(
    seeds: int, arms: int, largest_effect: float
) -> Callable[[np.random.Generator], float]:
    """How often all simultaneous intervals of a study hold their true differences together."""

    def measure(generator: np.random.Generator) -> float:
        effects = np.linspace(0, largest_effect, arms)
        held = 0
        for _ in range(FEWER):
            noise = _family(generator, seeds, arms) / np.sqrt(2)
            held += np.abs(t_statistic(noise)).max() <= compare(noise + effects).critical_t
        return held / FEWER

    return measure


def tost_size(seeds: int) -> Callable[[np.random.Generator], float]:
    """How often a true difference of exactly the margin is called equivalent."""

    def measure(generator: np.random.Generator) -> float:
        differences = generator.normal(loc=3.0, size=(seeds, STUDIES))
        return float(np.mean(tost_p(differences, 3.0) <= ALPHA))

    return measure


def noninferiority_size(seeds: int) -> Callable[[np.random.Generator], float]:
    """How often an arm worse by the margin in one of three domains passes the worst-domain test."""

    def measure(generator: np.random.Generator) -> float:
        truth = np.array([-1.0, 2.0, 2.0])
        p = [noninferiority_p(truth + generator.normal(size=(seeds, 3)), 1.0) for _ in range(FEWER)]
        return float(np.mean(np.array(p) <= ALPHA))

    return measure


def power(seeds: int) -> Callable[[np.random.Generator], float]:
    """How often an effect of the printed minimum detectable size gets p of .05 or less."""

    def measure(generator: np.random.Generator) -> float:
        differences = generator.normal(loc=detectable_effect(seeds), size=(seeds, STUDIES))
        return float(np.mean(sign_flip_p(differences) <= ALPHA))

    return measure


def divergence_error(seeds: int) -> Callable[[np.random.Generator], float]:
    """False positives of the rank test where both arms diverge on a quarter of their seeds."""

    def measure(generator: np.random.Generator) -> float:
        columns = []
        for _ in range(STUDIES):
            pair = generator.normal(size=(2, seeds))
            pair[generator.uniform(size=pair.shape) < 0.25] = np.nan
            columns.append(rank_differences(*pair))
        differences = np.stack(columns, axis=1)
        varying = differences[:, ~is_constant(differences, 1.0)]
        return float(np.mean(sign_flip_p(varying) <= ALPHA))

    return measure


def crossing_coverage(seeds: int) -> Callable[[np.random.Generator], float]:
    """How often the break-even set holds the true gap of 0.25 nats."""

    def measure(generator: np.random.Generator) -> float:
        levels = np.array([0.05, 0.1, 0.25, 0.5, 1.0])
        held = 0
        for _ in range(FEWER):
            gaps = levels * np.exp(0.1 * generator.normal(size=(seeds, 5)))
            slopes = 1 + generator.normal(size=(seeds, 1))
            offsets = generator.normal(size=(seeds, 1))
            y = offsets + slopes * np.log(gaps / 0.25) + 0.5 * generator.normal(size=gaps.shape)
            held += any(low <= 0.25 <= high for low, high in break_even(gaps, y).confidence_set)
        return held / FEWER

    return measure


FALSE, FALSE_FEWER = at_most(ALPHA, STUDIES), at_most(ALPHA, FEWER)
CHECKS: tuple[Check, ...] = (
    Check(name="A/A: KS p of uniform p, n = 10", measure=uniformity(10), low=0.01, high=1.0),
    *(
        Check(name=f"paired t coverage, n = {n}", measure=coverage(n), low=0.935, high=0.965)
        for n in (5, 10, 20)
    ),
    *(
        Check(
            name=f"max-T family error, n = {n}, {arms} arms",
            measure=family_error(n, arms),
            low=0.0,
            high=FALSE_FEWER,
        )
        for n, arms in ((8, 5), (10, 5), (10, 10))
    ),
    Check(
        name="Holm family error, n = 6, 5 arms",
        measure=family_error(6, 5),
        low=0.0,
        high=FALSE_FEWER,
    ),
    *(
        Check(
            name=f"simultaneous coverage, n = 10, 5 arms, effects to {effect:g} sd",
            measure=simultaneous_coverage(10, 5, effect),
            low=0.93,
            high=0.98,
        )
        for effect in (0.0, 1.5)
    ),
    *(
        Check(name=f"TOST size at the margin, n = {n}", measure=tost_size(n), low=0.0, high=FALSE)
        for n in (6, 10)
    ),
    Check(
        name="worst-domain test size, n = 10",
        measure=noninferiority_size(10),
        low=0.0,
        high=FALSE_FEWER,
    ),
    *(
        Check(name=f"power at the printed MDE, n = {n}", measure=power(n), low=0.75, high=0.85)
        for n in (8, 10, 14)
    ),
    Check(
        name="rank test error, a quarter diverged, n = 10",
        measure=divergence_error(10),
        low=0.0,
        high=FALSE,
    ),
    Check(
        name="break-even set coverage, n = 10", measure=crossing_coverage(10), low=0.93, high=0.97
    ),
)


def report() -> str:
    """Every check with its rate and range, as a Markdown table."""
    rows = [(c.name, f"{c.rate():.3f}", f"{c.low:.3f} to {c.high:.3f}") for c in CHECKS]
    return tabulate(rows, ("check", "measured", "must lie in"), tablefmt="pipe",
                    disable_numparse=True) + "\n"  # fmt: skip


if __name__ == "__main__":
    print(report(), end="")
