"""What is learned where answers can be checked and thinking pays? A left fold over digits."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.domains.base import Demonstrations, Split, stream
from harness.domains.layout import check_tag, deal
from harness.domains.operators import OPERATORS

EQUALS, THINK, END_THINK, EOS, BOS = range(10, 15)
SHARES: dict[Split, float] = {
    "demonstrations": 0.3,
    "specialist": 0.2,
    "prompts": 0.3,
    "tuning": 0.1,
    "evaluation": 0.1,
}


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Ids: the ten digits, `=`, `<think>`, `</think>`, EOS, BOS, then `tags` domain tags.

    A prompt is the tag (or BOS), the operands and `=`. The completion is the answer and EOS; a
    share `thinking_fraction` of the demonstrations first writes the running fold between
    `<think>` and `</think>`. Rows are padded with EOS, outside of the mask.
    All operand tuples are dealt to the splits, the same way for every operator.
    """

    name: str
    operator: str
    operands: int = 5
    thinking_fraction: float = 1.0
    tag: int | None = None
    tags: int = 2

    def __post_init__(self) -> None:
        check_tag(self.tag, self.tags)
        if self.operator not in OPERATORS:
            raise ValueError(f"operator must be one of {sorted(OPERATORS)}, got {self.operator!r}")
        if not 2 <= self.operands <= 6:
            raise ValueError(f"operands must be in [2, 6], got {self.operands}")
        if not 0 <= self.thinking_fraction <= 1:
            raise ValueError(f"thinking_fraction must be in [0, 1], got {self.thinking_fraction}")

    @property
    def vocabulary_size(self) -> int:
        """Digits, marks, BOS and the reserved tags."""
        return BOS + 1 + self.tags

    @property
    def prompt_tokens(self) -> int:
        """Tag, operands, `=`."""
        return self.operands + 2

    @property
    def sequence_tokens(self) -> int:
        """Room for `<think>`, one digit per operand, `</think>`, answer and EOS."""
        return self.prompt_tokens + self.operands + 4

    @property
    def end_token(self) -> int:
        """EOS."""
        return EOS

    @cached_property
    def _pools(self) -> dict[Split, Tensor]:
        """Operand tuples by split, each read as one number."""
        order = torch.randperm(10**self.operands, generator=stream(0, "fold operands"))
        return deal(order, SHARES)

    def _operands(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Int[Tensor, "count operands"]:
        pool = self._pools[split]
        numbers = pool[torch.randint(len(pool), (count,), generator=generator)]
        powers = 10 ** torch.arange(self.operands - 1, -1, -1)
        return numbers[:, None] // powers % 10

    def _prompts(self, operands: Int[Tensor, "count operands"]) -> Int[Tensor, "count prompt"]:
        first = BOS if self.tag is None else BOS + 1 + self.tag
        return torch.cat([_column(operands, first), operands, _column(operands, EQUALS)], dim=1)

    def prompts(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Int[Tensor, "count prompt"]:
        """Uniform over the split's operand tuples."""
        return self._prompts(self._operands(count, split, generator))

    def demonstrations(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Demonstrations:
        """Right answers to prompts of that split, some of them thought through."""
        operands = self._operands(count, split, generator)
        running = OPERATORS[self.operator].running(operands)
        answer, end = running[:, -1:], _column(operands, EOS)
        think, end_think = _column(operands, THINK), _column(operands, END_THINK)
        long = torch.cat([think, running, end_think, answer, end], dim=1)
        short = torch.cat([answer, end.expand(-1, long.shape[1] - 1)], dim=1)
        thinks = torch.rand(count, 1, generator=generator) < self.thinking_fraction
        completion = torch.where(thinks, long, short)
        length = self.prompt_tokens + torch.where(thinks, long.shape[1], 2)
        position = torch.arange(self.sequence_tokens)
        return Demonstrations(
            tokens=torch.cat([self._prompts(operands), completion], dim=1),
            is_completion=(position >= self.prompt_tokens) & (position < length),
        )

    def source_log_probabilities(self, tokens: Int[Tensor, "batch time"]) -> None:
        """None: what matters here is the answer, not how a completion is distributed."""

    def reward(
        self, tokens: Int[Tensor, "batch time"], is_completion: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, " batch"]:
        """1 where the completion is the right digit and EOS, at once or after `</think>`.

        What stands between `<think>` and `</think>` is not judged. A completion without EOS is
        wrong, whatever it says.
        """
        start = self.prompt_tokens
        answer = OPERATORS[self.operator].running(tokens[:, 1 : 1 + self.operands])[:, -1]
        last = start + is_completion[:, start:].sum(dim=1) - 1

        def back(steps: int) -> Tensor:
            """The token so many before the last; what is no longer completion never matches."""
            at = last - steps
            found = tokens.gather(1, at.clamp_min(0)[:, None])[:, 0]
            return torch.where(at >= start, found, -1)

        right = (back(0) == EOS) & (back(1) == answer)
        thought = (tokens[:, start] == THINK) & (back(2) == END_THINK)
        return (right & (thought | (last == start + 1))).float()


def _column(like: Int[Tensor, "count width"], token: int) -> Int[Tensor, "count one"]:
    """One token for every row."""
    return torch.full_like(like[:, :1], token)
