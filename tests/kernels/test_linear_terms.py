"""Are scale, softcap and bias part of the logits, on both sides?"""

from dataclasses import replace

import pytest
import torch

from opd_kernels import linear_divergence, linear_log_probability
from tests.kernels.agreement import REVERSE
from tests.kernels.cases import operands


def test_scale_and_softcap_are_applied() -> None:
    hidden, head, teacher = operands(6, 5, 4, 13, dtype=torch.float64)
    out = linear_divergence(
        hidden,
        head,
        replace(teacher, scale=0.5, softcap=3.0),
        divergence=REVERSE,
        student_scale=0.25,
        student_softcap=2.0,
    )
    student = (2.0 * torch.tanh(0.25 * hidden @ head.T / 2.0)).log_softmax(-1)
    capped = (3.0 * torch.tanh(0.5 * teacher.hidden @ teacher.head.T / 3.0)).log_softmax(-1)
    torch.testing.assert_close(out.divergence, REVERSE(student, capped).detach())


@pytest.mark.parametrize("width", [4, 5])
def test_bias_is_added_and_learned(width: int) -> None:
    hidden, head, teacher = operands(6, width, 4, 13, dtype=torch.float64)
    own = torch.linspace(-1, 1, 13, dtype=torch.float64, requires_grad=True)
    theirs = torch.linspace(2, -2, 13, dtype=torch.float64)
    out = linear_divergence(
        hidden, head, replace(teacher, bias=theirs), divergence=REVERSE, student_bias=own
    )
    student = (hidden @ head.T + own).log_softmax(-1)
    expected = REVERSE(student, (teacher.hidden @ teacher.head.T + theirs).log_softmax(-1)).mean()
    torch.testing.assert_close(out.loss, expected)
    torch.testing.assert_close(
        torch.autograd.grad(out.loss, (hidden, head, own)),
        torch.autograd.grad(expected, (hidden, head, own)),
    )
    drawn = torch.arange(6)
    torch.testing.assert_close(
        linear_log_probability(hidden, head, drawn, bias=own), student[drawn, drawn]
    )


def test_a_bias_of_another_dtype_is_refused() -> None:
    hidden, head, teacher = operands(6, 5, 4, 13, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"bias must have .* dtype torch.float64 .* got .*float32"):
        linear_divergence(hidden, head, teacher, divergence=REVERSE, student_bias=torch.zeros(13))
