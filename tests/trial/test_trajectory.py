"""Does a specialist that goes on from a weaker one come out as if trained from the start?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ablations.baseline import MARKOV, sft
from harness.study.ablation import shrunk
from harness.training.optimizer import Optimizer
from harness.trial.cache import Shared
from harness.trial.config import Specialist, TrialConfig
from harness.trial.shared import base_model, specialist
from harness.trial.trajectory import passes

SMALL = replace(shrunk(MARKOV, 20), base=sft(5, 5e-3))
MAKING = replace(SMALL.specialist, training=sft(40, 5e-3), gap_sequences=32)


def config(gap_nats: float, every: int = 1, width: int | None = None) -> TrialConfig:
    making = replace(MAKING, gap_nats=gap_nats, check_every_steps=every, width=width)
    return replace(SMALL, specialist=making)


def made(configs: Sequence[TrialConfig], cache: Path) -> Shared:
    """The last of several specialists that one cache is asked for."""
    found = [specialist(c, 0, base_model(c, 1, cache), 1, cache) for c in configs]
    return found[-1]


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The step of every update made."""
    steps: list[int] = []
    whole = Optimizer.update

    def counted(self: Optimizer, loss: object, step: int) -> float:
        steps.append(step)
        return whole(self, loss, step)  # type: ignore[arg-type]

    monkeypatch.setattr(Optimizer, "update", counted)
    return steps


@pytest.mark.parametrize("width", [None, 64])
@pytest.mark.parametrize("last", [config(0.2), config(0.4, every=5), config(9.0, every=5)])
def test_same_bits_as_from_the_start(
    last: TrialConfig, width: int | None, tmp_path: Path, updates: list[int]
) -> None:
    chain = [config(0.05), config(0.1), last]
    chain = [replace(c, specialist=replace(c.specialist, width=width)) for c in chain]
    alone = made(chain[-1:], tmp_path / "alone")
    base = SMALL.base.steps
    assert len(updates) == base + alone.facts["steps"]
    updates.clear()
    shared = made(chain, tmp_path / "shared")
    assert shared.sha256 == alone.sha256
    assert shared.facts == alone.facts
    assert updates[base:] == list(range(int(alone.facts["steps"])))


def test_a_weaker_one_does_not_start_from_a_stronger(tmp_path: Path) -> None:
    alone = made([config(0.05)], tmp_path / "alone")
    after = made([config(0.4), config(0.05)], tmp_path / "shared")
    assert (after.sha256, after.facts) == (alone.sha256, alone.facts)


def test_one_stop_may_be_that_of_two_gaps(tmp_path: Path, updates: list[int]) -> None:
    one, other = config(0.01, every=40), config(0.02, every=40)
    assert made([one, other], tmp_path).facts["steps"] == 40
    assert len(updates) == SMALL.base.steps + 40


def test_what_is_cut_short_leaves_the_last_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made([config(0.05)], tmp_path)
    (kept,) = tmp_path.glob("*.trajectory")
    before = kept.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("harness.trial.trajectory.os.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            made([config(0.2)], tmp_path)
    assert kept.read_bytes() == before
    assert made([config(0.2)], tmp_path).sha256 == made([config(0.2)], tmp_path / "alone").sha256


@pytest.mark.parametrize(
    ("gap_nats", "every", "expected"),
    [(0.2, 2, True), (0.2, 4, True), (0.2, 3, False), (0.1, 2, False), (0.05, 2, False)],
)
def test_only_checks_that_all_failed_can_be_left_out(
    gap_nats: float, every: int, expected: bool
) -> None:
    making = Specialist(gap_nats=gap_nats, training=sft(9, 5e-3), check_every_steps=every)
    assert passes({"gap_nats": 0.1, "check_every_steps": 2}, making) == expected
