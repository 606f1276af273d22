"""Do planned costs equal counted ones, and do matched controls spend what they are matched to?"""

import pytest

from harness.training.budget import Ledger, Sizes, distill_step_cost, matched_sft_steps
from harness.training.config import Distill, Match, MatchedSft, Sft
from harness.training.distill import train_distill
from harness.training.sft import train_sft
from tests.training.worlds import DOMAINS, RATE, distill, policy, stored, streams

SIZES = Sizes(
    student_parameters=100, teacher_parameters=[100, 300], prompt_tokens=2, sequence_tokens=10
)


def test_flops_are_counted_as_written_down() -> None:
    ledger = Ledger()
    ledger.generate(100, positions=9, tokens=8)
    ledger.score(100, positions=9)
    ledger.train(100, positions=9, tokens=8)
    assert ledger.flops == (2 + 2 + 6) * 100 * 9
    assert (ledger.generated_tokens, ledger.scored_tokens, ledger.trained_tokens) == (8, 9, 8)


@pytest.mark.parametrize(
    "scheduler",
    ["greedy_likelihood", "balanced_likelihood", "soft_likelihood(8)", "uniform_sum(1, 3)"],
)
def test_who_asks_every_teacher_pays_for_every_teacher(scheduler: str) -> None:
    one = distill_step_cost(distill(), SIZES)
    all_teachers = distill_step_cost(distill(scheduler=scheduler), SIZES)
    assert one.scored_tokens == 8 * 9
    assert all_teachers.scored_tokens == 2 * 8 * 9


@pytest.mark.parametrize(
    "method",
    [
        distill(),
        distill(scheduler="greedy_likelihood"),
        distill(scheduler="uniform_sum"),
        distill(anchor_weight=0.5),
        distill(prefix="teacher"),
        distill(prefix="data"),
        distill(support="sampled_token(policy_gradient)"),
    ],
)
def test_plan_equals_ledger(method: Distill) -> None:
    student, teachers, ledger = policy(0), [policy(1), policy(2)], Ledger()
    train_distill(student, stored(teachers), DOMAINS, method, streams(), ledger, lambda *_: False)
    sizes = Sizes(
        student_parameters=student.flop_parameters,
        teacher_parameters=[t.flop_parameters for t in teachers],
        prompt_tokens=DOMAINS[0].prompt_tokens,
        sequence_tokens=DOMAINS[0].sequence_tokens,
    )
    planned = distill_step_cost(method, sizes)
    for count in ("trained_tokens", "generated_tokens", "scored_tokens", "flops"):
        assert getattr(ledger, count) == method.steps * getattr(planned, count), count


@pytest.mark.parametrize("match", ["tokens", "flops", "end_to_end"])
def test_matched_sft_spends_the_same(match: Match) -> None:
    reference, teacher_flops = distill(steps=100, anchor_weight=0.5), 5_000_000
    control = MatchedSft(reference=reference, match=match, batch_sequences=8, optimization=RATE)
    steps = matched_sft_steps(control, SIZES, teacher_flops)
    planned, sft = distill_step_cost(reference, SIZES), Ledger()
    sft.train(100, positions=8 * 9, tokens=8 * 8)
    spent = {
        "tokens": (steps * sft.trained_tokens, 100 * planned.trained_tokens),
        "flops": (steps * sft.flops, 100 * planned.flops),
        "end_to_end": (steps * sft.flops, 100 * planned.flops + teacher_flops),
    }
    control_spends, reference_spends = spent[match]
    assert control_spends == pytest.approx(reference_spends, rel=0.02)


def test_sft_counts_completion_tokens_only() -> None:
    ledger = Ledger()
    config = Sft(steps=2, batch_sequences=8, optimization=RATE)
    train_sft(policy(0), DOMAINS, config, streams().demonstrations, ledger, lambda *_: False)
    assert ledger.trained_tokens == 2 * 8 * (9 - DOMAINS[0].prompt_tokens)
    assert ledger.flops == 6 * policy(0).flop_parameters * 2 * 8 * 8
