"""What does an ablation come to, one verdict per arm, for pages and programs that quote it?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report.comparisons import against, matched_controls, primary
from harness.report.contrasts import Contrast
from harness.report.families import Word
from harness.report.outcomes import World, worlds
from harness.report.stats import Interval
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One arm against its control on the primary metric; `difference` positive = better.

    `difference` carries the paired t interval (None: no pair finished), `seeds` is n,
    `detectable` the minimum detectable effect, `budget_ratio` the arm's budget over that of its
    control. `shows_nothing` marks a smoke run, `off_budget` a contrast that no claim
    may use.
    """

    ablation: str
    question: str
    world: str
    arm: str
    control: str
    metric: str
    verdict: Word
    difference: Interval | None
    seeds: int
    diverged: int
    adjusted_p: float | None
    margin: float
    detectable: float | None
    budget_ratio: Mapping[str, float | None]
    headline: bool
    off_budget: bool
    shows_nothing: bool

    def sentence(self) -> str:
        """`forward KL against reverse KL (markov): worse, -0.031 [-0.040, -0.022], n = 10 ...`."""
        parts = [f"{self.arm} against {self.control} ({self.world}): {self.verdict}"]
        if self.difference is not None:
            d = self.difference
            parts.append(f"{d.estimate:+.4f} [{d.low:+.4f}, {d.high:+.4f}]")
        parts.append(f"n = {self.seeds}")
        if self.adjusted_p is not None:
            p = "< 0.001" if self.adjusted_p < 0.001 else f"= {self.adjusted_p:.3f}"
            parts.append(f"adjusted p {p}")
        if self.detectable is not None:
            parts.append(f"MDE {self.detectable:.2g}")
        return ", ".join(parts)


def verdicts(ablation: Ablation, records: Sequence[TrialRecord]) -> list[Verdict]:
    """Every declared arm of every world that has records, in table order."""
    return [
        _verdict(ablation, world, contrast)
        for world in worlds(ablation, records)
        for contrast in primary(world).contrasts
    ]


def control_verdicts(ablation: Ablation, records: Sequence[TrialRecord]) -> list[Verdict]:
    """Every declared arm against every matched control, one family per control and world."""
    return [
        _verdict(ablation, world, contrast)
        for world in worlds(ablation, records)
        for control in matched_controls(world)
        for contrast in against(world, control).contrasts
    ]


def every_verdict(ablation: Ablation, records: Sequence[TrialRecord]) -> tuple[Verdict, ...]:
    """Every contrast once: a matched control may be the reference as well."""
    found: dict[tuple[str, str, str], Verdict] = {}
    for verdict in (*verdicts(ablation, records), *control_verdicts(ablation, records)):
        found.setdefault((verdict.world, verdict.arm, verdict.control), verdict)
    return tuple(found.values())


def _verdict(ablation: Ablation, world: World, contrast: Contrast) -> Verdict:
    return Verdict(
        ablation=ablation.name,
        question=ablation.question,
        world=world.name,
        arm=contrast.arm,
        control=contrast.control,
        metric=contrast.metric,
        verdict=contrast.verdict,
        difference=contrast.interval,
        seeds=contrast.seeds,
        diverged=contrast.diverged,
        adjusted_p=contrast.adjusted_p,
        margin=world.section.margin,
        detectable=contrast.detectable,
        budget_ratio=contrast.budget_ratio,
        headline=contrast.arm in world.section.headline,
        off_budget=contrast.off_budget,
        shows_nothing=world.profile == "smoke",
    )
