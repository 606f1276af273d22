"""One file is one section of a paper. Which sections are there?"""

import importlib
import pkgutil

from harness.study.ablation import Ablation

CORE = ("kl_direction", "loss_granularity", "scheduler", "specialist_gap")


def module_names() -> list[str]:
    """Every module here, the four core questions first."""
    found = {module.name for module in pkgutil.iter_modules(__path__)} - {"__main__"}
    return [name for name in CORE if name in found] + sorted(found - set(CORE))


def load(name: str) -> Ablation | None:
    """The `ABLATION` of `ablations/NAME.py`; None for a module that has none.

    Raises ValueError naming the module where its ablation is refused, or has another name.
    """
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except ValueError as error:
        raise ValueError(f"ablations/{name}.py: {error}") from error
    ablation: Ablation | None = getattr(module, "ABLATION", None)
    if ablation is not None and ablation.name != name:
        raise ValueError(f"ablations/{name}.py: name must be {name!r}, got {ablation.name!r}")
    return ablation


def discover() -> dict[str, Ablation]:
    """All ablations by name."""
    found = {name: load(name) for name in module_names()}
    return {name: ablation for name, ablation in found.items() if ablation is not None}
