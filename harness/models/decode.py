"""What does a transformer's next position cost when it has seen those before?

One query a sequence is so little work that the number of calls is what counts. So every buffer and
view is made once, and a product over all positions with the future masked replaces attention over
those so far.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Weights = tuple[Tensor, Tensor, Tensor, Tensor]
"""Attend (query, key and value), merge, up and down of one layer, each [out, in]."""


def norm(x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
    """Layer norm without weights."""
    return torch.layer_norm(x, x.shape[-1:])


class Decoder:
    """Keys and values of all layers at all positions, allocated once, filled as tokens come."""

    def __init__(self, weights: Sequence[Weights], heads: int, batch: int, time: int) -> None:
        self.layers = [Layer(of_layer, heads, batch, time) for of_layer in weights]
        self.future = torch.full((time, time), -torch.inf).triu(1).unbind()

    def step(self, x: Float[Tensor, "batch width"], position: int) -> Float[Tensor, "batch width"]:
        """Final states at `position`, of embedded tokens; all before must have been there."""
        for layer in self.layers:
            x = layer.step(x, position, self.future[position])
        return norm(x)


class Layer:
    """One layer of it."""

    def __init__(self, weights: Weights, heads: int, batch: int, time: int) -> None:
        attend, merge, up, down = weights
        width, each = attend.shape[1], attend.shape[1] // heads
        scaled = torch.cat([attend[:width] * each**-0.5, attend[width:]])
        self.attend, self.merge, self.up, self.down = scaled.T, merge.T, up.T, down.T
        self.keys = torch.zeros(batch * heads, each, time)
        self.values = torch.zeros(batch * heads, time, each)
        self.key_at = self.keys.view(batch, heads, each, time).unbind(3)
        self.value_at = self.values.view(batch, heads, time, each).unbind(2)
        self.mixed = torch.empty(batch, 3 * width)
        self.new_query, self.new_key, self.new_value = self.mixed.view(
            batch, 3, heads, each
        ).unbind(1)
        self.query = torch.empty(batch, heads, each)
        self.queries = self.query.view(batch * heads, 1, each)
        self.attended = torch.empty(batch, width)
        self.answers = self.attended.view(batch * heads, 1, each)

    def keep(
        self,
        keys: Float[Tensor, "batch heads first each"],
        values: Float[Tensor, "batch heads first each"],
    ) -> None:
        """Fill in the first positions, computed elsewhere."""
        first = keys.shape[2]
        self.keys[..., :first] = keys.flatten(0, 1).mT
        self.values[:, :first] = values.flatten(0, 1)

    def step(self, x: Tensor, position: int, future: Tensor) -> Tensor:
        """This layer's output at `position`; `future` is -inf at those after it, else 0."""
        torch.mm(norm(x), self.attend, out=self.mixed)
        self.query.copy_(self.new_query)
        self.key_at[position].copy_(self.new_key)
        self.value_at[position].copy_(self.new_value)
        scores = torch.bmm(self.queries, self.keys).add_(future)
        torch.bmm(scores.softmax(dim=-1), self.values, out=self.answers)
        x = torch.addmm(x, self.attended, self.merge)
        return torch.addmm(x, F.silu(torch.mm(norm(x), self.up), inplace=True), self.down)
