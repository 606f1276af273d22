"""Which implementation computes a problem, and what is there on this machine?"""

from typing import Literal

import torch

from opd_kernels import row_cpu, row_triton
from opd_kernels.chunked import chunked
from opd_kernels.fused import Run
from opd_kernels.problem import Problem

Implementation = Literal["auto", "reference", "chunked", "cpu", "triton"]
SMALL_LOGITS = 2**20


def choose(problem: Problem, implementation: Implementation) -> tuple[str, Run | None]:
    """The name of what runs, and its one-pass function; None for the reference.

    `auto` takes the C++ path on a CPU where it pays, Triton on CUDA, and `chunked` elsewhere; but
    the reference where those few float32 logits are held at no cost. Asked for by name, one that
    does not fit is refused with the reason.
    """
    if implementation == "reference":
        if getattr(problem.support, "skip_below", 0.0):
            raise ValueError("implementation reference skips no words; use chunked or auto")
        return "reference", None
    if implementation in ("auto", "cpu"):
        reason = row_cpu.fits(problem)
        if reason is None and (implementation == "cpu" or row_cpu.pays()):
            return "cpu", row_cpu.run
        if implementation == "cpu":
            raise ValueError(f"implementation cpu does not fit: {reason}")
    if implementation in ("auto", "triton"):
        reason = row_triton.fits(problem)
        if reason is None:
            return "triton", row_triton.run
        if implementation == "triton":
            raise ValueError(f"implementation triton does not fit: {reason}")
    if implementation == "auto" and _is_small(problem):
        return "reference", None
    return "chunked", chunked


def _is_small(problem: Problem) -> bool:
    """Whether a loop over chunks would cost more than the logits themselves."""
    states, head = problem.student_hidden, problem.student_head
    return (
        states.dtype == head.dtype == torch.float32
        and len(states) * len(head) <= SMALL_LOGITS
        and not getattr(problem.support, "skip_below", 0.0)
    )


def doctor() -> dict[str, str]:
    """What `auto` has on this machine, each with a word on why; builds the C++ path if it can."""
    report = {"torch": torch.__version__, "cpu capability": torch.backends.cpu.get_cpu_capability()}
    for dtype in (torch.float32, torch.bfloat16):
        reason = row_cpu.unavailable(dtype)
        report[f"C++ kernels, {str(dtype).removeprefix('torch.')}"] = reason or "ready"
    report["Triton kernels"] = row_triton.unavailable() or "ready"
    report["otherwise"] = "chunked (plain PyTorch, any device)"
    return report
