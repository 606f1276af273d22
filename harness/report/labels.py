"""What are metrics, marks and tables called?"""

from harness.report.outcomes import World
from harness.study.ablation import Ablation

DAGGER = "\u2020"
SMOKE = "Smoke profile: training cut short, this shows nothing. "
BUDGET_TITLES = {"tokens": "tokens", "flops": "FLOPs", "end_to_end": "end to end"}


def metric_name(metric: str) -> str:
    """`cross_entropy_nats` as `cross entropy (nats per token)`."""
    if metric.endswith("_nats"):
        return metric.removesuffix("_nats").replace("_", " ") + " (nats per token)"
    return metric.replace("_", " ")


def caption(ablation: Ablation, world: World, what: str) -> str:
    """What the table shows, after the warning that a smoke run shows nothing."""
    warning = SMOKE if world.profile == "smoke" else ""
    return f"{warning}{ablation.name}, {world.name}: {what}"
