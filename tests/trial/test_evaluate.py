"""Do metrics have their known values on a model that is the source itself?"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from harness.domains.base import stream
from harness.models.policy import Rollouts
from harness.models.tiny import TinyPolicy, TinyShape
from harness.trial.evaluate import evaluate
from tests.training.worlds import DOMAINS, policy

DOMAIN = DOMAINS[0]


class Source(TinyPolicy):
    """A policy whose conditionals are a domain's own: states are one-hot, the head is the table."""

    def __init__(self, sharpen: float = 1.0) -> None:
        size = DOMAIN.vocabulary_size
        super().__init__(
            TinyShape(width=size, heads=1), vocabulary_size=size, sequence_tokens=9,
            generator=torch.Generator(),
        )  # fmt: skip
        truth = DOMAIN.source_log_probabilities(torch.arange(size)[:, None].expand(size, 2))
        self.head = nn.Parameter(sharpen * truth[:, 1].T)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        return F.one_hot(tokens, DOMAIN.vocabulary_size).float()

    def sample(
        self, prompts: torch.Tensor, completion_tokens: int, generator: torch.Generator,
        **_: object,
    ) -> Rollouts:  # fmt: skip
        tokens = prompts
        for _ in range(completion_tokens):
            weights = (self.hidden(tokens[:, -1]) @ self.head.T).softmax(dim=-1)
            tokens = torch.cat([tokens, torch.multinomial(weights, 1, generator=generator)], dim=1)
        mask = torch.arange(tokens.shape[1]) >= prompts.shape[1]
        return Rollouts(
            tokens=tokens, is_completion=mask.expand(tokens.shape),
            behaviour_log_probability=torch.zeros(tokens.shape), policy_step=0,
        )  # fmt: skip


def measured(student: TinyPolicy, sequences: int = 512) -> dict[str, float]:
    values = evaluate(
        [student], [DOMAIN], [Source()],
        sequences=sequences, split="evaluation", seed=0,
    )  # fmt: skip
    return {metric: float(entry["macro"] or 0) for metric, entry in values.items()}


def test_the_source_is_perfect() -> None:
    values = measured(Source())
    for metric in ("source_forward_kl_nats", "source_reverse_kl_nats", "teacher_reverse_kl_nats"):
        assert values[metric] == pytest.approx(0, abs=1e-5)
    assert values["source_log_probability_nats"] == pytest.approx(
        -values["student_entropy_nats"], abs=0.06
    )
    assert values["cross_entropy_nats"] == pytest.approx(values["student_entropy_nats"], abs=0.06)


def test_a_sharpened_source_is_likelier_but_farther() -> None:
    """Why likelihood under the source is not the primary metric: it rewards lost diversity."""
    source, sharp = measured(Source()), measured(Source(sharpen=3.0))
    assert sharp["source_log_probability_nats"] > source["source_log_probability_nats"]
    assert sharp["symmetric_kl_nats"] > source["symmetric_kl_nats"] + 0.1
    assert sharp["student_entropy_nats"] < source["student_entropy_nats"]


def test_items_depend_on_the_seed_alone() -> None:
    one, other = (
        evaluate([model], [DOMAIN], [policy(5)], sequences=8, split="evaluation", seed=1)[
            "cross_entropy_nats"
        ]["macro"]
        for model in (policy(0), policy(0))
    )
    assert one == other


def test_streams_of_purposes_are_independent() -> None:
    draws = [torch.rand(1, generator=stream(0, p)).item() for p in ("a", "b")]
    again = [torch.rand(1, generator=stream(0, p)).item() for p in ("b", "a")]
    assert draws == again[::-1]
    assert draws[0] != draws[1]
    assert torch.rand(1, generator=stream(1, "a")).item() != draws[0]
