"""What is refused before a cell is run, and what is an outcome when it comes up in one?"""

from dataclasses import replace
from pathlib import Path

import pytest

from ablations.baseline import MARKOV, distillation, sft_control
from harness.study.ablation import shrunk
from harness.training.config import Optimization
from harness.trial.config import override
from harness.trial.run import run_trial

SMALL = replace(shrunk(MARKOV, 60), student=replace(MARKOV.student, width=8, layers=1))
EXPLODING = Optimization(
    learning_rate=0.9, weight_decay=1e30, warmup_steps=0, gradient_clip_norm=1e30
)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("method.divergence", "reverse", "divergence"),
        ("method.support", "top_k(99)", r"method.support: k must be at most the vocabulary, 35"),
        ("method.discount", "0.9", "discount acts on"),
        ("method.batch_sequences", "31", "method.batch_sequences must be a positive multiple"),
        ("base.batch_sequences", "31", "base.batch_sequences must be a positive multiple"),
        ("base.steps", "-1", "steps must be at least 0"),
        ("specialist.width", "31", "width must be a multiple of heads=2, got 31"),
        ("specialist.check_every_steps", "0", "check_every_steps must be at least 1"),
        ("evaluation.sequences", "0", "sequences must be at least 1"),
        ("domains.0.prompt_tokens", "2", "domains must share one prompt_tokens"),
        ("domains.0.sequence_tokens", "16", "domains must share one sequence_tokens"),
    ],
)
def test_a_setting_that_would_break_a_cell_is_refused(path: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        override(MARKOV, path, text)
    assert str(caught.value).startswith(path)


def test_a_control_is_held_to_its_reference() -> None:
    control = sft_control(MARKOV, "tokens")
    with pytest.raises(ValueError, match=r"method.reference.batch_sequences must be"):
        override(control, "method.reference.batch_sequences", "31")


def test_a_base_that_diverges_is_an_outcome(tmp_path: Path) -> None:
    base = replace(SMALL.base, optimization=EXPLODING, steps=4)
    outcome = run_trial(replace(SMALL, base=base), 0, tmp_path)
    assert outcome.status == "diverged"
    assert outcome.cause
    assert outcome.cause.startswith("base or specialist: loss is not finite")
    assert outcome.metrics == {}


def test_weights_that_break_in_the_last_update_are_a_divergence(tmp_path: Path) -> None:
    """The loss was finite when it was looked at: nothing finished may lack its metrics."""
    method = replace(distillation(SMALL), optimization=EXPLODING)
    for steps in (1, 2, 3, 4):
        outcome = run_trial(replace(SMALL, method=replace(method, steps=steps)), 0, tmp_path)
        values = [v for entry in outcome.metrics.values() for v in entry.values()]
        finite = all(v is not None and abs(v) < float("inf") for v in values)
        assert finite == (outcome.status == "finished")
    assert outcome.cause
