"""What do all domains refuse alike, and how do they deal what they have to the splits?"""

from collections.abc import Mapping

from torch import Tensor

from harness.domains.base import Split


def check_tag(tag: int | None, tags: int) -> None:
    """`tags` ids are reserved behind the vocabulary, so that all domains of a world agree on it."""
    if tags < 0:
        raise ValueError(f"tags must be at least 0, got {tags}")
    if tag is not None and not 0 <= tag < tags:
        raise ValueError(f"tag must be in [0, {tags}), got {tag}")


def check_lengths(prompt_tokens: int, sequence_tokens: int) -> None:
    """Every prompt leaves room for a completion."""
    if not 1 <= prompt_tokens < sequence_tokens:
        raise ValueError(f"prompt_tokens must be in [1, {sequence_tokens}), got {prompt_tokens}")


def deal(order: Tensor, shares: Mapping[Split, float]) -> dict[Split, Tensor]:
    """The entries of `order`, in order, to the splits by share; the last split takes the rest."""
    sizes = [round(share * len(order)) for share in shares.values()]
    sizes[-1] = len(order) - sum(sizes[:-1])
    return dict(zip(shares, order.split(sizes), strict=True))
