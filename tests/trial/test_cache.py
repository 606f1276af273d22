"""Is a shared model trained once, returned unchanged, and refused when somebody changed it?"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from harness.models.tiny import TinyPolicy
from harness.trial.cache import Facts, shared_model
from tests.training.worlds import policy


class Trainer:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: TinyPolicy) -> Facts:
        self.calls += 1
        with torch.no_grad():
            model.head.add_(self.calls)
        return {"steps": self.calls}


def test_trained_once_for_all_who_ask(tmp_path: Path) -> None:
    train = Trainer()
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(shared_model, tmp_path, {"a": 1}, lambda: policy(0), train)
            for _ in range(4)
        ]
    models = [future.result() for future in asked]
    assert train.calls == 1
    for shared in models:
        assert shared.facts == {"steps": 1}
        assert torch.equal(shared.model.head, policy(0).head + 1)


def test_another_description_is_another_model(tmp_path: Path) -> None:
    train = Trainer()
    for form in ({"a": 1}, {"a": 2}):
        shared_model(tmp_path, form, lambda: policy(0), train)
    assert train.calls == 2


def test_a_training_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(_: TinyPolicy) -> Facts:
        raise RuntimeError("lost host")

    with pytest.raises(RuntimeError, match="lost host"):
        shared_model(tmp_path, {"a": 1}, lambda: policy(0), fail)
    facts = shared_model(tmp_path, {"a": 1}, lambda: policy(0), Trainer()).facts
    assert facts == {"steps": 1}


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    shared_model(tmp_path, {"a": 1}, lambda: policy(0), Trainer())
    (weights,) = tmp_path.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="checksum differs") as caught:
        shared_model(tmp_path, {"a": 1}, lambda: policy(0), Trainer())
    assert str(weights) in str(caught.value)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    shared_model(tmp_path, {"a": 1}, lambda: policy(0), Trainer())
    (weights,) = tmp_path.glob("*.safetensors")
    weights.unlink()
    with pytest.raises(ValueError, match=r"missing; delete \w+\.json to have it made again") as c:
        shared_model(tmp_path, {"a": 1}, lambda: policy(0), Trainer())
    assert str(weights) in str(c.value)
