"""How often, and when, did one teacher take all rollouts?"""

import numpy as np

from harness.report.collapse import collapse_step, teacher_shares
from harness.report.digits import text
from harness.report.failures import clopper_pearson
from harness.report.footer import provenance
from harness.report.labels import caption
from harness.report.outcomes import World
from harness.report.render import Cell, Table
from harness.study.ablation import Ablation
from harness.teachers.collapse import COLLAPSED_SHARE, COLLAPSED_UPDATES


def collapse_table(ablation: Ablation, world: World) -> Table:
    """One row per arm that has teachers: seeds that collapsed, and the update it began at."""
    arms = [a for a in world.arms() if any(map(teacher_shares, world.records[a].values()))]
    return Table(
        name="collapse",
        world=world.name,
        caption=caption(ablation, world, "seeds on which one teacher took all rollouts."),
        columns=("arm", "collapsed", "rate [exact 95 % interval]", "from update, median (range)"),
        rows=tuple(_row(world, arm) for arm in arms),
        notes=(
            f"Collapse: {COLLAPSED_UPDATES} updates in a row with more than "
            f"{100 * COLLAPSED_SHARE:g} % of the weights on one teacher. Without it a run says "
            "nothing of what longer training would bring.",
            provenance(world),
        ),
    )


def _row(world: World, arm: str) -> tuple[Cell, ...]:
    runs = [world.records[arm][seed] for seed in world.seeds]
    steps = [step for run in runs if (step := collapse_step(run)) is not None]
    rate = clopper_pearson(len(steps), len(runs))
    median = float(np.median(steps)) if steps else None
    when = f"{median:g} ({min(steps)} to {max(steps)})" if steps else ""
    return (
        text(arm, arm=arm),
        text(f"{len(steps)}/{len(runs)}", collapsed=len(steps), seeds=len(runs)),
        text(
            f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]",
            rate=rate.estimate,
            rate_low=rate.low,
            rate_high=rate.high,
        ),
        text(when, median_step=median),
    )
