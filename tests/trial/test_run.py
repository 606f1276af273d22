"""Is a trial a pure function of configuration and seed, and is every outcome recorded?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ablations.baseline import MARKOV, SFT_CONTROLS, distillation, sft_control
from harness.study.ablation import shrunk
from harness.training import optimizer
from harness.training.config import Keep, Optimization
from harness.trial.config import TrialConfig
from harness.trial.record import Outcome
from harness.trial.run import run_trial

SMALL = shrunk(MARKOV, 20)


def figures(outcome: Outcome) -> str:
    """Everything of an outcome but the clock."""
    budget = {k: v for k, v in outcome.budget.items() if k != "seconds"}
    facts = {k: v for k, v in outcome.facts.items() if k != "step_seconds"}
    return json.dumps([outcome.metrics, outcome.curve, budget, facts], sort_keys=True)


@pytest.mark.parametrize("config", [SMALL, sft_control(SMALL, "flops")])
def test_same_bits_twice_with_and_without_the_cache(config: TrialConfig, tmp_path: Path) -> None:
    outcomes = [run_trial(config, 3, tmp_path / name) for name in ("one", "one", "two")]
    assert len({figures(outcome) for outcome in outcomes}) == 1
    assert figures(run_trial(config, 4, tmp_path / "one")) != figures(outcomes[0])


def test_every_arm_starts_from_the_same_base(tmp_path: Path) -> None:
    starts = [
        run_trial(config, 0, tmp_path).curve["evaluation"]["cross_entropy_nats"][0]
        for config in (
            SMALL,
            sft_control(SMALL, "tokens"),
            replace(SMALL, method=Keep(model="base")),
        )
    ]
    assert len(set(starts)) == 1


def test_no_points_no_curve_and_the_same_end(tmp_path: Path) -> None:
    without = replace(SMALL, evaluation=replace(SMALL.evaluation, curve_points=0))
    bare, whole = (run_trial(config, 0, tmp_path) for config in (without, SMALL))
    assert bare.curve["evaluation"] == {}
    assert bare.metrics == whole.metrics


@pytest.mark.parametrize("match", SFT_CONTROLS)
def test_matched_control_is_within_two_percent(match: str, tmp_path: Path) -> None:
    base = replace(SMALL, method=replace(distillation(SMALL), steps=60))
    arm = run_trial(base, 0, tmp_path).budget
    control = run_trial(sft_control(base, match), 0, tmp_path).budget  # type: ignore[arg-type]
    spent = {
        "tokens": (control["trained_tokens"], arm["trained_tokens"]),
        "flops": (control["flops"], arm["flops"]),
        "end_to_end": (control["flops"], arm["flops"] + arm["teacher_flops"]),
    }
    assert spent[match][0] == pytest.approx(spent[match][1], rel=0.02)


def test_the_specialists_row_is_the_teachers_themselves(tmp_path: Path) -> None:
    on_as_many = replace(SMALL.specialist, gap_sequences=SMALL.evaluation.sequences)
    config = replace(SMALL, method=Keep(model="specialists"), specialist=on_as_many)
    outcome = run_trial(config, 0, tmp_path)
    assert outcome.metrics["teacher_reverse_kl_nats"]["macro"] == pytest.approx(0, abs=1e-6)
    for metric in ("cross_entropy_nats", "source_forward_kl_nats"):
        value = outcome.metrics[metric]["macro"]
        assert outcome.facts[f"teacher.{metric}"] == pytest.approx(value)
    for metric, values in outcome.metrics.items():  # alone, their samples have other noise
        assert outcome.facts[f"teacher.{metric}"] == pytest.approx(values["macro"], rel=0.05)


def test_macro_is_the_mean_over_domains(tmp_path: Path) -> None:
    for values in run_trial(SMALL, 0, tmp_path).metrics.values():
        domains = [value for name, value in values.items() if name != "macro"]
        assert values["macro"] == pytest.approx(sum(map(float, domains)) / 2)


def test_divergence_of_a_run_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = run_trial(SMALL, 0, tmp_path)  # fills the cache: only the arm itself may break
    apply = optimizer.Optimizer.apply
    monkeypatch.setattr(
        optimizer.Optimizer,
        "apply",
        lambda self, loss, step: apply(self, loss * (float("nan") if step == 1 else 1), step),
    )
    outcome = run_trial(SMALL, 0, tmp_path)
    assert (healthy.status, outcome.status) == ("finished", "diverged")
    assert outcome.cause == "loss is not finite at step 1"
    assert outcome.curve["training"]["step"] == [1]


def test_an_absurd_rate_does_not_raise(tmp_path: Path) -> None:
    wild = Optimization(learning_rate=0.99, gradient_clip_norm=1e30, warmup_steps=1)
    config = replace(SMALL, method=replace(distillation(SMALL), optimization=wild, steps=30))
    assert run_trial(config, 0, tmp_path).status in ("finished", "diverged")


def test_tuning_and_evaluation_items_differ(tmp_path: Path) -> None:
    one = run_trial(SMALL, 0, tmp_path, held_out="tuning")
    other = run_trial(SMALL, 0, tmp_path, held_out="evaluation")
    assert one.curve["training"] == other.curve["training"]
    assert one.metrics != other.metrics
