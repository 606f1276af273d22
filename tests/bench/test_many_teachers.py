"""Does an update with many teachers hold no more in memory than one with two?"""

import pytest

from harness.bench.many_teachers import ROLLOUTS, Scale, measure, peak

SMALL = Scale(width=64, states=256, tokens=16)


def test_thirty_two_teachers_take_no_more_memory_than_two() -> None:
    """Against the 16 MB that thirty more would take if they stayed."""
    few, many = peak(SMALL, 2), peak(SMALL, 32)
    if few is None or many is None:
        pytest.skip("no peak memory on this system")
    thirty = 30 * sum(p.numel() for p in SMALL.policy(0).parameters()) * 4
    assert many - few < 0.2 * thirty


def test_every_budget_and_number_is_measured() -> None:
    found = measure(SMALL, (2, 4), rounds=1)
    assert [(row["budget"], row["teachers"], row["rollouts"]) for row in found["updates"]] == [
        (budget, count, rollouts(count)) for budget, rollouts in ROLLOUTS.items()
        for count in (2, 4)
    ]  # fmt: skip
    assert set(found["growth"]) == set(ROLLOUTS)
