"""Which implementation runs, and what is said where the C++ path cannot?"""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from opd_kernels import doctor, linear_divergence, parse_divergence, row_cpu
from opd_kernels.chunked import chunked
from opd_kernels.fused import Run
from opd_kernels.problem import Measured
from tests.kernels.cases import operands

REVERSE = parse_divergence("reverse_kl")


@pytest.fixture(autouse=True)
def _ask_again() -> Iterator[None]:
    ask = row_cpu.unavailable
    ask.cache_clear()
    yield
    ask.cache_clear()


def chosen(monkeypatch: pytest.MonkeyPatch, capability: str) -> list[str]:
    """What `auto` runs on a CPU of that capability, where the C++ path fits."""
    ran: list[str] = []

    def recorded(name: str) -> Run:
        def run(*arguments: Any, **options: Any) -> Measured:
            ran.append(name)
            return chunked(*arguments, **options)

        return run

    monkeypatch.setattr(row_cpu, "unavailable", lambda dtype: None)
    monkeypatch.setattr(row_cpu, "_capability", lambda: capability)
    monkeypatch.setattr("opd_kernels.dispatch.chunked", recorded("chunked"))
    monkeypatch.setattr(row_cpu, "run", recorded("cpu"))
    hidden, head, teacher = operands(9, 64, 4, 130, dtype=torch.float32)
    linear_divergence(hidden, head, teacher, divergence=REVERSE)
    return ran


@pytest.mark.parametrize(
    ("capability", "expected"), [("AVX512", "cpu"), ("AVX2", "cpu"), ("DEFAULT", "chunked")]
)
def test_auto_takes_what_is_quicker(
    monkeypatch: pytest.MonkeyPatch, capability: str, expected: str
) -> None:
    monkeypatch.setattr("opd_kernels.dispatch.SMALL_LOGITS", 0)
    assert chosen(monkeypatch, capability) == [expected]


def test_without_a_compiler_one_warning_and_the_portable_path(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(row_cpu, "extension", broken)
    hidden, head, teacher = operands(9, 12, 4, 130, dtype=torch.float32)
    with caplog.at_level(logging.WARNING, logger="opd_kernels"):
        found = [
            linear_divergence(hidden, head, teacher, divergence=REVERSE, implementation=name).loss
            for name in ("auto", "auto", "chunked")
        ]
        report = doctor()
    warnings = [
        record.getMessage() for record in caplog.records if "float32" in record.getMessage()
    ]
    assert warnings == ["no C++ kernels for torch.float32 (no compiler): the portable path is used"]
    assert report["C++ kernels, float32"] == "the C++ path is not available: no compiler"
    torch.testing.assert_close(found[0], found[2])
    with pytest.raises(ValueError, match=r"cpu does not fit: .* not available: no compiler"):
        linear_divergence(hidden, head, teacher, divergence=REVERSE, implementation="cpu")
