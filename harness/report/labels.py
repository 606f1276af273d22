"""What are metrics, marks and tables called?"""

from harness.report.outcomes import World
from harness.study.ablation import Ablation

DAGGER = "\u2020"
SMOKE = "Smoke profile: training cut short, this shows nothing. "
BUDGET_TITLES = {"tokens": "tokens", "flops": "FLOPs", "end_to_end": "end to end"}


def metric_name(metric: str) -> str:
    """`source_reverse_kl_nats` as `source reverse KL (nats per token)`."""
    words = metric.removesuffix("_nats").split("_")
    unit = " (nats per token)" if metric.endswith("_nats") else ""
    return " ".join("KL" if word == "kl" else word for word in words) + unit


def caption(ablation: Ablation, world: World, what: str) -> str:
    """What the table shows, after the warning that a smoke run shows nothing."""
    warning = SMOKE if world.profile == "smoke" else ""
    return f"{warning}{ablation.name}, {world.name}: {what}"
