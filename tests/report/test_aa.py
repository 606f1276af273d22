import numpy as np
import pytest

from harness.report.aa import deal, false_alarms
from harness.report.outcomes import World, worlds
from tests.report.synthetic import ablation, records, varied


def world(seeds: int) -> World:
    made = ablation(varied(2))
    (found,) = worlds(made, records(made, {}, seeds=seeds))
    return found


def test_a_deal_pairs_every_run_once() -> None:
    values = 2.0 ** np.arange(8)
    differences = deal(values, 50, np.random.default_rng(1))
    assert differences.shape == (4, 50)
    for total in differences.sum(axis=0):  # one half minus the other, of powers of two
        first = (int(values.sum()) + int(total)) // 2
        assert first.bit_count() == (int(values.sum()) - first).bit_count() == 4
    assert len(np.unique(differences)) > 20


def test_an_arm_rarely_differs_from_itself() -> None:
    found = false_alarms(world(20), deals=400)
    assert found.pairs == 10
    assert found.significant <= 0.05 + 0.05
    assert found.low <= found.significant <= found.high
    assert "against itself: p <= 0.05 in" in found.sentence()


def test_the_same_deals_again() -> None:
    assert false_alarms(world(12), deals=100) == false_alarms(world(12), deals=100)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 12 finished runs, got 10"):
        false_alarms(world(10))
