import json
import os
import platform

import pytest
import torch

from harness.trial import environment as module
from harness.trial.environment import environment


def test_it_is_plain_json_without_hosts_or_paths() -> None:
    text = json.dumps(environment())
    assert platform.node() not in text
    assert os.sep + "home" not in text
    assert str(module.SOURCE) not in text


def test_it_names_code_packages_and_processor() -> None:
    found = environment()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["python"] == platform.python_version()
    assert found["packages"]["optuna"]
    assert found["cpu"]
    assert found["capability"]
    assert len(found["commit"]) in (len("unknown"), 40)


def test_dirty_names_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"ls-files": b"", "diff": b"", "rev-parse": b"c0ffee\n"}
    monkeypatch.setattr(module, "_git", lambda command, *rest: answers[command])
    assert environment()["commit"] == "c0ffee"
    assert environment()["dirty"] is None
    answers["diff"] = b"- one\n+ two\n"
    first = environment()["dirty"]
    answers["diff"] = b"- one\n+ three\n"
    assert first
    assert environment()["dirty"] not in (None, first)


def test_a_new_file_makes_the_code_dirty(monkeypatch: pytest.MonkeyPatch) -> None:
    def git(command: str, *rest: str) -> bytes:
        if command == "rev-parse":
            return b"c0ffee"
        return b"trial/environment.py\0" if "--others" in rest else b""

    monkeypatch.setattr(module, "_git", git)
    assert environment()["dirty"]


def test_outside_of_a_checkout_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_git", lambda *arguments: None)
    assert environment()["commit"] == "unknown"
    assert environment()["dirty"] is None
