"""What is run, once a profile, `--set` and `--arm` are put into an ablation?"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.domains import Text
from harness.domains.base import SPLITS, stream
from harness.study.ablation import Ablation, Profile, Range, Section, shrunk
from harness.study.suggest import did_you_mean
from harness.trial.config import TrialConfig, override_all


@dataclass(frozen=True, kw_only=True)
class Request:
    """One ablation as it was asked for: its arms after `--set`, under one profile."""

    ablation: Ablation
    profile: Profile
    sets: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()

    def configs(self, section: Section) -> dict[str, TrialConfig]:
        """What is run for each arm asked for, at the profile's scale, before tuning."""
        wanted = set(section.cells())
        if self.arms:
            controls = [section.pairs.get(arm, section.reference) for arm in self.arms]
            wanted = {*self.arms, section.reference, *controls}
        return {
            arm: shrunk(config, self.profile.shrink)
            for arm, config in section.cells().items()
            if arm in wanted
        }

    def tuned_parameters(self, family: str, config: TrialConfig) -> dict[str, Range]:
        """The ranges to search for a family of arms like `config`: what it has and was not set."""
        fixed = {text.partition("=")[0] for text in self.sets}
        ranges = self.ablation.tuning.ranges(family)
        return {p: r for p, r in ranges.items() if p not in fixed and _has(config, p)}


def requests(
    ablations: Sequence[Ablation],
    profile: Profile,
    sets: Sequence[str] = (),
    arms: Sequence[str] = (),
) -> list[Request]:
    """The ablations with every `path=value` of `sets` put into each arm whose config has the path.

    With `arms`, those arms only and what they are compared with. Raises ValueError for a path or
    an arm that no ablation has, a value that does not fit, and settings that make two arms the
    same trial.
    """
    sections = [section for ablation in ablations for section in ablation.worlds.values()]
    configs = [config for section in sections for config in section.cells().values()]
    settings = dict(_setting(text) for text in sets)
    _check_names("--set", settings, {path for config in configs for path in leaf_paths(config)})
    _check_names("--arm", arms, {arm for section in sections for arm in section.cells()})
    return [
        Request(
            ablation=replace(ablation, worlds=_set_everywhere(ablation.worlds, settings)),
            profile=profile,
            sets=tuple(sets),
            arms=tuple(arms),
        )
        for ablation in ablations
        if not arms or any(set(arms) & set(s.cells()) for s in ablation.worlds.values())
    ]


def _setting(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set must be path=value, got {text!r}")
    return path, value


def _check_names(option: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            allowed = ", ".join(sorted(known))
            hint = did_you_mean(name, known)
            raise ValueError(f"{option} {name}: not there{hint}; there are: {allowed}")


def _set_everywhere(
    worlds: Mapping[str, Section], settings: Mapping[str, str]
) -> dict[str, Section]:
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


def check_domains(asked: Sequence[Request]) -> None:
    """Draw once from every split of the user's own data: faults show before anything is run.

    Raises what the domain raises: ValueError or OSError naming the path.
    """
    configs = [
        config
        for request in asked
        for section in request.ablation.worlds.values()
        for config in request.configs(section).values()
    ]
    for domain in dict.fromkeys(domain for config in configs for domain in config.domains):
        if isinstance(domain, Text) and domain.path is not None:
            for split in SPLITS:
                domain.demonstrations(1, split, stream(0, "check"))
