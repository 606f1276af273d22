"""Does the trainer give the same student, whichever implementation computes its loss?"""

from functools import partial

import pytest
import torch

from harness.training import objective
from harness.training.budget import Ledger
from harness.training.distill import train_distill
from opd_kernels import linear_divergence
from opd_kernels.row_cpu import unavailable
from tests.training.worlds import DOMAINS, distill, policy, stored, streams


def trained(
    monkeypatch: pytest.MonkeyPatch, implementation: str, scheduler: str
) -> tuple[list[torch.Tensor], list[float]]:
    monkeypatch.setattr(
        objective, "linear_divergence", partial(linear_divergence, implementation=implementation)
    )
    student, losses = policy(0), []

    def observe(_: int, seen: dict[str, float]) -> bool:
        losses.append(seen["loss_nats"])
        return False

    train_distill(
        student, stored([policy(1), policy(2)]), DOMAINS, distill(steps=5, scheduler=scheduler),
        streams(), Ledger(), observe,
    )  # fmt: skip
    return [p.detach() for p in student.parameters()], losses


@pytest.mark.parametrize("scheduler", ["by_domain", "soft_likelihood"])
@pytest.mark.parametrize("implementation", ["auto", "cpu", "chunked"])
def test_the_same_student_as_with_the_reference(
    monkeypatch: pytest.MonkeyPatch, implementation: str, scheduler: str
) -> None:
    if implementation == "cpu" and unavailable(torch.float32):
        pytest.skip("no C++ path on this machine")
    weights, losses = trained(monkeypatch, implementation, scheduler)
    expected_weights, expected_losses = trained(monkeypatch, "reference", scheduler)
    assert losses == pytest.approx(expected_losses, abs=1e-5)
    for one, other in zip(weights, expected_weights, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
