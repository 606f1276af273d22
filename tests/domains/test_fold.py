"""Are a fold's answers, traces and rewards right?"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import pytest
import torch

from harness.domains import Fold
from harness.domains.base import SPLITS
from harness.domains.fold import BOS, END_THINK, EOS, EQUALS, THINK
from harness.domains.operators import OPERATORS

SUM = Fold(name="sum", operator="sum", operands=3, tags=0)

BY_HAND: dict[str, Callable[[Sequence[int]], int]] = {
    "sum": lambda d: sum(d) % 10,
    "alternating_sum": lambda d: sum(x * (-1) ** i for i, x in enumerate(d)) % 10,
    "sum_of_squares": lambda d: sum(x * x for x in d) % 10,
    "product": lambda d: reduce(lambda a, b: a * b, d) % 10,
    "doubled_sum": lambda d: sum(x * 2 ** (len(d) - 1 - i) for i, x in enumerate(d)) % 10,
    "tripled_sum": lambda d: sum(x * 3 ** (len(d) - 1 - i) for i, x in enumerate(d)) % 10,
    "maximum": max,
    "minimum": min,
    "second_largest": lambda d: sorted([0, *d])[-2],
    "range": lambda d: max(d) - min(d),
    "parity": lambda d: sum(d) % 2,
    "exclusive_or": lambda d: reduce(lambda a, b: (a ^ b) % 10, d),
    "distance": lambda d: reduce(lambda a, b: abs(a - b), d),
    "last_but_one": lambda d: d[-2] if len(d) > 1 else 0,
    "count_even": lambda d: sum(x % 2 == 0 for x in d),
    "count_ascents": lambda d: sum(b > a for a, b in pairwise(d)),
}


def test_there_are_enough_operators_for_a_dozen_teachers() -> None:
    assert len(OPERATORS) >= 12
    assert set(BY_HAND) == set(OPERATORS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_trace_is_the_fold_of_every_prefix(operator: str, generator: torch.Generator) -> None:
    domain = Fold(name="f", operator=operator)
    for row in domain.demonstrations(50, "specialist", generator).tokens.tolist():
        operands, completion = row[1:6], row[domain.prompt_tokens :]
        prefixes = [BY_HAND[operator](operands[: i + 1]) for i in range(5)]
        assert completion == [THINK, *prefixes, END_THINK, prefixes[-1], EOS]


def test_no_two_operators_are_one() -> None:
    operands = Fold(name="f", operator="sum")._operands(500, "prompts", torch.Generator())
    answers = [operator.running(operands)[:, -1].tolist() for operator in OPERATORS.values()]
    assert len({tuple(answer) for answer in answers}) == len(OPERATORS)
    assert all(0 <= digit <= 9 for answer in answers for digit in answer)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_so_many_demonstrations_think(fraction: float, generator: torch.Generator) -> None:
    domain = replace(SUM, thinking_fraction=fraction)
    batch = domain.demonstrations(400, "demonstrations", generator)
    thinks = batch.tokens[:, domain.prompt_tokens] == THINK
    assert float(thinks.float().mean()) == pytest.approx(fraction, abs=0.1)
    length = batch.is_completion.sum(dim=1)
    assert (length == torch.where(thinks, domain.operands + 4, 2)).all()
    assert (domain.reward(batch.tokens, batch.is_completion) == 1).all()


def test_the_mask_ends_with_the_first_end_token(generator: torch.Generator) -> None:
    domain = replace(SUM, thinking_fraction=0.5)
    batch = domain.demonstrations(50, "evaluation", generator)
    for tokens, counted in zip(batch.tokens, batch.is_completion, strict=True):
        completion = tokens[counted].tolist()
        assert completion[-1] == EOS
        assert EOS not in completion[:-1]
        assert (tokens[domain.prompt_tokens :][~counted[domain.prompt_tokens :]] == EOS).all()


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        ([6, EOS], 1),
        ([5, EOS], 0),
        ([6], 0),
        ([6, 6, EOS], 0),
        ([EOS], 0),
        ([THINK, END_THINK, 6, EOS], 1),
        ([THINK, 9, 9, END_THINK, 6, EOS], 1),
        ([THINK, 1, 3, 6, END_THINK, 5, EOS], 0),
        ([THINK, 1, 3, 6, END_THINK, 6], 0),
        ([THINK, 1, 3, 6, 6, EOS], 0),
        ([1, 3, 6, END_THINK, 6, EOS], 0),
        ([END_THINK, 6, EOS], 0),
        ([THINK, 6, EOS], 0),
        ([THINK, 1, 3, 6, END_THINK, EOS], 0),
        ([1, 1, 1, 1, 1, 1, 6], 0),
    ],
)
def test_rewards(completion: list[int], reward: int) -> None:
    row = [BOS, 1, 2, 3, EQUALS, *completion]
    tokens = torch.full((1, SUM.sequence_tokens), EOS)
    tokens[0, : len(row)] = torch.tensor(row)
    position = torch.arange(SUM.sequence_tokens)
    counted = ((position >= SUM.prompt_tokens) & (position < len(row)))[None]
    assert SUM.reward(tokens, counted).tolist() == [reward]


def test_every_operand_tuple_is_in_exactly_one_split() -> None:
    pools = [SUM._pools[split] for split in SPLITS]
    assert sorted(torch.cat(pools).tolist()) == list(range(1000))
    assert all(len(pool) >= 100 for pool in pools)


def test_operators_share_the_splits() -> None:
    other = replace(SUM, operator="maximum")
    for split in SPLITS:
        assert torch.equal(SUM._pools[split], other._pools[split])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operator": "summ"}, r"operator must be one of \[.*'sum'.*\], got 'summ'"),
        ({"operands": 1}, r"operands must be in \[2, 6\], got 1"),
        ({"operands": 7}, r"operands must be in \[2, 6\], got 7"),
        ({"thinking_fraction": 1.1}, r"thinking_fraction must be in \[0, 1\], got 1.1"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SUM, **change)
