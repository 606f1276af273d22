"""What does a section of the paper ask, of which arms, against which controls?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.training.config import Keep, MatchedSft
from harness.trial.config import TrialConfig, changed_fields

ProfileName = Literal["smoke", "quick", "paper"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How much is spent: seeds to confirm on, trials and seeds to tune with, and the scale.

    `shrink` divides the steps of every training; only `smoke` uses it, and its tables say so.
    """

    name: ProfileName
    seeds: int
    tuning_trials: int
    tuning_seeds: int
    shrink: int = 1

    def confirm_seeds(self) -> range:
        """Fresh seeds, disjoint from those that tuned."""
        return range(self.seeds)

    def explore_seeds(self) -> range:
        """Seeds that only tuning sees."""
        return range(1000, 1000 + self.tuning_seeds)


PROFILES: Mapping[ProfileName, Profile] = {
    "smoke": Profile(name="smoke", seeds=2, tuning_trials=1, tuning_seeds=1, shrink=20),
    "quick": Profile(name="quick", seeds=10, tuning_trials=5, tuning_seeds=2),
    "paper": Profile(name="paper", seeds=20, tuning_trials=9, tuning_seeds=3),
}


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Nuisance parameters searched for every family of arms, with equal trials for each.

    `parameters` maps a dotted path of TrialConfig to its (low, high) range, searched in logarithms.
    Arms of one family share what is found; an arm that `families` does not name is its own family.
    """

    parameters: Mapping[str, tuple[float, float]]
    families: Mapping[str, str] = field(default_factory=dict)

    def family(self, arm: str) -> str:
        """The family whose tuned setting `arm` runs with."""
        return self.families.get(arm, arm)


@dataclass(frozen=True, kw_only=True)
class Section:
    """The arms of one world: controls first in every table, then arms as declared.

    Every arm is compared with `reference`, a key of `controls` or of `arms`. `baseline` is the arm
    that all others vary; `metric` is primary; `higher_is_better` gives its sign. `margin` bounds
    what counts as equivalent, in the metric's unit; `headline` names the contrasts that the README
    quotes. `pairs` maps an arm to a control of its own, in place of `reference`.
    """

    arms: Mapping[str, TrialConfig]
    controls: Mapping[str, TrialConfig]
    reference: str
    baseline: str
    metric: str
    higher_is_better: bool = False
    margin: float = 0.005
    headline: tuple[str, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)

    def cells(self) -> dict[str, TrialConfig]:
        """Controls and arms, in table order."""
        return {**self.controls, **self.arms}


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One question over one or more worlds.

    Raises ValueError for an arm that changes a field outside `varies`, for two arms with one
    configuration, and for a reference, baseline or pair that is not among the arms.

    `factors` gives an arm's level of every factor, for a factorial (`interaction` in `figures`
    asks for its ANOVA) or for a curve per level (`break_even` draws one per `source`).
    """

    name: str
    question: str
    varies: tuple[str, ...]
    tuning: Tuning
    worlds: Mapping[str, Section]
    figures: tuple[str, ...] = ("forest", "budget")
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for world, section in self.worlds.items():
            self._check(f"{self.name}/{world}", section)

    def _check(self, where: str, section: Section) -> None:
        cells = section.cells()
        if len(cells) < len(section.arms) + len(section.controls):
            raise ValueError(f"{where}: an arm and a control share a name")
        named = [("reference", section.reference), ("baseline", section.baseline)]
        named += [("pairs", name) for pair in section.pairs.items() for name in pair]
        for role, name in named:
            if name not in cells:
                raise ValueError(f"{where}: {role} must be one of {sorted(cells)}, got {name!r}")
        seen: dict[TrialConfig, str] = {}
        for name, config in cells.items():
            if config in seen:
                raise ValueError(f"{where}: {name!r} and {seen[config]!r} are the same trial")
            seen[config] = name
        for name, config in section.arms.items():
            for path in sorted(changed_fields(section.arms[section.baseline], config)):
                if not any(path == v or path.startswith(f"{v}.") for v in self.varies):
                    raise ValueError(
                        f"{where}: arm {name!r} changes {path!r}; it may vary {self.varies}"
                    )


def shrunk(config: TrialConfig, factor: int) -> TrialConfig:
    """`config` with every training shortened `factor` times: it runs, and shows nothing."""
    if factor == 1:
        return config

    def fewer(steps: int) -> int:
        return max(2, steps // factor)

    method = config.method
    if isinstance(method, MatchedSft):
        reference = replace(method.reference, steps=fewer(method.reference.steps))
        method = replace(method, reference=reference)
    elif not isinstance(method, Keep):
        method = replace(method, steps=fewer(method.steps))
    training = replace(config.specialist.training, steps=fewer(config.specialist.training.steps))
    return replace(
        config,
        method=method,
        base=replace(config.base, steps=fewer(config.base.steps)),
        specialist=replace(config.specialist, training=training, check_every_steps=2),
        evaluation=replace(config.evaluation, sequences=8, curve_sequences=4, curve_points=2),
    )
