"""Is every setting that a loss would ignore, or that would break a run, refused at once?"""

import math

import pytest

from harness.training.config import Distill, Fuse, MatchedSft, Optimization, Sft, check_fit
from tests.training.worlds import RATE, distill


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"divergence": "reverse"}, "divergence"),
        ({"support": "top"}, "support"),
        ({"scheduler": "fifo"}, "scheduler must be one of"),
        ({"support": "top_k(1, student, renormalize)"}, "k must be at least 2 to renormalize"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"temperature": math.nan}, "temperature must be positive"),
        ({"anchor_weight": -0.5}, "anchor_weight must be at least 0"),
        ({"anchor_weight": math.inf}, "anchor_weight must be at least 0 and finite"),
        ({"discount": 1.5}, r"discount must be in \[0, 1\], got 1.5"),
        ({"discount": 0.9}, "discount acts on .* got 0.9 with full"),
        ({"discount": 0.9, "support": "sampled_token(k2)"}, "discount acts on"),
        ({"divergence": "forward_kl", "support": "sampled_token"}, "divergence acts on"),
        ({"prefix": "data", "support": "sampled_token"}, "prefix must be student"),
        ({"prefix": "teacher", "support": "sampled_token(k3)"}, "prefix must be student"),
    ],
)
def test_a_distillation_that_is_not_what_it_says_is_refused(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        distill(**{"steps": 3, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"warmup_steps": -1}, "warmup_steps must be at least 0"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        ({"weight_decay": math.nan}, "weight_decay must be at least 0 and finite"),
        ({"gradient_clip_norm": math.nan}, "gradient_clip_norm must be positive"),
        ({"learning_rate": math.nan}, "learning_rate must be in"),
    ],
)
def test_an_optimization_that_cannot_be_is_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Optimization(**{"learning_rate": 0.1, **changes})  # type: ignore[arg-type]


def test_counts_are_counts() -> None:
    with pytest.raises(ValueError, match="steps must be at least 0"):
        Sft(steps=-1, batch_sequences=8, optimization=RATE)
    with pytest.raises(ValueError, match="batch_sequences must be at least 1"):
        Sft(steps=1, batch_sequences=0, optimization=RATE)
    with pytest.raises(ValueError, match="batch_sequences must be at least 1"):
        Distill(steps=1, batch_sequences=-8, optimization=RATE)
    with pytest.raises(ValueError, match="batch_sequences must be at least 1"):
        MatchedSft(reference=distill(), match="tokens", batch_sequences=0, optimization=RATE)


def test_weights_that_are_not_one_per_domain_are_refused() -> None:
    weighted = distill(scheduler="uniform_sum(1, 2)")
    check_fit("method", weighted, 2, 32)
    with pytest.raises(ValueError, match=r"one weight for each of 4 domains, got \(1.0, 2.0\)"):
        check_fit("method", weighted, 4, 32)


def test_weights_that_groups_would_share_are_refused() -> None:
    fuse = Fuse(
        steps=1, first_steps=1, batch_sequences=8, optimization=RATE,
        scheduler="uniform_sum(1, 2, 3, 4)", groups=((0, 1), (2, 3)),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"no weights, .* for \(0, 1\)"):
        check_fit("method", fuse, 4, 32)
