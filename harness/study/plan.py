"""What is a cell, and which cells does a configuration come to?"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.domains.base import Split
from harness.trial.config import TrialConfig, content_digest, normal_form

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
