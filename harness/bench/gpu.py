"""What do the kernels reach on a CUDA GPU? `python -m harness.bench.gpu`, under five minutes.

Checks both gradients against float64 on a small size, then times every variant next to the four
products, in bf16, at two large sizes, and prints one table.
"""

import statistics
import sys

import torch
from tabulate import tabulate

from harness.bench.memory import peak_extra_bytes
from harness.bench.variants import Size, Step, floor, operands, ours, variants
from opd_kernels import Implementation

SIZES = (
    Size(tokens=8192, width=4096, vocab=128256),
    Size(tokens=8192, width=2048, vocab=151936),
)
ROUNDS = 5


def check(implementation: Implementation) -> float:
    """The larger relative error of the two bf16 gradients against float64."""
    small = Size(tokens=300, width=128, vocab=5003)
    given, exact = (operands(small, dtype, "cuda") for dtype in (torch.bfloat16, torch.float64))
    for name in ("hidden", "head"):
        getattr(exact, name).data.copy_(getattr(given, name).data)
        getattr(exact.teacher, name).copy_(getattr(given.teacher, name))
    ours(given, implementation)()
    ours(exact, "reference")()
    errors = []
    for x, y in ((given.hidden, exact.hidden), (given.head, exact.head)):
        assert x.grad is not None
        assert y.grad is not None
        errors.append(float((x.grad.double() - y.grad).norm() / y.grad.norm()))
    return max(errors)


def milliseconds(step: Step) -> float:
    """One step by CUDA events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def main() -> int:
    """Print the table; 1 where a gradient is off by more than 1 %."""
    if not torch.cuda.is_available():
        print("no CUDA device: nothing measured")
        return 3
    checked: tuple[Implementation, ...] = ("triton", "chunked")
    errors = {name: check(name) for name in checked}
    rows = []
    for size in SIZES:
        given = operands(size, torch.bfloat16, "cuda")
        steps = {"floor": floor(given)} | {name: make(given) for name, make in variants().items()}
        for name, step in steps.items():
            try:
                step()
                times = [milliseconds(step) for _ in range(ROUNDS)]
                floors = [milliseconds(steps["floor"]) for _ in range(ROUNDS)]
            except torch.cuda.OutOfMemoryError:
                rows.append((str(size), name, "out of memory", "", ""))
                continue
            peak = peak_extra_bytes(step, given)
            ratio = statistics.median(times) / statistics.median(floors)
            memory = "" if peak is None else f"{peak / 2**20:.0f}"
            rows.append((str(size), name, f"{min(times):.1f}", f"{ratio:.2f}", memory))
    headers = ("size, bf16", "variant", "ms", "ratio to the floor", "peak extra MB")
    print(torch.cuda.get_device_name(), torch.__version__)
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    print("gradient errors against float64:", {k: f"{v:.2%}" for k, v in errors.items()})
    return int(max(errors.values()) > 0.01)


if __name__ == "__main__":
    sys.exit(main())
