"""Where completions end early: does only what was completed count, in losses and in ledgers?"""

from dataclasses import replace

import pytest
import torch

from harness.domains import Fold
from harness.domains.fold import EOS
from harness.models.policy import Rollouts
from harness.models.tiny import TinyPolicy, TinyShape
from harness.teachers.scheduler import parse_scheduler
from harness.training.budget import Ledger
from harness.training.config import Prefix, Sft
from harness.training.distill import schedule, train_distill
from harness.training.objective import Objective
from harness.training.rollouts import collect, labels
from harness.training.sft import train_sft
from tests.training.worlds import RATE, distill, stored, streams

FOLDS = (
    Fold(name="sum", operator="sum", operands=2, thinking_fraction=0.5, tag=0),
    Fold(name="max", operator="maximum", operands=2, thinking_fraction=0.5, tag=1),
)
PROMPT, LENGTH = FOLDS[0].prompt_tokens, FOLDS[0].sequence_tokens
SUPPORTS = ["full", "top_k(3, union, tail)", "sampled_token(k2)", "sampled_token(policy_gradient)"]


def policy(seed: int, sharpness: float = 6.0) -> TinyPolicy:
    """An untrained model, which ends a completion wherever it happens to draw EOS."""
    model = TinyPolicy(
        TinyShape(width=8, layers=1, heads=2),
        vocabulary_size=FOLDS[0].vocabulary_size,
        sequence_tokens=LENGTH,
        generator=torch.Generator().manual_seed(seed),
    )
    with torch.no_grad():
        model.head.mul_(sharpness)
    return model


def gradient(model: TinyPolicy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def loss_on(
    rollouts: Rollouts, support: str, scheduler: str = "by_domain", discount: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    student, store = policy(0), stored([policy(1), policy(2)])
    config = distill(support=support, discount=discount)
    weights = schedule(
        parse_scheduler(scheduler), store, rollouts, labels(FOLDS, 4), 0, streams(), Ledger()
    )
    loss = Objective.parse(config).backward(student, store, rollouts, weights)
    return torch.tensor(loss), gradient(student)


def ragged() -> Rollouts:
    """Rollouts of 8 rows of which some end before the others, with EOS in the mask."""
    rollouts = collect(
        "student", policy(0), stored([]), FOLDS, 4, streams(3), temperature=1.0, step=0
    )
    lengths = rollouts.is_completion.sum(dim=1)
    assert lengths.min() < lengths.max()
    return rollouts


@pytest.mark.parametrize("scheduler", ["by_domain", "soft_likelihood"])
@pytest.mark.parametrize("support", SUPPORTS)
def test_what_follows_the_end_changes_nothing(support: str, scheduler: str) -> None:
    rollouts = ragged()
    after = ~rollouts.is_completion & (torch.arange(LENGTH) >= PROMPT)
    other = replace(rollouts, tokens=rollouts.tokens.masked_fill(after, 3))
    for one, two in zip(
        loss_on(rollouts, support, scheduler), loss_on(other, support, scheduler), strict=True
    ):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("support", SUPPORTS)
def test_the_end_token_trains_though_rows_are_padded_with_it(support: str) -> None:
    rollouts = ragged()
    ends = rollouts.is_completion & (rollouts.tokens == EOS)
    assert ends.any()
    without = replace(rollouts, is_completion=rollouts.is_completion & ~ends)
    assert not torch.allclose(loss_on(rollouts, support)[1], loss_on(without, support)[1])


def test_a_discounted_return_ends_with_its_row() -> None:
    """Against the definition, in float64: the advantage is detached, summed within a completion."""
    rollouts, discount = ragged(), 0.9
    loss, found = loss_on(rollouts, "sampled_token(policy_gradient)", discount=discount)
    student, teachers = policy(0).double(), [policy(1).double(), policy(2).double()]
    tokens, total, value = rollouts.tokens, torch.zeros((), dtype=torch.double), 0.0
    for row, teacher in enumerate([teachers[0]] * 4 + [teachers[1]] * 4):
        mine, theirs = (
            (model.hidden(tokens[row : row + 1, :-1]) @ model.head.T).log_softmax(dim=-1)[0]
            for model in (student, teacher)
        )
        counted = rollouts.is_completion[row, 1:].nonzero()[:, 0].tolist()
        advantage = 0.0
        for t in reversed(counted):
            chosen = mine[t, tokens[row, t + 1]]
            ratio = float(chosen.detach() - theirs[t, tokens[row, t + 1]].detach())
            advantage = ratio + discount * advantage
            total, value = total + advantage * chosen, value + ratio
    count = int(rollouts.is_completion.sum())
    (total / count).backward()
    torch.testing.assert_close(found.double(), gradient(student), atol=1e-5, rtol=1e-4)
    assert loss.item() == pytest.approx(value / count, abs=1e-5)


@pytest.mark.parametrize("scheduler", ["by_domain", "soft_likelihood"])
@pytest.mark.parametrize("support", SUPPORTS)
def test_micro_batches_of_unequal_token_counts_change_nothing(support: str, scheduler: str) -> None:
    """Weights that look at likelihoods are the same in a part of the batch."""
    rollouts = ragged()
    store, parts = stored([policy(1), policy(2)]), []
    objective = Objective.parse(distill(support=support))
    for rows in (slice(0, 1), slice(1, 5), slice(5, 8)):
        part = Rollouts(
            tokens=rollouts.tokens[rows],
            is_completion=rollouts.is_completion[rows],
            behaviour_log_probability=rollouts.behaviour_log_probability[rows],
            policy_step=0,
        )
        weights = schedule(
            parse_scheduler(scheduler), store, part, labels(FOLDS, 4)[rows], 0, streams(), Ledger()
        )
        share = part.is_completion.sum() / rollouts.is_completion.sum()
        student = policy(0)
        objective.backward(student, store, part, weights)
        parts.append(gradient(student) * share)
    whole = loss_on(rollouts, support, scheduler)[1]
    torch.testing.assert_close(torch.stack(parts).sum(dim=0), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("support", SUPPORTS)
def test_nothing_completed_costs_exactly_nothing(support: str) -> None:
    rollouts = ragged()
    empty = replace(rollouts, is_completion=torch.zeros_like(rollouts.is_completion))
    loss, found = loss_on(empty, support)
    assert loss == 0
    assert (found == 0).all()


@pytest.mark.parametrize("prefix", ["student", "teacher", "data"])
def test_ledgers_count_completed_tokens_and_processed_positions(prefix: Prefix) -> None:
    ledger, store = Ledger(), stored([policy(1), policy(2)])
    config = distill(prefix=prefix, steps=1)
    train_distill(policy(0), store, FOLDS, config, streams(), ledger, lambda *_: False)
    batch = collect(prefix, policy(0), store, FOLDS, 4, streams(), temperature=1.0, step=0)
    completed, positions = int(batch.is_completion.sum()), 8 * (LENGTH - 1)
    assert completed < 8 * (LENGTH - PROMPT)
    assert ledger.trained_tokens == completed
    assert ledger.generated_tokens == (0 if prefix == "data" else completed)
    passes = 6 + 2 + (0 if prefix == "data" else 2)  # training, the teachers', sampling
    assert ledger.flops == passes * policy(0).flop_parameters * positions


def test_sft_counts_what_demonstrations_hold() -> None:
    ledger, flow = Ledger(), streams()
    config = Sft(steps=2, batch_sequences=8, optimization=RATE)
    train_sft(policy(0), FOLDS, config, flow.demonstrations, ledger, lambda *_: False)
    again = streams().demonstrations
    batches = [d.demonstrations(4, "demonstrations", again) for _ in range(2) for d in FOLDS]
    assert ledger.trained_tokens == sum(int(b.is_completion.sum()) for b in batches)
    assert ledger.trained_tokens < 2 * 8 * (LENGTH - PROMPT)
