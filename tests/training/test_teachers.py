"""Does a loss stay what it is with teachers reordered, tempered, or shared with the student?"""

import pytest
import torch

from harness.models.policy import Rollouts
from harness.models.tiny import TinyPolicy
from harness.teachers.scheduler import MENU, parse_scheduler
from harness.training.budget import Ledger
from harness.training.distill import schedule, train_distill
from harness.training.objective import Objective
from harness.training.rollouts import collect, labels
from harness.training.sft import cross_entropy
from opd_kernels import reverse_kl
from tests.training.worlds import DOMAINS, distill, policy, stored, streams

SUPPORTS = ["full", "top_k(3, student, tail)", "sampled_token(policy_gradient)"]


def gradient(model: TinyPolicy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def log_probabilities(model: TinyPolicy, rollouts: Rollouts, temperature: float) -> torch.Tensor:
    logits = model.hidden(rollouts.tokens[:, :-1]) @ model.head.T
    return (logits / temperature).log_softmax(dim=-1)


def drawn_rollouts(temperature: float) -> Rollouts:
    """A batch of policy 0."""
    return collect(
        "student", policy(0), stored([]), DOMAINS, 4, streams(), temperature=temperature, step=0
    )


def logged(config_changes: dict[str, object], teachers: list[TinyPolicy]) -> list[float]:
    """The loss of every step of a short training of policy 0."""
    seen: list[float] = []

    def observe(_: int, values: dict[str, float]) -> bool:
        seen.append(values["loss_nats"])
        return False

    train_distill(
        policy(0),
        stored(teachers),
        DOMAINS,
        distill(**config_changes),
        streams(),
        Ledger(),
        observe,  # type: ignore[arg-type]
    )
    return seen


@pytest.mark.parametrize("scheduler", ["by_domain", "greedy_likelihood", "soft_likelihood"])
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_order_of_domains_and_their_teachers_changes_nothing(
    support: str, scheduler: str
) -> None:
    teachers, objective = (
        [policy(1), policy(2, width=16)],
        Objective.parse(distill(support=support)),
    )
    rollouts = collect(
        "student", policy(0), stored([]), DOMAINS, 4, streams(), temperature=1.0, step=0
    )
    found = []
    for order in (range(8), [4, 5, 6, 7, 0, 1, 2, 3]):
        rows, student = torch.tensor(list(order)), policy(0)
        asked = teachers if order == range(8) else teachers[::-1]
        part = Rollouts(
            tokens=rollouts.tokens[rows],
            is_completion=rollouts.is_completion[rows],
            behaviour_log_probability=rollouts.behaviour_log_probability[rows],
            policy_step=0,
        )
        store = stored(asked)
        weights = schedule(
            parse_scheduler(scheduler), store, part, labels(DOMAINS, 4), 0, streams(), Ledger()
        )
        loss = objective.backward(student, store, part, weights)
        found.append((torch.tensor(loss), gradient(student)))
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("support", SUPPORTS)
def test_a_student_that_is_its_own_teacher_has_nothing_to_learn(support: str) -> None:
    student, itself = policy(0), stored([policy(0), policy(0)])
    student.train()
    seen: list[dict[str, float]] = []

    def observe(_: int, values: dict[str, float]) -> bool:
        seen.append(values)
        return False

    train_distill(student, itself, DOMAINS, distill(support=support), streams(), Ledger(), observe)
    assert abs(seen[0]["loss_nats"]) < 1e-6
    assert seen[0]["gradient_norm"] < 1e-5
    assert student.training
    assert all(p.requires_grad for p in student.parameters())


def test_schedulers_ask_without_a_gradient() -> None:
    store = stored([policy(1), policy(2)])
    rollouts = collect(
        "student", policy(0), stored([]), DOMAINS, 4, streams(), temperature=1.0, step=0
    )
    for scheduler in map(parse_scheduler, MENU):
        weights = schedule(scheduler, store, rollouts, labels(DOMAINS, 4), 0, streams(), Ledger())
        assert not weights.requires_grad
        for visit in store.visits(weights):
            with store.operands(visit.teacher, visit.rows) as teacher:
                assert not teacher.hidden.requires_grad
                assert not teacher.head.requires_grad


@pytest.mark.parametrize("support", ["full", "sampled_token(policy_gradient)"])
def test_temperature_acts_on_sampling_student_and_teacher(support: str) -> None:
    """Rollouts of one first step, and its logged loss, from the definition."""
    teachers, temperature = [policy(1), policy(2)], 2.0
    rollouts = collect(
        "student",
        policy(0),
        stored(teachers),
        DOMAINS,
        4,
        streams(),
        temperature=temperature,
        step=0,
    )
    student = log_probabilities(policy(0), rollouts, temperature)
    drawn = rollouts.tokens[:, 1:, None]
    mask = rollouts.is_completion[:, 1:]
    torch.testing.assert_close(
        rollouts.behaviour_log_probability[:, 1:][mask],
        student.gather(-1, drawn)[..., 0][mask].detach(), atol=1e-5, rtol=1e-5,
    )  # fmt: skip
    teacher = torch.cat(
        [log_probabilities(t, rollouts, temperature)[rows]
         for t, rows in zip(teachers, (slice(0, 4), slice(4, 8)), strict=True)]
    )  # fmt: skip
    values = reverse_kl(student, teacher)
    if support != "full":
        values = (student - teacher).gather(-1, drawn)[..., 0]
    found = logged({"support": support, "temperature": temperature}, teachers)
    assert found[0] == pytest.approx(float(values[mask].mean().detach()), abs=1e-5)
    assert found[0] != pytest.approx(logged({"support": support}, teachers)[0], abs=1e-3)


def test_a_teacher_that_writes_the_prefix_does_so_at_that_temperature() -> None:
    teachers = [policy(1), policy(2)]
    rollouts = collect(
        "teacher", policy(0), stored(teachers), DOMAINS, 4, streams(), temperature=0.5, step=0
    )
    mask = rollouts.is_completion[4:, 1:]
    own = log_probabilities(teachers[1], rollouts, 0.5)[4:].gather(
        -1, rollouts.tokens[4:, 1:, None]
    )
    torch.testing.assert_close(
        rollouts.behaviour_log_probability[4:, 1:][mask], own[..., 0][mask].detach(),
        atol=1e-5, rtol=1e-5,
    )  # fmt: skip
    assert len(logged({"prefix": "teacher", "temperature": 0.5}, teachers)) == 3


def test_a_rollout_is_as_likely_as_at_the_temperature_it_was_drawn_with() -> None:
    teachers = [policy(1), policy(2)]
    rollouts = collect(
        "student", policy(0), stored([]), DOMAINS, 4, streams(), temperature=3.0, step=0
    )
    weights = schedule(
        parse_scheduler("soft_likelihood"), stored(teachers), rollouts, labels(DOMAINS, 4), 0,
        streams(), Ledger(), 3.0,
    )  # fmt: skip
    drawn, mask = rollouts.tokens[:, 1:, None], rollouts.is_completion[:, 1:]
    likelihood = [
        (log_probabilities(t, rollouts, 3.0).gather(-1, drawn)[..., 0] * mask).sum(dim=1)
        for t in teachers
    ]
    torch.testing.assert_close(
        weights, torch.stack(likelihood, dim=1).softmax(dim=1).detach(), atol=1e-5, rtol=1e-4
    )


def test_the_anchor_is_a_mean_of_its_own() -> None:
    """Loss = mean divergence over rollouts + weight * mean cross-entropy over demonstrations."""
    teachers, flow = [policy(1), policy(2)], streams()
    plain, anchored = logged({}, teachers), logged({"anchor_weight": 0.5}, teachers)
    total, count = 0.0, 0
    for domain in DOMAINS:
        part = domain.demonstrations(4, "demonstrations", flow.demonstrations)
        value, tokens = cross_entropy(policy(0), part)
        total, count = total + value.item(), count + tokens
    assert anchored[0] == pytest.approx(plain[0] + 0.5 * total / count, abs=1e-5)
