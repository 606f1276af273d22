"""Is every setting that a loss would ignore, or that would break a run, refused at once?"""

import math

import pytest

from harness.training.config import Distill, MatchedSft, Optimization, Sft
from tests.training.worlds import RATE, distill


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"divergence": "reverse"}, "divergence"),
        ({"support": "top"}, "support"),
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
