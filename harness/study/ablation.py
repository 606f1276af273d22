"""What does a section of the paper ask, of which arms, against which controls?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.domains import DomainConfig, Fold
from harness.training.config import Distill, Fuse, Keep, MatchedSft
from harness.trial.config import TrialConfig, changed_fields

ProfileName = Literal["smoke", "quick", "paper"]
Range = tuple[float, float] | tuple[str, ...]
"""(low, high), searched in logarithms; or choices, as the text that `override` takes."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How much is spent: seeds to confirm on, trials and seeds to tune with, and the scale.

    `search_trials` is what a family of `Tuning.searches` gets in place of `tuning_trials`.
    `shrink` divides the steps of every training; only `smoke` uses it, and its tables say so.
    """

    name: ProfileName
    seeds: int
    tuning_trials: int
    tuning_seeds: int
    search_trials: int = 40
    shrink: int = 1

    def confirm_seeds(self) -> range:
        """Fresh seeds, disjoint from those that tuned."""
        return range(self.seeds)

    def explore_seeds(self) -> range:
        """Seeds that only tuning sees."""
        return range(1000, 1000 + self.tuning_seeds)


PROFILES: Mapping[ProfileName, Profile] = {
    "smoke": Profile(
        name="smoke", seeds=2, tuning_trials=1, tuning_seeds=1, search_trials=2, shrink=20
    ),
    "quick": Profile(name="quick", seeds=10, tuning_trials=6, tuning_seeds=2, search_trials=40),
    "paper": Profile(name="paper", seeds=20, tuning_trials=9, tuning_seeds=3, search_trials=100),
}


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Nuisance parameters searched for every family of arms, with equal trials for each.

    `parameters` maps a dotted path of TrialConfig to its (low, high) range, searched in logarithms.
    Arms of one family share what is found; an arm that `families` does not name is its own family.

    `searches` gives a family parameters of its own in place of `parameters`, choices among them,
    and `Profile.search_trials` of trials. Such a family is the result of a search, not an arm tuned
    on equal terms: what it gains over the best arm of a factorial tells about the search. The best
    of many trials looks better than it is (winner's curse), so only fresh seeds count.
    """

    parameters: Mapping[str, Range]
    families: Mapping[str, str] = field(default_factory=dict)
    searches: Mapping[str, Mapping[str, Range]] = field(default_factory=dict)

    def family(self, arm: str) -> str:
        """The family whose tuned setting `arm` runs with."""
        return self.families.get(arm, arm)

    def ranges(self, family: str) -> Mapping[str, Range]:
        """What is searched for a family."""
        return self.searches.get(family, self.parameters)


@dataclass(frozen=True, kw_only=True)
class Section:
    """The arms of one world: controls first in every table, then arms as declared.

    Every arm is compared with `reference`, a key of `controls` or of `arms`. `baseline` is the arm
    that all others vary; `metric` is primary; `higher_is_better` gives its sign. `margin` bounds
    what counts as equivalent, in the metric's unit; `headline` names the arms whose contrasts the
    README quotes (for the reference, those with every matched control). `pairs` maps an arm to a
    control of its own, in place of `reference`.
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
    configuration, for a reference, baseline or pair that is not among the arms, and for a search
    of no arm's family or of a field that is neither in `varies` nor tuned in every family.

    `factors` gives an arm's level of every factor, for a factorial (`interaction` in `figures`
    asks for its ANOVA) or for a curve per level (`break_even` draws one per `source`, `scaling`
    one per `budget` over the numbers `teachers`). `costs` names facts of the records that get a
    table.
    """

    name: str
    question: str
    varies: tuple[str, ...]
    tuning: Tuning
    worlds: Mapping[str, Section]
    figures: tuple[str, ...] = ("forest", "budget")
    costs: tuple[str, ...] = ()
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for world, section in self.worlds.items():
            self._check(f"{self.name}/{world}", section)
        self._check_searches()

    def _check_searches(self) -> None:
        arms = {arm for section in self.worlds.values() for arm in section.cells()}
        families = {self.tuning.family(arm) for arm in arms}
        allowed = {*self.varies, *self.tuning.parameters}
        for family, ranges in self.tuning.searches.items():
            if family not in families:
                raise ValueError(
                    f"{self.name}: searches must name families among {sorted(families)}, "
                    f"got {family!r}"
                )
            for path in ranges:
                if path not in allowed:
                    raise ValueError(
                        f"{self.name}: {family!r} searches {path!r}; it may {sorted(allowed)}"
                    )

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
    """`config` with every training shortened `factor` times: it runs, and shows nothing.

    Sequences and evaluations are shorter too.
    """
    if factor == 1:
        return config

    def fewer(steps: int) -> int:
        return max(2, steps // factor)

    def shorter(method: Distill) -> Distill:
        if isinstance(method, Fuse):
            method = replace(method, first_steps=fewer(method.first_steps))
        return replace(method, steps=fewer(method.steps))

    method = config.method
    if isinstance(method, MatchedSft):
        method = replace(method, reference=shorter(method.reference))
    elif isinstance(method, Distill):
        method = shorter(method)
    elif not isinstance(method, Keep):
        method = replace(method, steps=fewer(method.steps))
    training = replace(config.specialist.training, steps=fewer(config.specialist.training.steps))
    return replace(
        config,
        domains=tuple(map(_shorter, config.domains)),
        base_domains=tuple(map(_shorter, config.base_domains)),
        method=method,
        base=replace(config.base, steps=fewer(config.base.steps)),
        specialist=replace(
            config.specialist, training=training, check_every_steps=2, gap_sequences=16
        ),
        evaluation=replace(
            config.evaluation,
            sequences=8,
            curve_sequences=4,
            curve_points=min(1, config.evaluation.curve_points),
        ),
    )


def _shorter(domain: DomainConfig) -> DomainConfig:
    """Half the tokens, but never less than four to learn; a fold is as long as its task."""
    if isinstance(domain, Fold):
        return domain
    tokens = max(domain.prompt_tokens + 4, domain.sequence_tokens // 2)
    return replace(domain, sequence_tokens=min(domain.sequence_tokens, tokens))
