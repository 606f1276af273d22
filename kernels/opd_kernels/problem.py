"""What goes into a fused divergence, and what comes out?"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from opd_kernels.divergences import Divergence
from opd_kernels.supports import FullVocab, TopK

Precision = Literal["exact", "fast"]


@dataclass(frozen=True)
class Teacher:
    """A teacher as the cache holds it: states after the final norm, exactly what its head sees.

    Logits are `softcap * tanh(scale * (hidden @ head.T + bias) / softcap)`, without the tanh where
    `softcap` is None and without the sum where `bias` is. `log_normalizer` is their logsumexp at
    temperature 1, in nats; it saves recomputing it. `weights` multiply this teacher's divergence,
    per token; None means 1. A teacher never gets a gradient.
    """

    hidden: Float[Tensor, "tokens teacher_width"]
    head: Float[Tensor, "teacher_vocab teacher_width"]
    _: KW_ONLY
    bias: Float[Tensor, " teacher_vocab"] | None = None
    log_normalizer: Float[Tensor, " tokens"] | None = None
    weights: Float[Tensor, " tokens"] | None = None
    scale: float = 1.0
    softcap: float | None = None

    def __post_init__(self) -> None:
        if self.softcap is not None and not self.softcap > 0:
            raise ValueError(f"softcap must be positive or None, got {self.softcap}")
        if self.hidden.dtype != self.head.dtype:
            raise ValueError(
                f"teacher head must have the dtype of its hidden states, {self.hidden.dtype}, "
                f"got {self.head.dtype}"
            )


def with_bias(
    hidden: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
) -> tuple[Float[Tensor, "tokens wider"], Float[Tensor, "vocab wider"]]:
    """States and a head whose product holds the bias: a column of ones times a column of biases.

    So no implementation has to know of it, and autograd hands its gradient back. An even width
    stays even: a column of zeros is added too.
    """
    if bias is None:
        return hidden, head
    if bias.shape != head.shape[:1] or bias.dtype != head.dtype:
        raise ValueError(
            f"bias must have the shape ({len(head)},) and dtype {head.dtype} of its head's words, "
            f"got {tuple(bias.shape)}, {bias.dtype}"
        )
    more = 1 + (hidden.shape[1] + 1) % 2
    constant = hidden.new_zeros(len(hidden), more)
    constant[:, 0] = 1.0
    biases = torch.cat([bias[:, None], head.new_zeros(len(head), more - 1)], dim=1)
    return torch.cat([hidden, constant], dim=1), torch.cat([head, biases], dim=1)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Checked operands with one vocabulary and only the tokens that count (internal)."""

    student_hidden: Float[Tensor, "tokens width"]
    student_head: Float[Tensor, "vocab width"]
    teachers: tuple[Teacher, ...]
    divergence: Divergence
    support: FullVocab | TopK
    student_temperature: float
    teacher_temperature: float
    student_scale: float
    student_softcap: float | None
    precision: Precision


@dataclass(frozen=True, kw_only=True)
class PerToken:
    """What every implementation measures per token.

    `teacher_cross_entropy` is the sum over teachers of weight times E_student[-log teacher], nats.
    `top1_agreement` is 1 where the student's most likely token is a most likely token of the
    teachers' weighted geometric mean. `dropped_mass` is the student's probability outside the
    support, or of the words the gradient skips.
    """

    divergence: Float[Tensor, " tokens"]
    student_entropy: Float[Tensor, " tokens"]
    teacher_cross_entropy: Float[Tensor, " tokens"]
    top1_agreement: Float[Tensor, " tokens"]
    dropped_mass: Float[Tensor, " tokens"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one pass of a fused implementation returns (internal).

    `rows` holds the fields of `PerToken`; the gradients are those of sum(coefficient * divergence).
    """

    rows: dict[str, Tensor]
    hidden_gradient: Float[Tensor, "tokens width"] | None
    head_gradient: Float[Tensor, "vocab width"] | None


@dataclass(frozen=True, kw_only=True)
class LinearDivergence(PerToken):
    """The loss, the only field with a gradient, and detached measurements (0 where masked).

    `divergence` is per token, weighted by the teachers' weights but not by `token_weights`.
    """

    loss: Float[Tensor, "*reduced"]

    def infinite_tokens(self) -> Int[Tensor, " infinite"]:
        """Positions where the student gives probability to a token its teacher forbids.

        Their divergence is +inf; they get no gradient, since no direction of it is finite.
        """
        return self.divergence.isinf().nonzero().flatten()
