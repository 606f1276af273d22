from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.report.claims import judge
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord
from tests.report.synthetic import ablation, records
from tests.report.test_claims import arms, outcome
from tests.report.test_scaling import exponential, power, teacher_count, with_costs

Facts = Mapping[str, Mapping[str, float]]
OPEN = "not resolved at this scale"
HIDDEN, UNSORTED, LOGITS = "hidden float32", "hidden float32, unsorted", "logits float32"
FLOAT, EXACT, ROUNDED = "float32", "bf16, exact differences", "bf16, rounded differences"


def study(name: str, *names: str) -> Ablation:
    return ablation(arms(*names), name=name, reference=names[0])


def told(found: list[TrialRecord], facts: Facts) -> list[TrialRecord]:
    return [replace(r, facts=dict(facts.get(r.arm, {}))) for r in found]


@pytest.mark.parametrize(
    ("effect", "word"), [(0.0, "reproduced"), (0.05, "reproduced"), (-0.05, "reversed")]
)
def test_many_teachers_fold(effect: float, word: str) -> None:
    made = teacher_count()
    found = records(made, {"N=12, proportional": effect}, noise=0.001)
    assert outcome("K02", made, found) == word


def test_many_teachers_between_the_bounds_stay_open() -> None:
    made = teacher_count()
    found = records(made, {"N=12, proportional": -0.005}, noise=0.02)
    assert outcome("K02", made, found) == OPEN
    few = records(made, {}, noise=0.001, seeds=5)
    assert outcome("K02", made, few) == OPEN


def test_cost_is_exponential_or_a_power() -> None:
    made = teacher_count()
    found = records(made, {})
    assert outcome("K30", made, with_costs(made, found, power, noise=0.02)) == "reversed"
    assert outcome("K30", made, with_costs(made, found, exponential, noise=0.02)) == "reproduced"
    steep = with_costs(made, found, lambda count: count**1.5)
    assert outcome("K30", made, steep) == OPEN
    assert outcome("K30", made, found) is None


def test_a_small_cost_per_teacher_is_not_exponential() -> None:
    """1 + N/100 is nearer to exp(bN) than to a power, and still grows more slowly than N."""
    made = teacher_count()
    found = with_costs(made, records(made, {}), lambda count: 1 + count / 100)
    assert outcome("K30", made, found) == "reversed"


@pytest.mark.parametrize(
    ("error", "written", "word"),
    [(1e-6, 10.0, "reproduced"), (1e-3, 10.0, "reversed"), (1e-6, 200.0, "reversed")],
)
def test_states_rebuild_logits(error: float, written: float, word: str) -> None:
    made = study("teacher_cache", HIDDEN, LOGITS, "recomputed")
    facts = {HIDDEN: {"store.cache_error_nats": error, "store.bytes_written": written,
                      "step_flops": 2.0},
             LOGITS: {"store.bytes_written": 100.0}, "recomputed": {"step_flops": 4.0}}  # fmt: skip
    found = told(records(made, {}), facts)
    assert outcome("K08", made, found) == word
    if word == "reproduced":
        judged = judge({made.name: made}, {made.name: found})
        (finding,) = next(j for j in judged if j.claim.id == "K08").findings
        assert finding.number == (
            "error at most 1.0e-06 nats, 0.100x the bytes of logits, 0.50x the FLOPs of recomputing"
        )


@pytest.mark.parametrize(
    ("loads", "peak", "unsorted", "effect", "word"),
    [
        (4.0, 1.0, 9.0, 0.0, "reproduced"),
        (5.0, 1.0, 9.0, 0.0, "reversed"),
        (4.0, 2.0, 9.0, 0.0, "reversed"),
        (4.0, 1.0, 4.0, 0.0, "reversed"),
        (4.0, 1.0, 9.0, 0.05, OPEN),
    ],
)
def test_one_head_resident(
    loads: float, peak: float, unsorted: float, effect: float, word: str
) -> None:
    made = study("teacher_cache", HIDDEN, UNSORTED)
    facts = {
        HIDDEN: {"teachers": 4.0, "store.head_loads": loads, "store.peak_resident_heads": peak},
        UNSORTED: {"store.head_loads": unsorted},
    }
    found = told(records(made, {HIDDEN: effect}, noise=0.001), facts)
    assert outcome("K09", made, found) == word


def test_the_same_metric_on_all_seeds_is_equivalent() -> None:
    made = study("teacher_cache", HIDDEN, UNSORTED)
    facts = {
        HIDDEN: {"teachers": 4.0, "store.head_loads": 4.0, "store.peak_resident_heads": 1.0},
        UNSORTED: {"store.head_loads": 9.0},
    }
    assert outcome("K09", made, told(records(made, {}, noise=0.0), facts)) == "reproduced"


@pytest.mark.parametrize(
    ("kept", "effect", "lost", "word"),
    [
        (0.6, 0.0, 0, "reproduced"),
        (0.6, 0.05, 0, "reproduced"),
        (0.8, 0.0, 0, "reversed"),
        (0.6, -0.05, 0, "reversed"),
        (0.6, 0.0, 2, OPEN),
        (0.6, 0.0, 8, "reversed"),
    ],
)
def test_autocast(kept: float, effect: float, lost: int, word: str) -> None:
    made = study("mixed_precision", FLOAT, EXACT, ROUNDED, "teacher only")
    facts = {FLOAT: 1.0, EXACT: kept, ROUNDED: kept, "teacher only": 1.0}
    effects = {EXACT: effect, ROUNDED: effect}
    diverged = {EXACT: range(lost), ROUNDED: range(lost)}
    found = told(
        records(made, effects, noise=0.001, diverged=diverged),
        {arm: {"saved_bytes": 2**20 * share} for arm, share in facts.items()},
    )
    assert outcome("K27", made, found) == word


def test_autocast_states_every_arm() -> None:
    made = study("mixed_precision", FLOAT, EXACT, ROUNDED, "teacher only")
    names = (FLOAT, EXACT, ROUNDED, "teacher only")
    found = told(records(made, {}), {arm: {"saved_bytes": 2.0**20} for arm in names})
    judged = judge({made.name: made}, {made.name: found})
    (finding,) = next(j for j in judged if j.claim.id == "K27").findings
    assert finding.number.startswith("float32 1 MiB; ")
    assert all(name in finding.number for name in names)


@pytest.mark.parametrize(
    ("effect", "word"), [(0.05, "reproduced"), (-0.05, "reversed"), (0.0, OPEN)]
)
def test_staged_fusion(effect: float, word: str) -> None:
    pairs = ("pairs, related", "pairs, unrelated")
    made = study("progressive_fusion", "direct", *pairs)
    assert outcome("K28", made, records(made, dict.fromkeys(pairs, effect))) == word
