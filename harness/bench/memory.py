"""How much memory does a step take beyond what it was given? Linux and CUDA."""

import ctypes
import gc
from pathlib import Path

import torch

from harness.bench.variants import Operands, Step


def peak_extra_bytes(step: Step, given: Operands) -> int | None:
    """Peak minus the memory before and minus the gradients; None where it cannot be measured."""
    given.hidden.grad = given.head.grad = None
    gradients = sum(x.numel() * x.element_size() for x in (given.hidden, given.head))
    gc.collect()
    if given.hidden.is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return torch.cuda.max_memory_allocated() - before - gradients
    peak = peak_bytes(step)
    return None if peak is None else peak - gradients


def peak_bytes(step: Step) -> int | None:
    """Peak of this process's memory minus what it held before; None where Linux does not tell."""
    gc.collect()
    c_library = ctypes.CDLL(None)
    if hasattr(c_library, "malloc_trim"):  # what glibc keeps of freed memory would count as held
        c_library.malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        before = _status_bytes("VmRSS")
        step()
        return _status_bytes("VmHWM") - before
    except OSError:
        return None


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{name} is not in /proc/self/status")
