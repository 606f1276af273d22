"""Is the gate red whenever it should be, and only then?"""

import json
import math
import random
import statistics
from pathlib import Path

import pytest

from harness.bench.gate import BASELINES, Exit, check, limit, main
from harness.bench.measure import CASES, MEMORY_CASE
from harness.bench.ratio import interleaved, summarize

HISTORY = {"a": [1.0, 1.01, 0.99, 1.02, 1.0], "b": [2.0, 2.02, 1.98, 2.0, 2.01]}


def found(a: float = 1.0, b: float = 2.0) -> dict[str, dict[str, float]]:
    return {"a": {"median": a, "lower": a}, "b": {"median": b, "lower": b}}


def run(*measurements, baselines=None, capability: str = "X") -> Exit:
    queue = list(measurements)
    known = {"X": HISTORY} if baselines is None else baselines
    return check(known, capability, lambda: queue.pop(0), lambda _: None)


def test_passes_and_improvement_passes() -> None:
    assert run(found(), found()) is Exit.PASSED
    assert run(found(a=0.5), found(a=0.5)) is Exit.PASSED


def test_two_of_three_processes_decide() -> None:
    assert run(found(b=2.6), found(b=2.6)) is Exit.REGRESSION
    assert run(found(b=2.6), found(), found(b=2.6)) is Exit.REGRESSION
    assert run(found(b=2.6), found(), found()) is Exit.PASSED


@pytest.mark.parametrize(
    ("measured", "baselines", "capability", "code"),
    [
        (found(), {}, "X", Exit.NO_BASELINE),
        ({}, None, "X", Exit.NO_DATA),
        (found(a=math.nan), None, "X", Exit.NO_DATA),
        ({"a": found()["a"], "renamed": found()["b"]}, None, "X", Exit.RENAMED),
        (found(), {"X": {"a": [math.nan], "b": [2.0]}}, "X", Exit.BROKEN_BASELINE),
        (found(), {"X": {}}, "X", Exit.BROKEN_BASELINE),
        (found(), None, "another", Exit.UNKNOWN_CPU),
        (found(b=9.0), None, "another", Exit.REGRESSION),
    ],
)
def test_fails_closed_with_a_code_of_its_own(measured, baselines, capability, code: Exit) -> None:
    assert run(measured, measured, measured, baselines=baselines, capability=capability) is code


def test_a_broken_file_is_never_green(tmp_path: Path) -> None:
    path = tmp_path / "baselines.json"
    assert main(["--baselines", str(path)]) == Exit.NO_BASELINE
    path.write_text("{ half a fi")
    assert main(["--baselines", str(path)]) == Exit.BROKEN_BASELINE


def test_limit_is_ten_percent_or_three_interquartile_ranges() -> None:
    assert limit([1.0]) == pytest.approx(1.1)
    assert limit([1.0, 1.0, 1.0, 1.2, 1.2]) > 1.5
    assert limit([1.0], known=False) == pytest.approx(2.0)


def test_committed_baselines_fit_the_benchmarks() -> None:
    for history in json.loads(BASELINES.read_text()).values():
        assert set(history) == {*CASES, MEMORY_CASE}


@pytest.mark.parametrize("slowdown", [1.0, 1.3])
def test_ratio_of_a_planted_slowdown_on_a_drifting_machine(slowdown: float) -> None:
    """A clock that only steps advance, each by its cost times a speed that drifts and jumps."""
    noise, now = random.Random(1), [0.0]

    def step(cost: float):
        def advance() -> None:
            drift = 1.0 + 0.5 * math.sin(now[0])
            now[0] += cost * drift * math.exp(abs(noise.gauss(0, 0.1)))

        return advance

    ratio = summarize(
        interleaved(step(0.01 * slowdown), step(0.01), rng=random.Random(0), clock=lambda: now[0])
    )
    assert ratio.lower <= ratio.median
    assert ratio.median == pytest.approx(slowdown, rel=0.06)
    assert (ratio.lower > 1.1) == (slowdown > 1.1)


def test_lower_bound_is_the_sixth_of_21() -> None:
    values = [float(i) for i in range(21)]
    ratio = summarize(values)
    assert ratio.lower == pytest.approx(math.exp(5.0))
    assert ratio.median == pytest.approx(math.exp(statistics.median(values)))
    with pytest.raises(ValueError, match="at least 21"):
        summarize(values[:5])
