"""Is the Markov source's truth exact, and are its sequences drawn from it?"""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from harness.domains import Markov
from harness.domains.markov import FLOOR_NATS, _pools

TINY = Markov(
    name="tiny",
    states=3,
    concentration=0.5,
    sequence_tokens=5,
    demonstration_sequences=8,
    pool_sequences=4,
)
SECOND = replace(TINY, order=2, sequence_tokens=6)
EVERY = pytest.mark.parametrize("domain", [TINY, SECOND], ids=["order 1", "order 2"])


def everything(domain: Markov) -> torch.Tensor:
    """Every sequence that the source can emit."""
    length = domain.sequence_tokens - 1
    bodies = torch.tensor(list(itertools.product(range(domain.states), repeat=length)))
    return torch.cat([torch.full_like(bodies[:, :1], domain.states), bodies], dim=1)


def log_probability(domain: Markov, tokens: torch.Tensor) -> torch.Tensor:
    """Of every token but the first, nats."""
    known = domain.source_log_probabilities(tokens)
    return known.gather(2, tokens[..., None])[:, 1:, 0]


@EVERY
def test_probabilities_of_all_sequences_sum_to_one(domain: Markov) -> None:
    total = log_probability(domain, everything(domain)).sum(dim=1).exp().sum()
    assert float(total) == pytest.approx(1, abs=1e-5)


@EVERY
@pytest.mark.parametrize("prompt_tokens", [1, 3])
def test_entropy_is_the_expectation_over_all_sequences(domain: Markov, prompt_tokens: int) -> None:
    domain = replace(domain, prompt_tokens=prompt_tokens)
    each = log_probability(domain, everything(domain))
    surprise = -each[:, prompt_tokens - 1 :].mean(dim=1)
    expected = float((each.sum(dim=1).exp() * surprise).sum())
    assert domain.entropy_nats == pytest.approx(expected, abs=1e-5)


def test_probabilities_are_the_rows_of_the_conditionals() -> None:
    known = TINY.source_log_probabilities(torch.tensor([[3, 2, 0, 1, 1]]))[0]
    uniform = torch.full((3,), 1 / 3)
    torch.testing.assert_close(known[1, :3].exp(), uniform)
    torch.testing.assert_close(known[2, :3].exp(), TINY.conditionals[2])
    torch.testing.assert_close(known[3, :3].exp(), TINY.conditionals[0])
    assert (known[1:, 3:] == FLOOR_NATS).all()


def test_order_two_looks_at_two_states() -> None:
    known = SECOND.source_log_probabilities(torch.tensor([[3, 2, 0, 1, 1, 0]]))[0]
    torch.testing.assert_close(known[2, :3].exp(), torch.full((3,), 1 / 3))
    torch.testing.assert_close(known[3, :3].exp(), SECOND.conditionals[2 * 3 + 0])
    torch.testing.assert_close(known[4, :3].exp(), SECOND.conditionals[0 * 3 + 1])


def test_after_a_special_token_any_state_is_as_likely() -> None:
    known = SECOND.source_log_probabilities(torch.tensor([[3, 2, 4, 1, 1, 0]]))[0]
    torch.testing.assert_close(known[3:5, :3].exp(), torch.full((2, 3), 1 / 3))
    torch.testing.assert_close(known[5, :3].exp(), SECOND.conditionals[1 * 3 + 1])


@EVERY
def test_sequences_follow_the_source(domain: Markov, generator: torch.Generator) -> None:
    """A chi-squared statistic within five standard deviations of its mean."""
    drawn = domain._draw(20_000, generator)
    assert (drawn[:, 0] == domain.states).all()
    cells = everything(domain)
    powers = domain.states ** torch.arange(domain.sequence_tokens - 1)
    keys = ((drawn[:, 1:] * powers).sum(dim=1), (cells[:, 1:] * powers).sum(dim=1))
    seen = torch.bincount(keys[0], minlength=len(cells))[keys[1]]
    expected = 20_000 * log_probability(domain, cells).sum(dim=1).exp()
    frequent = expected > 5
    statistic = ((seen - expected) ** 2 / expected)[frequent].sum()
    freedom = int(frequent.sum())
    assert abs(float(statistic) - freedom) < 5 * math.sqrt(2 * freedom) + 1


def test_overlap_moves_a_source_onto_the_shared_one() -> None:
    rows = [
        replace(TINY, source_seed=seed, overlap=overlap, smoothing=0.0).conditionals
        for overlap in (0.0, 0.5, 1.0)
        for seed in (1, 2)
    ]
    torch.testing.assert_close(rows[4], rows[5])
    torch.testing.assert_close(rows[2], (rows[0] + rows[4]) / 2)
    assert float((rows[0] - rows[1]).abs().sum()) > 0.5
    for table in rows:
        torch.testing.assert_close(table.sum(dim=1), torch.ones(3))


def test_smoothing_bounds_every_probability_below() -> None:
    assert float(replace(TINY, smoothing=0.3).conditionals.min()) >= 0.1 - 1e-6


def test_the_student_sees_as_many_sequences_as_it_is_given(generator: torch.Generator) -> None:
    few = replace(TINY, sequence_tokens=12, demonstration_sequences=5, pool_sequences=50)
    drawn = few.demonstrations(500, "demonstrations", generator)
    assert len(drawn.tokens.unique(dim=0)) == 5
    assert len(few.demonstrations(5000, "specialist", generator).tokens.unique(dim=0)) == 50


def test_the_pools_are_the_same_when_made_again() -> None:
    for split, pool in _pools.__wrapped__(TINY).items():
        assert torch.equal(pool, _pools.__wrapped__(replace(TINY))[split])


def test_too_few_distinct_sequences_are_refused(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="fewer than 24 distinct sequences"):
        replace(TINY, states=2).prompts(1, "prompts", generator)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overlap": 1.5}, r"overlap must be in \[0, 1\], got 1.5"),
        ({"smoothing": -0.1}, r"smoothing must be in \[0, 1\], got -0.1"),
        ({"states": 1}, "states must be at least 2, got 1"),
        ({"order": 0}, r"order must be in \[1, 5\), got 0"),
        ({"states": 1000, "order": 2}, r"states \*\* order must be at most 100000, got 1000000"),
        ({"concentration": 0.0}, "concentration must be positive, got 0.0"),
        ({"concentration": math.nan}, "concentration must be positive"),
        ({"pool_sequences": 0}, "pool_sequences must be at least 1, got 0"),
    ],
)
def test_refusals(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)
