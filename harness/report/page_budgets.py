"""What did every arm of a world spend? A table for the page, in absolute numbers."""

from collections.abc import Sequence

import numpy as np

from harness.report.digits import text
from harness.report.labels import caption
from harness.report.outcomes import World
from harness.report.render import Cell, Number, Table
from harness.study.ablation import Ablation

COLUMNS = {
    "trained tokens": "trained_tokens",
    "generated tokens": "generated_tokens",
    "teacher-scored tokens": "scored_tokens",
    "FLOPs": "flops",
    "FLOPs of making the teachers": "teacher_flops",
    "seconds": "seconds",
}


def budget_table(ablation: Ablation, world: World) -> Table:
    """The mean over seeds of all that the ledger counts."""
    return Table(
        name="budgets",
        world=world.name,
        caption=caption(ablation, world, "what one run spent, mean over seeds."),
        columns=("arm", *COLUMNS),
        rows=tuple(
            (text(arm), *(_cell(world, arm, key) for key in COLUMNS.values()))
            for arm in world.arms()
        ),
        notes=(
            "Controls are matched by trained tokens, by FLOPs (rollouts and teacher passes count), "
            "or end to end (making the teachers counts too): the ratios stand in the first table.",
        ),
    )


def _cell(world: World, arm: str, key: str) -> Cell:
    spent = [run.budget.get(key) for run in world.records[arm].values()]
    known: Sequence[float] = [value for value in spent if value is not None]
    return Cell(parts=(Number(f"{np.mean(known):.3g}"),) if known else ("not recorded",))
