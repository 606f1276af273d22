"""Is a log-normalizer what it is called, and a token's log-probability then a dot product?"""

import pytest
import torch

from opd_kernels import linear_log_normalizer, linear_log_probability, log_probability


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
