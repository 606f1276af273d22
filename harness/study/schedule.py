"""How far is one request: what is tuned, what is to be run next, what is done?"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.study.explore import Found, Search, replay
from harness.study.plan import Cell, Where, seed_cells
from harness.study.request import Request
from harness.study.runs import EXPLORE, Known, Runs
from harness.study.space import Values, at_end, with_values
from harness.trial.config import TrialConfig

DEFAULT_SECONDS = {"smoke": 1.0, "quick": 2.5, "paper": 2.5}
NAMED_FAMILIES = 4


@dataclass(kw_only=True)
class Family:
    """Arms of one world that share what one search finds."""

    world: str
    search: Search
    arms: dict[str, TrialConfig]
    found: Found
    explored: set[str]


class Schedule:
    """One request on its way. Everything it knows it has from the runs files."""

    def __init__(self, request: Request, runs: Runs) -> None:
        self.request = request
        self._runs = runs
        self._families = list(_families(request))
        self._keys = [
            (world, arm)
            for world, section in request.ablation.worlds.items()
            for arm in request.configs(section)
        ]
        self._cells: dict[tuple[str, str], list[Cell]] = {}
        self.advance()

    def advance(self) -> None:
        """Take in what the runs files have come to hold: searches go on, or end."""
        for family in self._families:
            if family.found.values is None and self._can_go_on(family):
                family.found = replay(family.search, partial(self._explored, family))
                if family.found.values is not None:
                    self._plan(family, family.found.values)
        self._runs.file_copies(self.cells())

    def _can_go_on(self, family: Family) -> bool:
        """A replay takes time, and without one of the cells it waits for it comes to the same."""
        waits_for = family.found.cells
        return not waits_for or any(self._runs.explored(cell.digest) for cell in waits_for)

    def _explored(self, family: Family, digest: str) -> Known | None:
        known = self._runs.explored(digest)
        if known:
            family.explored.add(digest)
        return known

    def _plan(self, family: Family, values: Values) -> None:
        for arm, config in family.arms.items():
            where = Where(
                ablation=self.request.ablation.name,
                world=family.world,
                arm=arm,
                profile=self.request.profile.name,
            )
            seeds = self.request.profile.confirm_seeds()
            self._cells[family.world, arm] = seed_cells(where, with_values(config, values), seeds)

    def cells(self) -> list[Cell]:
        """The confirm cells of every arm whose tuning is done, in declared order."""
        planned = (self._cells.get(key, []) for key in self._keys)
        return [cell for cells in planned for cell in cells]

    def wanted(self) -> list[Cell]:
        """What can be run now and is not known: tuning first, since others wait for it."""
        tuning = [cell for family in self._families for cell in family.found.cells]
        confirm = [cell for cell in self.cells() if not self._runs.known(cell.digest)]
        return [*tuning, *confirm]

    @property
    def is_tuned(self) -> bool:
        """Whether every family has its values, so that no further cell will turn up."""
        return all(family.found.values is not None for family in self._families)

    def counts(self) -> tuple[int, int]:
        """Cells done and in all; a search that goes on counts as long as it can get."""
        done, total = 0, len(self._keys) * self.request.profile.seeds
        for family in self._families:
            done += len(family.explored)
            ended = family.found.values is not None
            total += len(family.explored) if ended else family.search.cells_at_most
        filed = sum(self._runs.is_filed(cell) for cell in self.cells())
        return done + filed, total

    def seconds_per_cell(self) -> tuple[float, bool]:
        """Median of what its cells took, or a default; and whether it was measured."""
        return seconds_per_cell(self._runs, self.request.ablation.name, self.request.profile.name)

    def tuned(self) -> dict[str, Values]:
        """`world/first arm` -> the values its family runs with, for families that were searched."""
        return {
            f"{family.world}/{next(iter(family.arms))}": family.found.values
            for family in self._families
            if family.found.values
        }

    def tuned_lines(self) -> list[str]:
        """The same in words, a line per setting found; an end of the range is marked.

        Of many families with one setting some are named; the plan has all.
        """
        families: dict[str, list[str]] = {}
        for family in self._families:
            if family.found.values:
                name = f"{family.world}/{next(iter(family.arms))}"
                families.setdefault(_in_words(family), []).append(name)
        return [f"tuned {words}: {_some(names)}" for words, names in families.items()]

    def as_json(self) -> dict[str, Any]:
        """The plan: which digest stands for which arm and seed, once that is known."""
        worlds: dict[str, dict[str, Any]] = {}
        for world, arm in self._keys:
            cells = self._cells.get((world, arm))
            digests = {str(cell.seed): cell.digest for cell in cells} if cells else None
            worlds.setdefault(world, {})[arm] = digests
        return {
            "ablation": self.request.ablation.name,
            "profile": self.request.profile.name,
            "seeds": self.request.profile.seeds,
            "set": list(self.request.sets),
            "tuned": self.tuned(),
            "worlds": worlds,
        }


def seconds_per_cell(runs: Runs, ablation: str, profile: str) -> tuple[float, bool]:
    """Median of what an ablation's cells took, or a default; and whether it was measured."""
    for file in (runs.file(ablation), runs.file(EXPLORE)):
        seconds = [k.wall_seconds for k in file.known.values() if k.profile == profile]
        if seconds:
            return statistics.median(seconds), True
    return DEFAULT_SECONDS[profile], False


def _in_words(family: Family) -> str:
    """What was found, as `--set` takes it."""
    ranges = family.search.parameters
    return ", ".join(
        f"{path}={value}" + (" (end of range)" if at_end(value, ranges[path]) else "")
        for path, value in (family.found.values or {}).items()
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED_FAMILIES
    return ", ".join(names[:NAMED_FAMILIES]) + (f" and {more} more" if more > 0 else "")


def _families(request: Request) -> Iterator[Family]:
    """A search per family and world; its representative is the family's first arm as declared."""
    tuning, profile = request.ablation.tuning, request.profile
    everything = Request(ablation=request.ablation, profile=profile)
    for world, section in request.ablation.worlds.items():
        asked = request.configs(section)
        families: dict[str, dict[str, TrialConfig]] = {}
        for arm, config in everything.configs(section).items():
            families.setdefault(tuning.family(arm), {})[arm] = config
        for family, arms in families.items():
            searched = family in tuning.searches
            search = Search(
                world=world,
                profile=profile.name,
                representative=next(iter(arms.values())),
                parameters=request.tuned_parameters(family, next(iter(arms.values()))),
                trials=profile.search_trials if searched else profile.tuning_trials,
                seeds=profile.explore_seeds(),
                metric=section.metric,
                higher_is_better=section.higher_is_better,
            )
            wanted = {arm: config for arm, config in arms.items() if arm in asked}
            if wanted:
                yield Family(world=world, search=search, arms=wanted, found=Found(), explored=set())
