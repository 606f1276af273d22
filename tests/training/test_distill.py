"""Does every rollout meet its own teacher, and is the loss what it is called?"""

from collections.abc import Sequence

import pytest
import torch

from harness.models.policy import Rollouts
from harness.models.tiny import TinyPolicy
from harness.teachers.scheduler import MENU, parse_scheduler
from harness.training.budget import Ledger
from harness.training.config import Distill
from harness.training.distill import schedule, train_distill
from harness.training.objective import Objective
from harness.training.rollouts import collect, labels
from opd_kernels import reverse_kl
from tests.training.worlds import DOMAINS, distill, policy, stored, streams


def log_probabilities(model: TinyPolicy, rollouts: Rollouts) -> torch.Tensor:
    return (model.hidden(rollouts.tokens[:, :-1]) @ model.head.T).log_softmax(dim=-1)


def gradient(model: TinyPolicy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def loss_of(
    config: Distill, teachers: Sequence[TinyPolicy]
) -> tuple[torch.Tensor, torch.Tensor, Rollouts, torch.Tensor]:
    """Loss, gradient, rollouts and weights of one first step."""
    student, flow = policy(0), streams()
    store = stored(teachers)
    rollouts = collect("student", student, store, DOMAINS, 4, flow, temperature=1.0, step=0)
    weights = schedule(
        parse_scheduler(config.scheduler), store, rollouts, labels(DOMAINS, 4), 0, flow, Ledger()
    )
    loss = Objective.parse(config).backward(student, store, rollouts, weights)
    return torch.tensor(loss), gradient(student), rollouts, weights


@pytest.mark.parametrize("scheduler", MENU)
def test_loss_is_the_weighted_divergence_to_each_rollouts_own_teacher(scheduler: str) -> None:
    teachers = [policy(1), policy(2, width=16)]
    config = distill(scheduler=scheduler)
    loss, _, rollouts, weights = loss_of(config, teachers)
    student = log_probabilities(policy(0), rollouts)
    per_teacher = torch.stack(
        [reverse_kl(student, log_probabilities(teacher, rollouts)) for teacher in teachers], dim=-1
    )
    mask = rollouts.is_completion[:, 1:]
    expected = ((per_teacher * weights[:, None]).sum(dim=-1) * mask).sum() / mask.sum()
    torch.testing.assert_close(loss, expected.detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("support", ["full", "top_k(3, teacher, tail)", "sampled_token(k2)"])
@pytest.mark.parametrize("scheduler", ["by_domain", "soft_likelihood", "random"])
def test_equal_teachers_are_one_teacher(support: str, scheduler: str) -> None:
    config = distill(support=support, scheduler=scheduler)
    two = loss_of(config, [policy(1), policy(1)])
    other = loss_of(distill(support=support, scheduler="round_robin"), [policy(1), policy(1)])
    torch.testing.assert_close(two[0], other[0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(two[1], other[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("support", ["full", "top_k(3, student, tail)", "sampled_token(k2)"])
def test_different_teachers_give_different_gradients(support: str) -> None:
    config = distill(support=support)
    one, two = loss_of(config, [policy(1), policy(1)]), loss_of(config, [policy(1), policy(2)])
    assert not torch.allclose(one[0], two[0])
    assert not torch.allclose(one[1], two[1])


def test_prompts_never_enter_the_loss_and_one_denominator_is_used() -> None:
    """Dropping rows of one domain scales the other's gradient by the token counts alone."""
    store, student = stored([policy(1), policy(2)]), policy(0)
    rollouts = collect("student", student, store, DOMAINS, 4, streams(), temperature=1.0, step=0)
    assert not rollouts.is_completion[:, : DOMAINS[0].prompt_tokens].any()
    objective = Objective.parse(distill())
    weights = parse_scheduler("by_domain")
    parts = []
    for rows in (slice(0, 8), slice(0, 3), slice(3, 8)):
        part = Rollouts(
            tokens=rollouts.tokens[rows],
            is_completion=rollouts.is_completion[rows],
            behaviour_log_probability=rollouts.behaviour_log_probability[rows],
            policy_step=0,
        )
        chosen = schedule(weights, store, part, labels(DOMAINS, 4)[rows], 0, streams(), Ledger())
        model = policy(0)
        share = part.is_completion.sum() / rollouts.is_completion.sum()
        objective.backward(model, store, part, chosen)
        parts.append(gradient(model) * share)
    torch.testing.assert_close(parts[0], parts[1] + parts[2], atol=1e-6, rtol=1e-4)


def test_teachers_keep_their_weights() -> None:
    store = stored([policy(1), policy(2)])
    train_distill(policy(0), store, DOMAINS, distill(), streams(), Ledger(), lambda *_: False)
    for teacher, fresh in zip(store.policies(), [policy(1), policy(2)], strict=True):
        for one, other in zip(teacher.parameters(), fresh.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("divergence", ["reverse_kl", "forward_kl", "jsd(0.5)"])
def test_the_student_approaches_its_teachers(divergence: str) -> None:
    seen: list[float] = []

    def observe(_: int, values: dict[str, float]) -> bool:
        seen.append(values["loss_nats"])
        return False

    config = distill(steps=60, divergence=divergence)
    store = stored([policy(1), policy(1)])
    train_distill(policy(0), store, DOMAINS, config, streams(), Ledger(), observe)
    assert seen[-1] < 0.5 * seen[0]


def test_same_streams_give_the_same_bits() -> None:
    students = [policy(0), policy(0)]
    for student in students:
        train_distill(
            student, stored([policy(1), policy(2)]), DOMAINS, distill(anchor_weight=0.5), streams(),
            Ledger(), lambda *_: False,
        )  # fmt: skip
    for one, other in zip(*(student.parameters() for student in students), strict=True):
        assert torch.equal(one, other)


def test_arms_share_prompts_and_noise() -> None:
    """A scheduler that draws must not move the rollouts of the step after."""
    after = []
    for scheduler in ("by_domain", "random"):
        flow = streams()
        train_distill(
            policy(0), stored([policy(1), policy(1)]), DOMAINS, distill(scheduler=scheduler), flow,
            Ledger(), lambda *_: False,
        )  # fmt: skip
        after.append((flow.prompts.get_state(), flow.noise.get_state()))
    assert all(torch.equal(one, other) for one, other in zip(*after, strict=True))


@pytest.mark.parametrize("field", [{"divergence": "reverse"}, {"support": "top"}])
def test_an_unknown_loss_is_refused_before_training(field: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(field.values()))):
        Objective.parse(distill(**field))
