"""Is fusion in stages what it says: what teaches whom, at what cost, and what an average is?"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ablations import progressive_fusion
from ablations.baseline import MARKOV, distillation, sft_control
from harness.models.policy import Policy
from harness.study.ablation import shrunk
from harness.teachers.files import write_teachers
from harness.training import optimizer
from harness.training.budget import Ledger, Sizes, planned_cost
from harness.training.config import Distill, Fuse, Keep, MatchedSft, Optimization
from harness.trial.config import TrialConfig, from_normal_form, normal_form, override
from harness.trial.methods import Stage, averaged
from harness.trial.run import run_trial
from tests.training.worlds import DOMAINS, RATE, policy

SMALL = shrunk(MARKOV, 20)
FAST = Optimization(learning_rate=2e-2, warmup_steps=2)


def fuse(*groups: tuple[int, ...], first_steps: int = 2, steps: int = 3, batch: int = 8) -> Fuse:
    """A short fusion."""
    return Fuse(
        groups=groups,
        first_steps=first_steps,
        steps=steps,
        batch_sequences=batch,
        optimization=RATE,
    )


def fused_trial(*groups: tuple[int, ...]) -> TrialConfig:
    """A small trial of it."""
    return replace(SMALL, method=fuse(*groups, batch=32))


@pytest.mark.parametrize("groups", [((0,), (1,)), ((0, 1),), ((1,), (0,))])
def test_ledger_equals_the_plan(groups: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    outcome = run_trial(fused_trial(*groups), 0, tmp_path)
    parameters = 32 * (35 + 2 * 12 * 32)
    sizes = Sizes(
        student_parameters=parameters,
        teacher_parameters=[parameters] * 2,
        prompt_tokens=SMALL.domains[0].prompt_tokens,
        sequence_tokens=SMALL.domains[0].sequence_tokens,
    )
    planned = planned_cost(fuse(*groups, batch=32), sizes)
    for count in ("trained_tokens", "generated_tokens", "scored_tokens", "flops"):
        assert outcome.budget[count] == getattr(planned, count), count


def test_a_plan_is_that_of_every_stage() -> None:
    sizes = Sizes(
        student_parameters=100, teacher_parameters=[100, 300], prompt_tokens=2, sequence_tokens=10
    )
    total = planned_cost(fuse((0,), (1,), first_steps=5, steps=7), sizes)
    positions = 8 * 9
    teachers = 5 * (100 + 300) + 7 * 100
    assert total.flops == 2 * teachers * positions + 8 * 100 * (5 + 5 + 7) * positions
    assert total.trained_tokens == (5 + 5 + 7) * 8 * 8


@pytest.mark.parametrize("arm", ["pairs, related", "pairs, unrelated"])
def test_the_ablation_compares_at_one_cost(arm: str) -> None:
    sizes = Sizes(
        student_parameters=100, teacher_parameters=[100] * 4, prompt_tokens=1, sequence_tokens=32
    )
    arms = progressive_fusion.MARKOV_FAMILIES.arms
    staged, direct = (planned_cost(distillation(arms[name]), sizes) for name in (arm, "direct"))
    for count in ("trained_tokens", "flops"):
        assert getattr(staged, count) == pytest.approx(getattr(direct, count), rel=0.02)


def test_the_curve_starts_where_the_first_stage_ends(tmp_path: Path) -> None:
    curve = run_trial(fused_trial((0,), (1,)), 0, tmp_path).curve
    alone = run_trial(replace(SMALL, method=fuse((0,), (1,), batch=32).second), 0, tmp_path).curve
    flops, of_second = (c["evaluation"]["flops"] for c in (curve, alone))
    assert None not in (flops[0], flops[-1], of_second[-1])
    assert flops[0] == pytest.approx(float(of_second[-1] or 0) * 4 / 3)
    assert of_second[0] == 0
    assert curve["training"]["step"] == alone["training"]["step"] == [1, 2, 3]
    base, other = (c["evaluation"]["cross_entropy_nats"][0] for c in (curve, alone))
    assert base == other


def test_the_second_stage_learns_from_the_models_of_the_groups(tmp_path: Path) -> None:
    """Groups that learned nothing are the base again, from which the student is not apart."""
    idle = replace(RATE, learning_rate=1e-12)
    staged, direct = (
        run_trial(replace(SMALL, method=replace(method, optimization=idle)), 0, tmp_path)
        for method in (fuse((0,), (1,), batch=32), distillation(SMALL))
    )
    losses = [float(run.curve["training"]["loss_nats"][0] or 0) for run in (staged, direct)]
    assert losses[0] == pytest.approx(0, abs=1e-6)
    assert losses[1] > 0.01


def test_the_model_of_a_group_is_the_teacher_of_its_domains(tmp_path: Path) -> None:
    """Groups of one, fused for long: each is its specialist again, whatever their order."""
    files = write_teachers([policy(1), policy(2)], tmp_path)
    folder = tmp_path / "fused"
    folder.mkdir()
    stage = Stage(folder=folder, ledger=Ledger(), seed=0)
    one, other = stage.fuse(policy(0), files, DOMAINS, fuse((0, 1)))
    assert one.path == other.path
    long = replace(fuse((1,), (0,), first_steps=100), optimization=FAST)
    learned = stage.fuse(policy(0), files, DOMAINS, long)
    for index, file in enumerate(learned):
        own, foreign = (distance(file.policy(), policy(1 + k), index) for k in (index, 1 - index))
        assert own < 0.5 * foreign


@torch.no_grad()
def distance(one: Policy, other: Policy, domain: int) -> float:
    """How far apart two models are on a domain's sequences: mean difference of probabilities."""
    generator = torch.Generator().manual_seed(0)
    tokens = DOMAINS[domain].demonstrations(16, "evaluation", generator).tokens
    first, second = ((model.hidden(tokens) @ model.head.T).softmax(-1) for model in (one, other))
    return float((first - second).abs().mean())


def test_what_breaks_in_a_group_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = fused_trial((0,), (1,))
    run_trial(config, 0, tmp_path)  # fills the cache
    apply, calls = optimizer.Optimizer.apply, [0]

    def breaking(self: optimizer.Optimizer, loss: float, step: int) -> float:
        calls[0] += 1
        return apply(self, float("nan") if calls[0] == 4 else loss, step)

    monkeypatch.setattr(optimizer.Optimizer, "apply", breaking)
    outcome = run_trial(config, 0, tmp_path)
    assert (outcome.status, outcome.cause) == ("diverged", "group 1: loss is not finite at step 1")
    assert outcome.budget["flops"] > 0


def test_the_same_bits_twice(tmp_path: Path) -> None:
    config = fused_trial((0,), (1,))
    outcomes = [run_trial(config, 3, tmp_path / name) for name in ("a", "a", "b")]
    for again in outcomes[1:]:
        assert (again.metrics, again.curve) == (outcomes[0].metrics, outcomes[0].curve)


def test_a_fusion_survives_its_normal_form_and_can_be_overridden() -> None:
    config = fused_trial((1,), (0,))
    matched = sft_control(replace(SMALL, method=fuse((0, 1), batch=32)), "flops")
    for one in (config, matched):
        assert from_normal_form(normal_form(one)) == one
    assert isinstance(matched.method, MatchedSft)
    assert isinstance(matched.method.reference, Fuse)
    changed = override(config, "method.optimization.learning_rate", "0.5").method
    assert changed.first.optimization.learning_rate == 0.5
    assert changed.second.optimization.learning_rate == 0.5
    assert type(changed.first) is type(changed.second) is Distill
    assert (changed.first.steps, changed.second.steps) == (2, 3)
    assert override(config, "method.groups.0.0", "1").method == config.method
    longer = replace(config, method=fuse((0, 1), first_steps=40, steps=80, batch=32))
    short = shrunk(longer, 20).method
    assert isinstance(short, Fuse)
    assert (short.first_steps, short.steps) == (2, 4)


def test_a_control_may_match_a_fusion(tmp_path: Path) -> None:
    arm = replace(SMALL, method=fuse((0,), (1,), first_steps=30, steps=40, batch=32))
    control = run_trial(sft_control(arm, "flops"), 0, tmp_path).budget["flops"]
    assert control == pytest.approx(run_trial(arm, 0, tmp_path).budget["flops"], rel=0.02)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": ()}, r"groups must have a domain each, got \(\)"),
        ({"groups": ((0, 1), ())}, "groups must have a domain each"),
        ({"groups": ((0,),)}, r"groups must have every index below 2 once, got \(\(0,\),\)"),
        ({"groups": ((0, 1), (1,))}, "groups must have every index below 2 once"),
        ({"groups": ((0,), (2,))}, "groups must have every index below 2 once"),
        ({"first_steps": 0}, "first_steps must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"divergence": "reverse"}, "divergence"),
        ({"batch_sequences": 31}, "batch_sequences must be a positive multiple"),
        ({"support": "top_k(99)"}, "k must be at most the vocabulary"),
    ],
)
def test_a_fusion_that_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, method=replace(fuse((0,), (1,), batch=32), **changes))  # type: ignore[arg-type]


def test_a_batch_must_divide_by_every_group() -> None:
    domains = tuple(replace(SMALL.domains[0], name=name) for name in "abcd")
    with pytest.raises(ValueError, match=r"multiple of every group's size, got 8 for \(0, 1, 2\)"):
        replace(SMALL, domains=domains, method=fuse((0, 1, 2), (3,)))


def test_an_average_of_known_models() -> None:
    models = [policy(0), policy(1), policy(2)]
    with torch.no_grad():
        for model, value in zip(models, (1.0, 2.0, 6.0), strict=True):
            for weight in model.parameters():
                weight.fill_(value)
    assert all(torch.equal(w, torch.full_like(w, 3.0)) for w in averaged(models).values())
    same = averaged([policy(5), policy(5)])
    assert all(torch.equal(same[name], weight) for name, weight in policy(5).state_dict().items())


def test_the_average_answers_for_all_domains_and_trains_nothing(tmp_path: Path) -> None:
    kept = {
        model: run_trial(replace(SMALL, method=Keep(model=model)), 0, tmp_path)
        for model in ("base", "average", "specialists")
    }
    average = kept["average"]
    assert average.budget["flops"] == average.budget["trained_tokens"] == 0
    assert len({run.metrics["cross_entropy_nats"]["macro"] for run in kept.values()}) == 3
    assert len(average.curve["evaluation"]["flops"]) == 1
    alone = replace(
        SMALL, domains=SMALL.domains[:1], base_domains=SMALL.domains, method=Keep(model="average")
    )
    oracle = replace(alone, method=Keep(model="specialists"))
    assert run_trial(alone, 0, tmp_path).metrics == run_trial(oracle, 0, tmp_path).metrics


def test_wider_specialists_are_not_averaged() -> None:
    wide = replace(SMALL.specialist, width=64)
    with pytest.raises(ValueError, match="width must be the student's 32 for an average, got 64"):
        replace(SMALL, specialist=wide, method=Keep(model="average"))
    assert distillation(replace(SMALL, specialist=wide)) == SMALL.method
