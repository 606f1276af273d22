"""What is the log-probability of a token, or its normalizer, given hidden states and a head?"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from opd_kernels.chunked import default_chunk
from opd_kernels.problem import with_bias
from opd_kernels.reference import logits

WHOLE_ELEMENTS = 2**22


def linear_log_probability(
    hidden: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    tokens: Int[Tensor, " tokens"],
    *,
    bias: Float[Tensor, " vocab"] | None = None,
    temperature: float = 1.0,
) -> Float[Tensor, " tokens"]:
    """log softmax((hidden @ head.T + bias) / temperature) at `tokens`, in nats, with gradients.

    A sampled-token loss or a cross-entropy from cached states; past a few million logits in chunks
    whose backward recomputes them.
    """

    def part(row: Tensor, words: Tensor) -> Tensor:
        return row.log_softmax(-1).gather(1, words[:, None]).squeeze(1)

    return _per_token(part, hidden, head, bias, temperature, tokens)


def linear_log_normalizer(
    hidden: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    *,
    bias: Float[Tensor, " vocab"] | None = None,
    temperature: float = 1.0,
) -> Float[Tensor, " tokens"]:
    """logsumexp((hidden @ head.T + bias) / temperature), in nats, with gradients.

    Cached beside the states, it makes the log-probability of any token one dot product.
    """
    return _per_token(
        lambda row, _: row.logsumexp(-1),
        hidden, head, bias, temperature, hidden.new_zeros(len(hidden)),
    )  # fmt: skip


def _per_token(
    part: Callable[[Tensor, Tensor], Tensor],
    hidden: Tensor,
    head: Tensor,
    bias: Tensor | None,
    temperature: float,
    tokens: Tensor,
) -> Tensor:
    """`part` of every token's logits; past a few million in chunks whose backward recomputes."""
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    hidden, head = with_bias(hidden, head, bias)

    def chunk(states: Tensor, words: Tensor) -> Tensor:
        row = logits(
            states, head, scale=1.0, softcap=None, temperature=temperature, precision="exact"
        )
        return part(row, words)

    if hidden.shape[0] * head.shape[0] <= WHOLE_ELEMENTS:
        return chunk(hidden, tokens)
    size = default_chunk(hidden)
    pairs = zip(hidden.split(size), tokens.split(size), strict=True)
    return torch.cat([checkpoint(chunk, *pair, use_reentrant=False) for pair in pairs])
