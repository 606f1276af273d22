"""How does a student learn from its teachers on its own samples?"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.domains.base import Domain
from harness.models.policy import Policy, Rollouts
from harness.teachers.scheduler import SCHEDULERS, Evidence, Scheduler, share_statistics
from harness.training.budget import Ledger
from harness.training.config import Distill
from harness.training.objective import Objective, token_log_probability
from harness.training.optimizer import Optimizer
from harness.training.rollouts import (
    Streams,
    collect,
    demonstrations,
    labels,
    rows_per_domain,
)
from harness.training.sft import Observe, cross_entropy


def train_distill(
    student: Policy,
    teachers: Sequence[Policy],
    domains: Sequence[Domain],
    config: Distill,
    streams: Streams,
    ledger: Ledger,
    observe: Observe,
) -> None:
    """Minimise the scheduled divergence to the teachers; teacher i is the specialist of domain i.

    Raises Diverged when loss or gradient stops being finite.
    """
    optimizer = Optimizer(student.parameters(), config.optimization, config.steps)
    objective = Objective.parse(config)
    scheduler = SCHEDULERS[config.scheduler]
    rows = rows_per_domain(config.batch_sequences, domains)
    domain = labels(domains, rows)
    parameters = student.flop_parameters
    for step in range(config.steps):
        rollouts = collect(
            config.prefix, student, teachers, domains, rows, streams,
            temperature=config.temperature, step=step,
        )  # fmt: skip
        tokens = int(rollouts.is_completion.sum())
        positions = rollouts.tokens[:, 1:].numel()
        if config.prefix == "student":
            ledger.generate(parameters, positions, tokens)
        elif config.prefix == "teacher":
            for k, teacher in enumerate(teachers):
                own = rollouts.is_completion[domain == k, 1:]
                ledger.generate(teacher.flop_parameters, own.numel(), int(own.sum()))
        weights, states = schedule(
            scheduler, teachers, rollouts, domain, step, streams, ledger, config.temperature
        )
        loss = objective(student, teachers, rollouts, weights, states)
        ledger.train(parameters, positions, tokens)
        if config.anchor_weight > 0:
            batch = demonstrations(domains, rows, "demonstrations", streams.demonstrations)
            anchor, count = cross_entropy(student, batch)
            loss = loss + config.anchor_weight * anchor / count
            ledger.train(parameters, batch.tokens[:, 1:].numel(), count)
        norm = optimizer.update(loss, step)
        seen = {"loss_nats": loss.item(), "gradient_norm": norm}
        shares, seen["share_entropy_nats"], seen["agreement"] = share_statistics(weights, domain)
        names = [f"share.{d.name}" for d in domains]
        if observe(step + 1, seen | dict(zip(names, shares, strict=True))):
            return


@torch.no_grad()
def schedule(
    scheduler: Scheduler,
    teachers: Sequence[Policy],
    rollouts: Rollouts,
    domain: Int[Tensor, " rollouts"],
    step: int,
    streams: Streams,
    ledger: Ledger,
    temperature: float = 1.0,
) -> tuple[Float[Tensor, "rollouts teachers"], list[Tensor]]:
    """Weights, and per teacher the states of the rollouts it has a say in, in row order.

    A rollout's likelihood is that at the `temperature` it was drawn with.
    """
    inputs = rollouts.tokens[:, :-1]

    def score(teacher: Policy, rows: Bool[Tensor, " rollouts"]) -> Tensor:
        chosen = inputs[rows]
        ledger.score(teacher.flop_parameters, chosen.numel())
        return teacher.hidden(chosen)

    everything = torch.ones(inputs.shape[0], dtype=torch.bool)
    states: list[Tensor] = []
    likelihood = None
    if scheduler.needs_likelihood:
        states = [score(teacher, everything) for teacher in teachers]
        pairs = zip(teachers, states, strict=True)
        likelihood = torch.stack(
            [token_log_probability(t, s, rollouts, temperature).sum(dim=1) for t, s in pairs],
            dim=1,
        )
    weights = scheduler(
        Evidence(
            step=step,
            domain=domain,
            teachers=len(teachers),
            log_likelihood=likelihood,
            generator=streams.scheduler,
        )
    )
    asked = list(zip(teachers, (weights > 0).unbind(dim=1), strict=True))
    if scheduler.needs_likelihood:
        return weights, [s[rows] for s, (_, rows) in zip(states, asked, strict=True)]
    return weights, [score(teacher, rows) for teacher, rows in asked]
