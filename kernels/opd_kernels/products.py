"""How is a product of half-precision operands had in float32, without a copy of the head?

CUDA does it in the product; a CPU takes the head in blocks of words.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK_WORDS = 4096


def times(dtype: torch.dtype) -> torch.dtype:
    """The dtype sums are taken in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def into(
    out: Float[Tensor, "tokens vocab"],
    hidden: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    scale: float | Float[Tensor, " tokens"],
    *,
    add: bool = False,
) -> None:
    """out (+)= scale * hidden @ head.T, rounded to the dtype of `out` only."""
    if isinstance(scale, Tensor) or (add and hidden.dtype != out.dtype):
        factor = scale[:, None] if isinstance(scale, Tensor) else scale
        if hidden.dtype == times(hidden.dtype):
            # In float32 the factor goes into the small operand: nothing per word of the vocabulary.
            into(out, hidden * factor.to(hidden.dtype), head, 1.0, add=add)  # type: ignore[union-attr]
            return
        for words in range(0, len(head), BLOCK_WORDS):
            part = slice(words, words + BLOCK_WORDS)
            block = factor * _widened(hidden, head[part], out.dtype)
            out[:, part] = block + out[:, part] if add else block
        return
    if hidden.dtype == out.dtype:
        torch.addmm(out, hidden, head.T, beta=float(add), alpha=scale, out=out)
        return
    if hidden.is_cuda:
        torch.mm(hidden, head.T, out_dtype=out.dtype, out=out)
        if scale != 1.0:
            out *= scale
        return
    wide = hidden.to(out.dtype) * scale
    for words in range(0, len(head), BLOCK_WORDS):
        part = slice(words, words + BLOCK_WORDS)
        out[:, part] = wide @ head[part].to(out.dtype).T


def _widened(hidden: Tensor, head: Tensor, dtype: torch.dtype) -> Tensor:
    if hidden.dtype == dtype:
        return hidden @ head.T
    if hidden.is_cuda:
        return torch.mm(hidden, head.T, out_dtype=dtype)
    return hidden.to(dtype) @ head.to(dtype).T


def back(
    gradient: Float[Tensor, "tokens kept"], head: Float[Tensor, "kept width"], spare: Tensor
) -> Float[Tensor, "tokens width"]:
    """gradient @ head in the dtype of `head`; `spare` is a free buffer of the logits' shape."""
    if gradient.dtype == head.dtype:
        return gradient @ head
    if head.is_cuda:
        return _narrowed(gradient, head.dtype, spare) @ head
    total = gradient.new_zeros(len(gradient), head.shape[1])
    for words in range(0, len(head), BLOCK_WORDS):
        part = slice(words, words + BLOCK_WORDS)
        total.addmm_(gradient[:, part], head[part].to(gradient.dtype))
    return total.to(head.dtype)


def add_outer(
    total: Float[Tensor, "vocab width"],
    gradient: Float[Tensor, "tokens kept"],
    hidden: Float[Tensor, "tokens width"],
    columns: Int[Tensor, " kept"] | None,
    spare: Tensor,
) -> None:
    """total[columns] += gradient.T @ hidden, in the dtype of `total`."""
    if columns is None and gradient.dtype == hidden.dtype:
        total.addmm_(gradient.T, hidden)
        return
    if hidden.is_cuda and gradient.dtype != hidden.dtype:
        narrow = _narrowed(gradient, hidden.dtype, spare)
        product = torch.mm(narrow.T, hidden, out_dtype=total.dtype)
    else:
        product = gradient.T @ hidden.to(gradient.dtype)
    if columns is None:
        total += product
    else:
        total.index_add_(0, columns, product)


def _narrowed(gradient: Tensor, dtype: torch.dtype, spare: Tensor) -> Tensor:
    """The gradient in half precision, written over a buffer that is no longer needed."""
    half = spare.view(dtype)[:, : gradient.shape[1]]
    return half.copy_(gradient)
