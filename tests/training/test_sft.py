"""Does SFT imitate the right tokens, with one denominator?"""

from dataclasses import dataclass

import pytest
import torch

from harness.domains import Markov
from harness.domains.base import Demonstrations, Split
from harness.models.tiny import TinyPolicy, TinyShape
from harness.training.budget import Ledger
from harness.training.config import Optimization, Sft
from harness.training.sft import cross_entropy, train_sft
from tests.training.worlds import DOMAINS, policy, streams


def gradient(model: TinyPolicy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_micro_batches_of_unequal_token_counts_change_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    batch = DOMAINS[0].demonstrations(6, "demonstrations", generator)
    lengths = torch.tensor([2, 9, 3, 4, 9, 5])
    mask = batch.is_completion & (torch.arange(9) < lengths[:, None])
    whole, parts = policy(0), policy(0)
    total, tokens = cross_entropy(whole, Demonstrations(tokens=batch.tokens, is_completion=mask))
    (total / tokens).backward()
    for rows in (slice(0, 1), slice(1, 6)):
        part = Demonstrations(tokens=batch.tokens[rows], is_completion=mask[rows])
        (cross_entropy(parts, part)[0] / tokens).backward()
    torch.testing.assert_close(gradient(whole), gradient(parts))


def test_a_batch_without_completion_tokens_costs_nothing() -> None:
    model = policy(0)
    batch = DOMAINS[0].demonstrations(2, "demonstrations", torch.Generator())
    empty = Demonstrations(tokens=batch.tokens, is_completion=torch.zeros(2, 9, dtype=torch.bool))
    total, tokens = cross_entropy(model, empty)
    total.backward()
    assert (total.item(), tokens) == (0.0, 0)
    assert torch.isfinite(gradient(model)).all()


@dataclass(frozen=True, kw_only=True)
class Counting(Markov):
    """Every token is the one before plus one: a shift between logits and labels shows at once."""

    name: str = "counting"
    states: int = 6
    sequence_tokens: int = 9

    def demonstrations(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Demonstrations:
        first = torch.randint(6, (count, 1), generator=generator)
        tokens = (first + torch.arange(9)) % 6
        return Demonstrations(tokens=tokens, is_completion=(torch.arange(9) > 0).expand(count, 9))


def test_counting_is_learned_without_a_shift() -> None:
    model = TinyPolicy(
        TinyShape(width=16, layers=1, heads=1),
        vocabulary_size=Counting().vocabulary_size,
        sequence_tokens=9,
        generator=torch.Generator().manual_seed(0),
    )
    config = Sft(steps=150, batch_sequences=16, optimization=Optimization(learning_rate=1e-2))
    train_sft(model, [Counting()], config, torch.Generator(), Ledger(), lambda *_: False)
    drawn = model.sample(torch.tensor([[2]]), 8, torch.Generator()).tokens
    assert drawn.tolist() == [[2, 3, 4, 5, 0, 1, 2, 3, 4]]


def test_batch_must_divide_into_domains() -> None:
    config = Sft(steps=1, batch_sequences=7, optimization=Optimization(learning_rate=1e-2))
    with pytest.raises(ValueError, match="multiple of the 2 domains, got 7"):
        train_sft(policy(0), DOMAINS, config, torch.Generator(), Ledger(), lambda *_: False)


def test_observer_ends_training() -> None:
    seen: list[int] = []
    config = Sft(steps=9, batch_sequences=8, optimization=Optimization(learning_rate=1e-2))

    def observe(step: int, _: dict[str, float]) -> bool:
        seen.append(step)
        return step == 4

    train_sft(policy(0), DOMAINS, config, streams().demonstrations, Ledger(), observe)
    assert seen == [1, 2, 3, 4]
