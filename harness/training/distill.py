"""How does a student learn from its teachers on its own samples?"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.domains.base import Domain
from harness.models.policy import Policy, Rollouts
from harness.teachers.scheduler import Evidence, Scheduler, parse_scheduler, share_statistics
from harness.teachers.store import TeacherStore
from harness.training.budget import Ledger
from harness.training.cache_error import cache_error_nats
from harness.training.config import Distill
from harness.training.meter import Meter
from harness.training.objective import Objective
from harness.training.optimizer import Optimizer
from harness.training.rollouts import (
    Streams,
    collect,
    demonstrations,
    labels,
    rows_per_domain,
)
from harness.training.sft import Observe, cross_entropy

Facts = dict[str, float | None]


def train_distill(
    student: Policy,
    store: TeacherStore,
    domains: Sequence[Domain],
    config: Distill,
    streams: Streams,
    ledger: Ledger,
    observe: Observe,
) -> Facts:
    """Minimise the scheduled divergence to the teachers; teacher i is the specialist of domain i.

    Returns what an update took and what it asked of the store. Raises Diverged when loss or
    gradient stops being finite.
    """
    optimizer = Optimizer(student.parameters(), config.optimization, config.steps)
    objective = Objective.parse(config)
    scheduler = parse_scheduler(config.scheduler)
    rows = rows_per_domain(config.batch_sequences, domains)
    domain = labels(domains, rows)
    meter = Meter()
    for step in range(config.steps):
        with meter.update(ledger):
            rollouts = collect(
                config.prefix, student, store, domains, rows, streams,
                temperature=config.temperature, step=step,
            )  # fmt: skip
            count_rollouts(config.prefix, student, store, rollouts, domain, ledger)
            weights = schedule(
                scheduler, store, rollouts, domain, step, streams, ledger, config.temperature
            )
            optimizer.adamw.zero_grad()
            with meter.first_backward():
                loss = objective.backward(student, store, rollouts, weights)
                ledger.train(student.flop_parameters, *_counts(rollouts))
                if config.anchor_weight > 0:
                    loss += anchor(student, domains, rows, config.anchor_weight, streams, ledger)
            norm = optimizer.apply(loss, step)
        seen = {"loss_nats": loss, "gradient_norm": norm}
        shares, seen["share_entropy_nats"], seen["agreement"] = share_statistics(weights, domain)
        names = [f"share.{d.name}" for d in domains]
        if observe(step + 1, seen | dict(zip(names, shares, strict=True))):
            break
    facts = {"teachers": float(len(store)), **meter.facts(), **store.facts(meter.updates)}
    error = cache_error_nats(student, store, rollouts, weights)
    return {**facts, "store.cache_error_nats": error}


def _counts(rollouts: Rollouts) -> tuple[int, int]:
    """Positions that a pass goes through, and tokens that count."""
    return rollouts.tokens[:, 1:].numel(), int(rollouts.is_completion.sum())


def count_rollouts(
    prefix: str,
    student: Policy,
    store: TeacherStore,
    rollouts: Rollouts,
    domain: Int[Tensor, " rollouts"],
    ledger: Ledger,
) -> None:
    """Enter what sampling cost; data cost nothing."""
    if prefix == "student":
        ledger.generate(student.flop_parameters, *_counts(rollouts))
    elif prefix == "teacher":
        for k, file in enumerate(store.files):
            own = rollouts.is_completion[domain == k, 1:]
            ledger.generate(file.flop_parameters, own.numel(), int(own.sum()))


def anchor(
    student: Policy,
    domains: Sequence[Domain],
    rows: int,
    weight: float,
    streams: Streams,
    ledger: Ledger,
) -> float:
    """Add the gradient of a weighted cross-entropy on demonstrations; returns its value, nats."""
    batch = demonstrations(domains, rows, "demonstrations", streams.demonstrations)
    total, count = cross_entropy(student, batch)
    loss = weight * total / count
    torch.autograd.backward(loss)
    ledger.train(student.flop_parameters, batch.tokens[:, 1:].numel(), count)
    return loss.item()


@torch.no_grad()
def schedule(
    scheduler: Scheduler,
    store: TeacherStore,
    rollouts: Rollouts,
    domain: Int[Tensor, " rollouts"],
    step: int,
    streams: Streams,
    ledger: Ledger,
    temperature: float = 1.0,
) -> Float[Tensor, "rollouts teachers"]:
    """The weights; afterwards the store has the states of whoever has a say in a rollout.

    A rollout's likelihood is that at the `temperature` it was drawn with.
    """
    inputs = rollouts.tokens[:, :-1]
    store.begin(inputs, rollouts.is_completion[:, 1:])
    teachers = range(len(store))

    def score(teacher: int, rows: Int[Tensor, " rows"]) -> None:
        ledger.score(store.files[teacher].flop_parameters, inputs[rows].numel())
        store.score(teacher, rows)

    def likelihood(teacher: int) -> Float[Tensor, " rollouts"]:
        score(teacher, torch.arange(len(inputs)))
        return store.log_likelihood(teacher, rollouts.tokens[:, 1:], temperature)

    weights = scheduler(
        Evidence(
            step=step,
            domain=domain,
            teachers=len(store),
            log_likelihood=torch.stack([likelihood(k) for k in teachers], dim=1)
            if scheduler.needs_likelihood
            else None,
            generator=streams.scheduler,
        )
    )
    if not scheduler.needs_likelihood:
        for k in teachers:
            rows = (weights[:, k] > 0).nonzero().flatten()
            if len(rows):
                score(k, rows)
    return weights
