"""Is a log-normalizer what it is called, and a token's log-probability then a dot product?"""

import pytest
import torch

from opd_kernels import linear_log_normalizer, linear_log_probability, log_probability
from tests.kernels.cases import operands


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("whole", [2**22, 8])  # at once, and in chunks
def test_against_the_definition_in_float64(
    temperature: float, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_probability, "WHOLE_ELEMENTS", whole)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(9, 5, generator=generator, dtype=torch.double)
    head = torch.randn(13, 5, generator=generator, dtype=torch.double, requires_grad=True)
    bias = torch.randn(13, generator=generator, dtype=torch.double)
    logits = (hidden @ head.T + bias) / temperature
    found = linear_log_normalizer(hidden, head, bias=bias, temperature=temperature)
    torch.testing.assert_close(found, logits.logsumexp(-1))
    (mine,) = torch.autograd.grad(found.sum(), head)
    (right,) = torch.autograd.grad(logits.logsumexp(-1).sum(), head)
    torch.testing.assert_close(mine, right)
    tokens = torch.randint(13, (9,), generator=generator)
    dot = ((hidden * head[tokens]).sum(-1) + bias[tokens]) / temperature - found
    value = linear_log_probability(hidden, head, tokens, bias=bias, temperature=temperature)
    torch.testing.assert_close(value, dot)


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        linear_log_normalizer(torch.zeros(1, 2), torch.zeros(3, 2), temperature=0.0)


def test_log_probability_in_chunks() -> None:
    hidden, head, _ = operands(600, 12, 12, 7000, dtype=torch.float32)
    tokens = torch.arange(600)
    actual = linear_log_probability(hidden, head, tokens)
    expected = (hidden @ head.T).log_softmax(-1)[tokens, tokens]
    torch.testing.assert_close(actual, expected)
    weights = torch.linspace(-1, 1, 600)
    for a, b in zip(
        torch.autograd.grad(actual, (hidden, head), weights),
        torch.autograd.grad(expected, (hidden, head), weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_log_probability_of_given_tokens() -> None:
    hidden, head, _ = operands(6, 5, 4, 13, dtype=torch.float64)
    tokens = torch.arange(6)
    actual = linear_log_probability(hidden, head, tokens, temperature=0.7)
    expected = (hidden @ head.T / 0.7).log_softmax(-1)[torch.arange(6), tokens]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual.sum(), (hidden, head)),
        torch.autograd.grad(expected.sum(), (hidden, head)),
    )
