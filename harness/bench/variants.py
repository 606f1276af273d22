"""What is timed? One step of reverse KL, forward and backward, done by us and by others.

A step takes the same operands and leaves gradients of hidden states and head. `floor` is the four
matrix products no implementation can avoid, in the same chunks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from opd_kernels import Implementation, Teacher, linear_divergence, parse_divergence

CHUNK_TOKENS = 256
Step = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Size:
    """Tokens, width of the hidden states, words of the vocabulary."""

    tokens: int
    width: int
    vocab: int

    def __str__(self) -> str:
        return f"{self.tokens} x {self.width} x {self.vocab}"


SIZES = (
    Size(tokens=4096, width=64, vocab=512),
    Size(tokens=1024, width=576, vocab=49152),
    Size(tokens=512, width=896, vocab=151936),
)


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Student and teacher of one size; logits of standard deviation 2."""

    hidden: Float[Tensor, "tokens width"]
    head: Float[Tensor, "vocab width"]
    teacher: Teacher

    @property
    def chunk_buffers_bytes(self) -> int:
        """Two float32 buffers of one chunk of logits."""
        return 2 * 4 * min(CHUNK_TOKENS, len(self.hidden)) * len(self.head)


def operands(size: Size, dtype: torch.dtype, device: str = "cpu") -> Operands:
    """The same numbers for every implementation."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(rows: int, scale: float) -> Tensor:
        drawn = torch.randn(rows, size.width, generator=generator, device=device)
        return (scale * drawn).to(dtype)

    scale = 2 / size.width**0.5
    return Operands(
        hidden=normal(size.tokens, 1.0).requires_grad_(),
        head=normal(size.vocab, scale).requires_grad_(),
        teacher=Teacher(normal(size.tokens, 1.0), normal(size.vocab, scale)),
    )


def floor(given: Operands, teachers: Sequence[Teacher] = ()) -> Step:
    """Only the products: both logits, the gradient of the states and that of the head.

    Several `teachers` in place of the one add up in one buffer, a product each.
    """
    hidden, head = given.hidden.detach(), given.head.detach()
    first, *more = teachers or (given.teacher,)

    def step() -> None:
        size = min(CHUNK_TOKENS, len(hidden))
        student, other = (hidden.new_empty(size, len(head)) for _ in range(2))
        d_hidden, d_head = torch.empty_like(hidden), torch.zeros_like(head)
        for start in range(0, len(hidden), size):
            part = slice(start, start + size)
            n = len(hidden[part])
            torch.mm(hidden[part], head.T, out=student[:n])
            torch.mm(first.hidden[part], first.head.T, out=other[:n])
            for teacher in more:
                other[:n].addmm_(teacher.hidden[part], teacher.head.T)
            torch.mm(student[:n], head, out=d_hidden[part])
            d_head.addmm_(student[:n].T, hidden[part])

    return step


def ours(
    given: Operands,
    implementation: Implementation,
    *,
    precision: str = "exact",
    divergence: str = "reverse_kl",
    half: bool = False,
    frozen: bool = False,
    teachers: Sequence[Teacher] = (),
) -> Step:
    """`linear_divergence`; `half` masks every other token, `frozen` the head.

    `teachers` stand in place of the one.
    """
    mask = torch.arange(len(given.hidden), device=given.hidden.device) % 2 == 0 if half else None
    head = given.head.detach() if frozen else given.head

    def step() -> None:
        given.hidden.grad = given.head.grad = None
        linear_divergence(
            given.hidden,
            head,
            teachers or given.teacher,
            divergence=parse_divergence(divergence),
            precision=precision,  # type: ignore[arg-type]
            implementation=implementation,
            chunk_tokens=CHUNK_TOKENS,
            mask=mask,
        ).loss.backward()

    return step


def _plain(hidden: Tensor, head: Tensor, states: Tensor, teacher_head: Tensor) -> Tensor:
    student = (hidden @ head.T).float().log_softmax(-1)
    with torch.no_grad():
        teacher = (states @ teacher_head.T).float().log_softmax(-1)
    return (student.exp() * (student - teacher)).sum()


def naive(given: Operands) -> Step:
    """Full logits under autograd."""

    def step() -> None:
        given.hidden.grad = given.head.grad = None
        loss = _plain(given.hidden, given.head, given.teacher.hidden, given.teacher.head)
        (loss / len(given.hidden)).backward()

    return step


def checkpointed(given: Operands) -> Step:
    """The same in chunks whose backward recomputes them."""

    def step() -> None:
        given.hidden.grad = given.head.grad = None
        pairs = zip(
            given.hidden.split(CHUNK_TOKENS), given.teacher.hidden.split(CHUNK_TOKENS), strict=True
        )
        losses = [
            checkpoint(_plain, h, given.head, t, given.teacher.head, use_reentrant=False)
            for h, t in pairs
        ]
        (torch.stack(losses).sum() / len(given.hidden)).backward()

    return step


def liger(given: Operands) -> Step:
    """Liger's chunked JSD at beta = 1, which is its reverse KL; no compilation on a CPU."""
    from liger_kernel.chunked_loss import (  # type: ignore[import-not-found]
        LigerFusedLinearJSDLoss,
    )

    loss = LigerFusedLinearJSDLoss(
        weight_hard_loss=0.0,
        weight_soft_loss=1.0,
        beta=1.0,
        compiled=given.hidden.is_cuda,
        chunk_size=CHUNK_TOKENS,
    )
    labels = torch.zeros(len(given.hidden), dtype=torch.long, device=given.hidden.device)

    def step() -> None:
        given.hidden.grad = given.head.grad = None
        teacher = given.teacher
        loss(given.hidden, given.head, teacher.hidden, teacher.head, labels).backward()

    return step


def trl(given: Operands) -> Step:
    """TRL's chunked divergence at beta = 1, its reverse KL."""
    from trl.kernels.chunked_divergence import (  # type: ignore[import-not-found]
        ChunkedDivergenceFunction,
    )

    def step() -> None:
        given.hidden.grad = given.head.grad = None
        teacher = given.teacher
        rows, _ = ChunkedDivergenceFunction.apply(
            given.hidden, given.head, None, teacher.hidden, teacher.head, None, 1.0
        )
        rows.mean().backward()

    return step


def variants() -> dict[str, Callable[[Operands], Step]]:
    """Everything that can run here, ours first; peers where they are installed."""
    menu: dict[str, Callable[[Operands], Step]] = {
        "ours": partial(ours, implementation="auto"),
        "ours, fast": partial(ours, implementation="auto", precision="fast"),
        "ours, half the tokens": partial(ours, implementation="auto", half=True),
        "ours, frozen head": partial(ours, implementation="auto", frozen=True),
        "ours, portable": partial(ours, implementation="chunked"),
        "naive full logits": naive,
        "checkpointed chunks": checkpointed,
    }
    if find_spec("liger_kernel"):
        menu["Liger chunked JSD"] = liger
    if find_spec("trl"):
        menu["TRL chunked divergence"] = trl
    return menu
