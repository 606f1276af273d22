"""Do public implementations find the same divergence? Only where they are installed."""

import pytest
import torch
from torch import Tensor

from opd_kernels import linear_divergence, parse_divergence
from tests.kernels.cases import operands

BETAS = {1.0: "reverse_kl", 0.0: "forward_kl", 0.5: "jsd(0.5)", 0.1: "jsd(0.1)"}


def ours(beta: float) -> tuple[Tensor, ...]:
    hidden, head, teacher = operands(40, 16, 24, 300, dtype=torch.float32)
    out = linear_divergence(hidden, head, teacher, divergence=parse_divergence(BETAS[beta]))
    return out.loss.detach(), *torch.autograd.grad(out.loss, (hidden, head))


def assert_same(loss: Tensor, hidden: Tensor, head: Tensor, beta: float) -> None:
    gradients = torch.autograd.grad(loss, (hidden, head))
    for theirs, own in zip((loss.detach(), *gradients), ours(beta), strict=True):
        torch.testing.assert_close(theirs.reshape(own.shape), own, atol=1e-6, rtol=2e-4)


@pytest.mark.parametrize("beta", BETAS)
def test_trl(beta: float) -> None:
    peer = pytest.importorskip("trl.kernels.chunked_divergence")
    hidden, head, teacher = operands(40, 16, 24, 300, dtype=torch.float32)
    rows, _ = peer.ChunkedDivergenceFunction.apply(
        hidden, head, None, teacher.hidden, teacher.head, None, beta
    )
    assert_same(rows.mean(), hidden, head, beta)


@pytest.mark.parametrize("beta", BETAS)
def test_liger(beta: float) -> None:
    peer = pytest.importorskip("liger_kernel.chunked_loss")
    hidden, head, teacher = operands(40, 16, 24, 300, dtype=torch.float32)
    loss = peer.LigerFusedLinearJSDLoss(
        weight_hard_loss=0.0, weight_soft_loss=1.0, beta=beta, compiled=False, chunk_size=16
    )
    labels = torch.zeros(40, dtype=torch.long)
    found = loss(hidden, head, teacher.hidden, teacher.head, labels)
    assert_same(found, hidden, head, beta)
