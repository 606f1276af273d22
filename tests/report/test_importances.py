from pathlib import Path

import numpy as np
import pytest

from harness.report.importances import importances, write_importances
from harness.trial.record import append_records
from tests.report.synthetic import NASTY, ablation, factorial_ablation, records, varied

ARMS = [f"{a}{b}{c}" for a in "xy" for b in "01" for c in "pq"]
FACTORS = {arm: {NASTY: arm[0], "digit": arm[1], "letter": arm[2], "same": "1"} for arm in ARMS}


def test_an_effect_stands_above_the_floor_and_noise_does_not_all() -> None:
    noise = np.random.default_rng(0).normal(size=(10, 8))
    found, floor = importances(noise + 9 * np.array([a[0] == "y" for a in ARMS]), ARMS, FACTORS)
    assert list(found) == [NASTY, "digit", "letter"]
    assert found[NASTY] > max(floor[NASTY], 0.5)
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("values", [np.zeros((5, 8)), np.ones((1, 8)) * np.arange(8)])
def test_nothing_to_rank(values: np.ndarray) -> None:
    assert importances(values, ARMS, FACTORS) == ({}, {})


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_table_is_the_same_bytes(tmp_path: Path, seeds: int) -> None:
    made = factorial_ablation()
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}, seeds=seeds))
    paths = write_importances(made, tmp_path)
    before = [path.read_bytes() for path in paths]
    assert [path.suffix for path in paths] == [".md", ".tex", ".csv"]
    assert b"xploratory only" in before[0]
    assert [path.read_bytes() for path in write_importances(made, tmp_path)] == before


def test_without_a_factorial_there_is_none(tmp_path: Path) -> None:
    assert write_importances(ablation(varied(2)), tmp_path) == []
