"""How good is a student? Every metric side by side, per domain and as their mean."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from harness.domains.base import Domain, Split, stream
from harness.models.policy import Policy, Rollouts
from opd_kernels import forward_kl, reverse_kl

Metrics = dict[str, dict[str, float | None]]

HIGHER_IS_BETTER: Mapping[str, bool | None] = {
    "cross_entropy_nats": False,
    "symmetric_kl_nats": False,
    "source_forward_kl_nats": False,
    "source_reverse_kl_nats": False,
    "source_log_probability_nats": True,
    "teacher_reverse_kl_nats": False,
    "teacher_log_probability_nats": True,
    "student_entropy_nats": None,
    "reward": True,
}
"""Sign of every metric. `symmetric_kl_nats` is the mean of both directions to the true source."""


@torch.no_grad()
def evaluate(
    students: Sequence[Policy],
    domains: Sequence[Domain],
    teachers: Sequence[Policy],
    *,
    sequences: int,
    split: Split,
    seed: int,
) -> Metrics:
    """All metrics that the domains can give, domain i answered by student i.

    Items and rollout noise depend on `seed` alone, so that arms share them.
    """
    per_domain: dict[str, dict[str, float]] = {}
    drawn = own_samples(students, domains, sequences=sequences, split=split, seed=seed)
    for student, domain, teacher, own in zip(students, domains, teachers, drawn, strict=True):
        values = held_out(student, domain, sequences=sequences, split=split, seed=seed)
        values |= free_running(student, domain, teacher, own)
        if "source_forward_kl_nats" in values:
            both = values["source_forward_kl_nats"] + values["source_reverse_kl_nats"]
            values["symmetric_kl_nats"] = both / 2
        for metric, value in values.items():
            per_domain.setdefault(metric, {})[domain.name] = value
    return {
        metric: {"macro": sum(values.values()) / len(values), **values}
        for metric, values in per_domain.items()
    }


@torch.no_grad()
def held_out(
    student: Policy, domain: Domain, *, sequences: int, split: Split, seed: int
) -> dict[str, float]:
    """Cross-entropy on the domain's own sequences, and the exact forward KL where it is known."""
    generator = stream(seed, f"held out/{domain.name}")
    batch = domain.demonstrations(sequences, split, generator)
    counted = batch.is_completion[:, 1:]
    mine = _log_probabilities(student, batch.tokens, counted)
    next_tokens = batch.tokens[:, 1:][counted]
    values = {"cross_entropy_nats": float(F.nll_loss(mine, next_tokens))}
    truth = domain.source_log_probabilities(batch.tokens)
    if truth is not None:
        values["source_forward_kl_nats"] = float(forward_kl(mine, truth[:, 1:][counted]).mean())
    return values


def own_samples(
    students: Sequence[Policy],
    domains: Sequence[Domain],
    *,
    sequences: int,
    split: Split,
    seed: int,
) -> list[Rollouts]:
    """For every domain the completions of its prompts by its student.

    Who answers several domains does so in one batch, and whoever answers has the same noise.
    """
    prompts = torch.cat(
        [d.prompts(sequences, split, stream(seed, f"own samples/{d.name}")) for d in domains]
    )
    first = domains[0]
    answers = {
        id(student): student.sample(
            prompts,
            first.sequence_tokens - first.prompt_tokens,
            stream(seed, "own samples"),
            end_token=first.end_token,
        )
        for student in {id(student): student for student in students}.values()
    }
    return [
        answers[id(student)].rows(slice(start, start + sequences))
        for student, start in zip(students, range(0, len(prompts), sequences), strict=True)
    ]


@torch.no_grad()
def free_running(
    student: Policy, domain: Domain, teacher: Policy, rollouts: Rollouts
) -> dict[str, float]:
    """What is seen on the student's own completions of a domain's prompts."""
    counted = rollouts.is_completion[:, 1:]
    drawn = rollouts.tokens[:, 1:][counted][:, None]
    mine = _log_probabilities(student, rollouts.tokens, counted)
    values = {"student_entropy_nats": -float((mine.exp() * mine).sum(dim=-1).mean())}
    truth = domain.source_log_probabilities(rollouts.tokens)
    if truth is not None:
        known = truth[:, 1:][counted]
        values["source_reverse_kl_nats"] = float(reverse_kl(mine, known).mean())
        values["source_log_probability_nats"] = float(known.gather(1, drawn).mean())
    theirs = _log_probabilities(teacher, rollouts.tokens, counted)
    values["teacher_reverse_kl_nats"] = float(reverse_kl(mine, theirs).mean())
    values["teacher_log_probability_nats"] = float(theirs.gather(1, drawn).mean())
    reward = domain.reward(rollouts.tokens, rollouts.is_completion)
    if reward is not None:
        values["reward"] = float(reward.mean())
    return values


def _log_probabilities(
    policy: Policy, tokens: Tensor, counted: Bool[Tensor, "batch predicted"]
) -> Float[Tensor, "tokens vocab"]:
    """Next-token log-probabilities at the counted positions, nats."""
    return (policy.hidden(tokens[:, :-1])[counted] @ policy.head.T).log_softmax(dim=-1)
