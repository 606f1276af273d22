import pytest

from harness.report.verdicts import verdicts
from tests.report.synthetic import ablation, records, varied


def test_every_arm_has_a_verdict_with_all_that_is_quoted() -> None:
    made = ablation(varied(3), headline=("reverse KL",))
    found = verdicts(made, records(made, {"reverse KL": 0.03}))
    assert [v.arm for v in found] == ["reverse KL", "forward KL", "JSD(0.1)"]
    first = found[0]
    assert (first.verdict, first.seeds, first.headline, first.control) == (
        "better", 10, True, "SFT (flops)",
    )  # fmt: skip
    assert first.difference is not None
    assert first.difference.estimate == pytest.approx(0.03, abs=0.01)
    assert first.adjusted_p is not None
    assert first.adjusted_p <= 0.05
    assert first.detectable is not None
    assert first.budget_ratio == pytest.approx({"tokens": 1, "flops": 1, "end_to_end": 1.5})
    assert "better, +0.0" in first.sentence()
    assert not found[1].headline


def test_smoke_shows_nothing() -> None:
    made = ablation(varied(2))
    found = verdicts(made, records(made, {}, seeds=2, profile="smoke"))
    assert all(v.shows_nothing and v.verdict == "inconclusive" for v in found)
    assert "adjusted p" not in found[0].sentence()


def test_a_lost_arm_has_a_verdict_without_a_difference() -> None:
    made = ablation(varied(2))
    found = verdicts(made, records(made, {}, diverged={"forward KL": range(10)}))
    assert (found[1].verdict, found[1].difference, found[1].diverged) == ("worse", None, 10)
