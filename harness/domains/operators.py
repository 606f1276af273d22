"""Which left folds over digits can be learned? Each is a state that one operand at a time moves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

State = Int[Tensor, " batch"]


def _itself(state: Tensor) -> Tensor:
    return state


@dataclass(frozen=True, kw_only=True)
class Operator:
    """`step(state, operand)` from `start`; `read(state)` is the digit written down, 0 to 9.

    A state may hold more than its digit: two digits are packed as `10 * one + other`.
    """

    start: int
    step: Callable[[Tensor, Tensor], Tensor]
    read: Callable[[Tensor], Tensor] = _itself

    def running(self, operands: Int[Tensor, "batch operands"]) -> Int[Tensor, "batch operands"]:
        """The digit read after each operand; the last column is the answer."""
        state = torch.full_like(operands[:, 0], self.start)
        digits = []
        for operand in operands.unbind(dim=1):
            state = self.step(state, operand)
            digits.append(self.read(state))
        return torch.stack(digits, dim=1)


def _second_largest(state: Tensor, operand: Tensor) -> Tensor:
    largest, second = state // 10, state % 10
    runner_up = torch.maximum(second, torch.minimum(largest, operand))
    return 10 * torch.maximum(largest, operand) + runner_up


def _extremes(state: Tensor, operand: Tensor) -> Tensor:
    return 10 * torch.maximum(state // 10, operand) + torch.minimum(state % 10, operand)


def _ascents(state: Tensor, operand: Tensor) -> Tensor:
    return 10 * ((state // 10 + (operand > state % 10).long()) % 10) + operand


def _alternating(state: Tensor, operand: Tensor) -> Tensor:
    sign = 1 - 2 * (state // 10)
    return 10 * (1 - state // 10) + (state % 10 + sign * operand) % 10


OPERATORS: Mapping[str, Operator] = {
    "sum": Operator(start=0, step=lambda s, x: (s + x) % 10),
    "alternating_sum": Operator(start=0, step=_alternating, read=lambda s: s % 10),
    "sum_of_squares": Operator(start=0, step=lambda s, x: (s + x * x) % 10),
    "product": Operator(start=1, step=lambda s, x: (s * x) % 10),
    "doubled_sum": Operator(start=0, step=lambda s, x: (2 * s + x) % 10),
    "tripled_sum": Operator(start=0, step=lambda s, x: (3 * s + x) % 10),
    "maximum": Operator(start=0, step=torch.maximum),
    "minimum": Operator(start=9, step=torch.minimum),
    "second_largest": Operator(start=0, step=_second_largest, read=lambda s: s % 10),
    "range": Operator(start=9, step=_extremes, read=lambda s: s // 10 - s % 10),
    "parity": Operator(start=0, step=lambda s, x: (s + x) % 2),
    "exclusive_or": Operator(start=0, step=lambda s, x: (s ^ x) % 10),
    "distance": Operator(start=0, step=lambda s, x: (s - x).abs()),
    "last_but_one": Operator(start=0, step=lambda s, x: 10 * (s % 10) + x, read=lambda s: s // 10),
    "count_even": Operator(start=0, step=lambda s, x: (s + 1 - x % 2) % 10),
    "count_ascents": Operator(start=9, step=_ascents, read=lambda s: s // 10),
}
