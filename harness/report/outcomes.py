"""Which records count in a table, and how do they stand as arrays?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from harness.study.ablation import PROFILES, Ablation, Section
from harness.training.config import Keep, Match, MatchedSft
from harness.trial.evaluate import HIGHER_IS_BETTER
from harness.trial.record import TrialRecord

BUDGETS: tuple[Match, ...] = ("tokens", "flops", "end_to_end")
BUDGET_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class World:
    """One section's records by arm and seed. Arms without a record are absent.

    `seeds` are those that every present arm has: a seed is never dropped from one arm only.
    """

    name: str
    section: Section
    profile: str
    planned: int
    records: Mapping[str, Mapping[int, TrialRecord]]
    seeds: tuple[int, ...]

    def arms(self) -> list[str]:
        """Present arms in table order: the reference, the other controls, the rest as declared."""
        order = dict.fromkeys([self.section.reference, *self.section.cells()])
        return [arm for arm in order if arm in self.records]

    def control_of(self, arm: str) -> str:
        """What `arm` is compared with."""
        return self.section.pairs.get(arm, self.section.reference)

    def diverged(self, arm: str) -> Bool[np.ndarray, " seeds"]:
        """Which of `seeds` diverged, by the recorded cause."""
        return np.array([self.records[arm][s].status == "diverged" for s in self.seeds], dtype=bool)

    def sign(self, metric: str) -> float:
        """1 where higher is better, -1 where lower is; 1 for a metric that has no direction."""
        if metric == self.section.metric:
            return 1.0 if self.section.higher_is_better else -1.0
        return -1.0 if HIGHER_IS_BETTER.get(metric) is False else 1.0

    def metrics(self) -> list[str]:
        """Every metric that all finished runs have, the primary first."""
        finished = [
            set(record.metrics)
            for runs in self.records.values()
            for record in runs.values()
            if record.status == "finished"
        ]
        common = set.intersection(*finished) if finished else set()
        known = [metric for metric in HIGHER_IS_BETTER if metric in common]
        return list(dict.fromkeys([self.section.metric, *known, *sorted(common)]))

    def domains(self, metric: str) -> list[str]:
        """Domains in which `metric` was measured; all of them where no run measured any.

        `macro` alone where arms differ in their domains: only their means can be paired.
        """
        declared_sets = {
            frozenset(d.name for d in c.domains) for c in self.section.cells().values()
        }
        if len(declared_sets) > 1:
            return ["macro"]
        runs = [record for runs in self.records.values() for record in runs.values()]
        names = {name: None for record in runs for name in record.metrics.get(metric, {})}
        declared = [domain.name for domain in self.section.cells()[self.section.baseline].domains]
        return [name for name in names if name != "macro"] or declared

    def values(self, arm: str, metric: str) -> Float[np.ndarray, "seeds domains"]:
        """The metric per seed and domain; NaN in the rows of diverged runs.

        Raises ValueError where a finished run lacks a value: only its cause makes a run diverged.
        """
        domains = self.domains(metric)
        table = np.full((len(self.seeds), len(domains)), np.nan)
        for i, seed in enumerate(self.seeds):
            record = self.records[arm][seed]
            if record.status == "diverged":
                continue
            for j, domain in enumerate(domains):
                value = record.metrics.get(metric, {}).get(domain)
                if value is None:
                    where = f"{self.name}, arm {arm!r}, seed {seed}"
                    raise ValueError(f"{where}: a finished run has no {metric!r} in {domain!r}")
                table[i, j] = value
        return table

    def budget(self, arm: str, kind: Match) -> Float[np.ndarray, " seeds"]:
        """What each run spent; making the teachers counts only for a method that uses them."""
        runs = [self.records[arm][seed] for seed in self.seeds]
        if kind == "tokens":
            return np.array([run.budget["trained_tokens"] for run in runs], dtype=float)
        spent = np.array([run.budget["flops"] for run in runs], dtype=float)
        if kind == "end_to_end":
            spent += [
                run.budget.get("teacher_flops", 0.0) if _uses_teachers(run) else 0.0 for run in runs
            ]
        return spent

    def budget_ratio(self, arm: str, other: str, kind: Match) -> float | None:
        """Mean over seeds of `arm`'s budget over `other`'s, on seeds that finished in both."""
        both = ~(self.diverged(arm) | self.diverged(other))
        spent, base = self.budget(arm, kind)[both], self.budget(other, kind)[both]
        return float(np.mean(spent / base)) if both.any() and (base > 0).all() else None

    def is_off_budget(self, arm: str, control: str) -> bool:
        """Whether two budgets that should agree are more than 2 % apart.

        A matched control is held against the arm it mirrors, an arm against its control; both as
        that control counts, or by trained tokens where nothing is matched. Other controls, and
        arms that train nothing, match nothing.
        """
        own = self.match_of(arm)
        trains = not isinstance(self.section.cells()[arm].method, Keep)
        if own is None and not (trains and arm in self.section.arms):
            return False
        kind, other = (own, self.matched_to(arm)) if own else (self.match_of(control), control)
        ratio = self.budget_ratio(arm, other, kind or "tokens") if other in self.records else None
        return ratio is not None and abs(ratio - 1) > BUDGET_TOLERANCE

    def is_oracle(self, arm: str) -> bool:
        """Whether `arm` measures the specialists themselves, each on its own domain."""
        method = self.section.cells()[arm].method
        return isinstance(method, Keep) and method.model == "specialists"

    def match_of(self, arm: str) -> Match | None:
        """The budget that a matched control is matched on; None for every other arm."""
        method = self.section.cells()[arm].method
        return method.match if isinstance(method, MatchedSft) else None

    def matched_to(self, arm: str) -> str:
        """Whose budget that of `arm` is held against: its control's, or of the run it mirrors."""
        config = self.section.cells()[arm]
        if isinstance(config.method, MatchedSft):
            mirrored = replace(config, method=config.method.reference)
            for name, other in self.section.arms.items():
                if other == mirrored:
                    return name
        if arm in self.section.arms:
            return self.control_of(arm)
        return next((a for a, c in self.section.pairs.items() if c == arm), self.section.baseline)


def _uses_teachers(record: TrialRecord) -> bool:
    method = record.config.get("method", {})
    distilled = method.get("type", "Distill") in ("Distill", "Fuse")
    return distilled or bool(method.get("model") == "average")


def worlds(ablation: Ablation, records: Sequence[TrialRecord]) -> list[World]:
    """The sections that have records, of the largest profile present, in declared order."""
    profiles = {record.profile for record in records}
    rank = [*PROFILES, *sorted(profiles - set(PROFILES))]
    profile = max(profiles, key=rank.index, default="")
    kept = [record for record in records if record.profile == profile]
    found = (arrange(ablation, name, kept, profile) for name in ablation.worlds)
    return [world for world in found if world.records]


def arrange(ablation: Ablation, name: str, records: Iterable[TrialRecord], profile: str) -> World:
    """One world's records by arm and seed.

    Within an arm the newest configuration counts, and of each cell the newest record: a runs file
    is append-only and may hold what an earlier version of the arm gave.
    """
    section = ablation.worlds[name]
    by_arm: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.world == name and record.arm in section.cells():
            by_arm.setdefault(record.arm, []).append(record)
    runs: dict[str, dict[int, TrialRecord]] = {}
    for arm, found in by_arm.items():
        newest = {r.seed: r for r in found if r.config == found[-1].config}
        # By seed: the order in which workers ended must not show in a figure.
        runs[arm] = {seed: newest[seed] for seed in sorted(newest)}
    common = set.intersection(*(set(seeds) for seeds in runs.values())) if runs else set()
    known = {str(key): value for key, value in PROFILES.items()}
    planned = known[profile].seeds if profile in known else len(common)
    return World(
        name=name,
        section=section,
        profile=profile,
        planned=planned,
        records=runs,
        seeds=tuple(sorted(common)),
    )
