"""Which cells does an ablation come to under a profile?"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.domains.base import SPLITS, Split, stream
from harness.study.ablation import Ablation, Profile, Section, shrunk
from harness.study.suggest import did_you_mean
from harness.trial.config import TrialConfig, content_digest, normal_form, override_all

Filing = tuple[str, str, int, str]
"""World, arm, seed and digest: what occurs once in a runs file."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One trial to run, and where its record is filed.

    `config` is a normal form; `digest` is that of configuration and seed. Cells of different
    ablations with one digest are one trial, filed under each.
    """

    ablation: str
    world: str
    arm: str
    seed: int
    profile: str
    digest: str
    split: Split
    config: Mapping[str, Any]

    @property
    def filing(self) -> Filing:
        """What occurs once in the runs file of the ablation."""
        return (self.world, self.arm, self.seed, self.digest)

    def as_json(self) -> dict[str, Any]:
        """All fields, as the queue keeps them."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Cell":
        """The cell that `as_json` described."""
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The part of a cell that says whose it is."""

    ablation: str
    world: str
    arm: str
    profile: str
    split: Split = "evaluation"


def seed_cells(where: Where, config: TrialConfig, seeds: Sequence[int]) -> list[Cell]:
    """One cell per seed, in order: neighbours in the queue need different base models."""
    form = normal_form(config)
    return [
        Cell(
            ablation=where.ablation,
            world=where.world,
            arm=where.arm,
            seed=seed,
            profile=where.profile,
            digest=content_digest({"config": form, "seed": seed}),
            split=where.split,
            config=form,
        )
        for seed in seeds
    ]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One ablation as it was asked for: its arms after `--set`, under one profile."""

    ablation: Ablation
    profile: Profile
    sets: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()

    def configs(self, section: Section) -> dict[str, TrialConfig]:
        """What is run for each arm asked for, at the profile's scale, before tuning."""
        wanted = set(self.arms) | {section.reference} if self.arms else set(section.cells())
        return {
            arm: shrunk(config, self.profile.shrink)
            for arm, config in section.cells().items()
            if arm in wanted
        }

    def tuned_parameters(self, config: TrialConfig) -> dict[str, tuple[float, float]]:
        """The ranges to search for an arm like `config`: what it has, and what was not set."""
        fixed = {text.partition("=")[0] for text in self.sets}
        ranges = self.ablation.tuning.parameters
        return {p: r for p, r in ranges.items() if p not in fixed and _has(config, p)}


def request(
    ablation: Ablation, profile: Profile, sets: Sequence[str] = (), arms: Sequence[str] = ()
) -> Request:
    """The ablation with every `path=value` of `sets` put into each arm whose config has the path.

    Raises ValueError for a path that no arm has, a value that does not fit, an unknown arm, and
    where the settings make two arms the same trial.
    """
    known = [arm for section in ablation.worlds.values() for arm in section.cells()]
    for arm in arms:
        if arm not in known:
            raise ValueError(f"{ablation.name}: no arm {arm!r}{did_you_mean(arm, known)}")
    settings = dict(_setting(text) for text in sets)
    return Request(
        ablation=replace(ablation, worlds=_set_everywhere(ablation.worlds, settings)),
        profile=profile,
        sets=tuple(sets),
        arms=tuple(arms),
    )


def _setting(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set must be path=value, got {text!r}")
    return path, value


def _set_everywhere(
    worlds: Mapping[str, Section], settings: Mapping[str, str]
) -> dict[str, Section]:
    configs = [c for section in worlds.values() for c in section.cells().values()]
    paths = sorted({path for config in configs for path in leaf_paths(config)})
    for path in settings:
        if path not in paths:
            hint = did_you_mean(path, paths)
            raise ValueError(f"--set {path}: no arm has it{hint}; allowed: {', '.join(paths)}")

    def put(config: TrialConfig) -> TrialConfig:
        made: TrialConfig = override_all(
            config, {path: text for path, text in settings.items() if _has(config, path)}
        )
        return made

    return {
        world: replace(
            section,
            arms={arm: put(config) for arm, config in section.arms.items()},
            controls={arm: put(config) for arm, config in section.controls.items()},
        )
        for world, section in worlds.items()
    }


def leaf_paths(value: Any, prefix: str = "") -> list[str]:
    """Dotted paths of all settings of a configuration."""
    if dataclasses.is_dataclass(value):
        entries = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
        entries = [(str(i), entry) for i, entry in enumerate(value)]
    else:
        return [prefix]
    dot = f"{prefix}." if prefix else ""
    return [path for name, entry in entries for path in leaf_paths(entry, dot + name)]


def _has(config: TrialConfig, path: str) -> bool:
    return path in leaf_paths(config)


def check_domains(request: Request) -> None:
    """Draw once from every split of every domain: what is missing shows before anything is run.

    Raises what the domain raises: ValueError or OSError naming the path.
    """
    configs = [c for s in request.ablation.worlds.values() for c in request.configs(s).values()]
    for domain in dict.fromkeys(domain for config in configs for domain in config.domains):
        for split in SPLITS:
            domain.demonstrations(1, split, stream(0, "check"))
