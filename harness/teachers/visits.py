"""In which order do the teachers of a step have their turns?"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One teacher's turn: the rollouts it has a say in, how much, and who is next."""

    teacher: int
    rows: Int[Tensor, " rows"]
    weights: Float[Tensor, " rows"]
    following: int | None


def visits(
    weights: Float[Tensor, "rollouts teachers"], *, sort_by_teacher: bool
) -> Iterator[Visit]:
    """Every weight above 0 once, teacher by teacher.

    Unsorted, rollouts come as a stream of mixed domains brings them (a batch holds its domains one
    after the other, so it is dealt out again), and each asks for its teachers in turn.
    """
    asked = weights > 0
    if sort_by_teacher:
        turns = [(k, rows.nonzero().flatten()) for k, rows in enumerate(asked.unbind(dim=1))]
        turns = [(k, rows) for k, rows in turns if len(rows)]
    else:
        stream = torch.arange(len(weights)).view(weights.shape[1], -1).T.flatten().tolist()
        pairs = [(k, row) for row in stream for k in asked[row].nonzero().flatten().tolist()]
        turns = [
            (k, torch.tensor([row for _, row in group]))
            for k, group in groupby(pairs, key=lambda pair: pair[0])
        ]
    for index, (teacher, rows) in enumerate(turns):
        following = turns[index + 1][0] if index + 1 < len(turns) else None
        yield Visit(teacher=teacher, rows=rows, weights=weights[rows, teacher], following=following)
