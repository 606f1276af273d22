"""Is the schedule as declared, and does a broken run stop before it touches a weight?"""

import pytest
import torch
from torch import nn

from harness.training.config import Optimization
from harness.training.optimizer import Diverged, Optimizer, learning_rate

CONFIG = Optimization(learning_rate=0.1, warmup_steps=10, final_fraction=0.1)


def test_schedule_known_values() -> None:
    rates = [learning_rate(CONFIG, step, 100) for step in (0, 9, 50, 100)]
    assert rates == pytest.approx([0.01, 0.1 * (1 - 0.9 * 0.09), 0.055, 0.01])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_changes_nothing(bad: float) -> None:
    weight = nn.Parameter(torch.ones(2))
    with pytest.raises(Diverged, match="loss is not finite at step 7"):
        Optimizer([weight], CONFIG, 10).update((weight * bad).sum(), 7)
    assert torch.equal(weight, torch.ones(2))


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    weight = nn.Parameter(torch.zeros(2))
    with pytest.raises(Diverged, match="gradient is not finite at step 3"):
        Optimizer([weight], CONFIG, 10).update(weight.sqrt().sum(), 3)
    assert torch.equal(weight, torch.zeros(2))


def test_gradient_norm_is_reported_before_clipping() -> None:
    weight = nn.Parameter(torch.zeros(2))
    norm = Optimizer([weight], CONFIG, 10).update((weight * torch.tensor([3.0, 4.0])).sum(), 0)
    assert norm == pytest.approx(5)


@pytest.mark.parametrize(
    ("field", "value"),
    [("learning_rate", 0.0), ("learning_rate", 1.5), ("final_fraction", 2.0),
     ("gradient_clip_norm", 0.0)],
)  # fmt: skip
def test_impossible_settings_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Optimization(**{"learning_rate": 0.1, field: value})
