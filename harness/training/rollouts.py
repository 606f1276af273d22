"""Whose states does the student learn on: its own, a teacher's, or the data's?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from harness.domains.base import Demonstrations, Domain, Split
from harness.models.policy import Policy, Rollouts
from harness.teachers.store import TeacherStore
from harness.training.config import Prefix


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Generators of one run, one per purpose, so that no purpose shifts another's draws."""

    prompts: torch.Generator
    noise: torch.Generator
    demonstrations: torch.Generator
    scheduler: torch.Generator


def rows_per_domain(batch_sequences: int, domains: Sequence[Domain]) -> int:
    """Equal shares of a batch; raises ValueError where it does not divide."""
    rows, rest = divmod(batch_sequences, len(domains))
    if rest or rows < 1:
        raise ValueError(
            f"batch_sequences must be a positive multiple of the {len(domains)} domains, "
            f"got {batch_sequences}"
        )
    return rows


def demonstrations(
    domains: Sequence[Domain], rows: int, split: Split, generator: torch.Generator
) -> Demonstrations:
    """`rows` demonstrations of every domain, in domain order."""
    parts = [domain.demonstrations(rows, split, generator) for domain in domains]
    return Demonstrations(
        tokens=torch.cat([part.tokens for part in parts]),
        is_completion=torch.cat([part.is_completion for part in parts]),
    )


def labels(domains: Sequence[Domain], rows: int) -> Int[Tensor, " rollouts"]:
    """The domain index of every row of such a batch."""
    return torch.arange(len(domains)).repeat_interleave(rows)


def collect(
    prefix: Prefix,
    student: Policy,
    store: TeacherStore,
    domains: Sequence[Domain],
    rows: int,
    streams: Streams,
    *,
    temperature: float,
    step: int,
) -> Rollouts:
    """One batch of `rows` sequences per domain, completed by whom `prefix` names."""
    if prefix == "data":
        batch = demonstrations(domains, rows, "demonstrations", streams.demonstrations)
        return Rollouts(
            tokens=batch.tokens,
            is_completion=batch.is_completion,
            behaviour_log_probability=torch.zeros(batch.tokens.shape),
            policy_step=0,
        )
    prompts = torch.cat([d.prompts(rows, "prompts", streams.prompts) for d in domains])
    completion_tokens = domains[0].sequence_tokens - domains[0].prompt_tokens
    if prefix == "student":
        return student.sample(
            prompts,
            completion_tokens,
            streams.noise,
            end_token=domains[0].end_token,
            temperature=temperature,
            policy_step=step,
        )
    parts = [
        teacher.sample(
            of_domain,
            completion_tokens,
            streams.noise,
            end_token=domains[0].end_token,
            temperature=temperature,
        )
        for teacher, of_domain in zip(store.policies(), prompts.split(rows), strict=True)
    ]
    return Rollouts(
        tokens=torch.cat([part.tokens for part in parts]),
        is_completion=torch.cat([part.is_completion for part in parts]),
        behaviour_log_probability=torch.cat([p.behaviour_log_probability for p in parts]),
        policy_step=0,
    )
