"""When and how are the rows done in Triton? One program per token, three sweeps over its logits.

The products stay PyTorch's; this replaces the eager rows of `row_eager` on CUDA. Under
TRITON_INTERPRET=1 it runs on a CPU, for tests.
"""

import importlib
import os
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from opd_kernels.chunked import chunked
from opd_kernels.problem import Measured, Problem
from opd_kernels.supports import FullVocab

KINDS = ("reverse_kl", "forward_kl", "jsd", "skew_forward_kl", "skew_reverse_kl")
BLOCK_WORDS = 4096


@lru_cache
def unavailable() -> str | None:
    """None where the Triton rows run, else why not."""
    try:
        importlib.import_module("triton")
    except ImportError:
        return "triton is not installed"
    if torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return "no CUDA device (TRITON_INTERPRET=1 runs it on a CPU)"


def fits(problem: Problem) -> str | None:
    """None where this path can run the problem, else why not."""
    if (reason := unavailable()) is not None:
        return reason
    if problem.student_hidden.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return "not on a CUDA device"
    if problem.student_hidden.dtype == torch.float64 or problem.support != FullVocab():
        return "float64, top-k and skipped words are done by the portable path"
    if problem.divergence.name not in (*KINDS, "jsd_normalized"):
        return f"{problem.divergence} is done by the portable path"
    if problem.student_softcap or any(teacher.softcap for teacher in problem.teachers):
        return "a softcap is done by the portable path"
    return None


def run(problem: Problem, coefficient: Tensor | None, **options: Any) -> Measured:
    """As `chunked.chunked`, with these rows."""
    return chunked(problem, coefficient, **options, single=_single, chained=_chained)


def _single(
    problem: Problem,
    student: Tensor,
    teacher: Tensor,
    out: Tensor,
    coefficient: Tensor | None,
    measured: Tensor,
    columns: Tensor | None,
) -> None:
    one, name, parameter = (
        problem.teachers[0],
        problem.divergence.name,
        problem.divergence.parameter,
    )
    strength = 1.0
    if name == "jsd_normalized" and parameter is not None:
        name, strength = "jsd", 1.0 / (parameter * (1.0 - parameter))
    unit = measured.new_ones(len(student))
    w = unit if one.weights is None else one.weights.to(unit)
    c = None if coefficient is None else (coefficient * w * strength).float()
    cached = None if one.log_normalizer is None else one.log_normalizer.to(unit)
    _launch(student, teacher, out, unit, cached, c, measured, KINDS.index(name), parameter or 0.0)
    for row, factor in ((0, w * strength), (2, w)):
        measured[row] = factor * measured[row].masked_fill(w == 0, 0.0)


def _chained(
    student: Tensor,
    mixture: Tensor,
    weight: Tensor,
    normalizer: Tensor,
    coefficient: Tensor | None,
    measured: Tensor,
    columns: Tensor | None,
) -> None:
    c = None if coefficient is None else coefficient.float()
    _launch(student, mixture, student, weight, normalizer, c, measured, 0, 0.0)


def _launch(
    student: Tensor,
    teacher: Tensor,
    out: Tensor,
    weight: Tensor,
    normalizer: Tensor | None,
    coefficient: Tensor | None,
    measured: Tensor,
    kind: int,
    parameter: float,
) -> None:
    rows = measured.new_zeros(len(student), 5)
    block = min(BLOCK_WORDS, 1 << (student.shape[1] - 1).bit_length())
    normalizers = weight if normalizer is None else normalizer.contiguous()
    coefficients = weight if coefficient is None else coefficient.contiguous()
    kernel = importlib.import_module("opd_kernels.row_triton_kernel").divergence_row
    kernel[(len(student),)](
        student, teacher, out, rows, weight.contiguous(), normalizers, coefficients,
        student.shape[1], student.stride(0), teacher.stride(0), out.stride(0), parameter,
        KIND=kind, BLOCK=block, CACHED=normalizer is not None, GRADIENT=coefficient is not None,
    )  # fmt: skip
    measured.copy_(rows.T)
