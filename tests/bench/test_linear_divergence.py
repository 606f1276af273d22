"""How long does a step take, next to the four products it cannot avoid?

`make test` runs every variant once on a tiny size; `make bench` times them, each round right after
a round of the floor. What a number depends on is in `extra_info`.
"""

import statistics
import time

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from harness.bench.memory import peak_extra_bytes
from harness.bench.variants import CHUNK_TOKENS, SIZES, Size, floor, operands, variants

TINY = Size(tokens=48, width=8, vocab=96)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", variants())
def test_linear_divergence(
    benchmark: BenchmarkFixture, name: str, size: Size, dtype: torch.dtype
) -> None:
    timed = not benchmark.disabled
    given = operands(size if timed else TINY, dtype)
    step, products = variants()[name](given), floor(given)
    floors: list[float] = []

    def floor_first() -> None:
        start = time.perf_counter()
        products()
        floors.append(time.perf_counter() - start)

    rounds = (15 if size.vocab < 10_000 else 3) if timed else 1
    benchmark.pedantic(step, setup=floor_first, rounds=rounds, warmup_rounds=1 if timed else 0)
    assert given.hidden.grad is not None
    if timed:
        floors = floors[-rounds:]
        ratios = [s / f for s, f in zip(benchmark.stats.stats.data, floors, strict=True)]
        benchmark.extra_info.update(
            variant=name,
            size=str(size),
            dtype=str(dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            chunk_tokens=CHUNK_TOKENS,
            floor_seconds=min(floors),
            ratio=statistics.median(ratios),
            peak_extra_bytes=peak_extra_bytes(step, given),
            chunk_buffers_bytes=given.chunk_buffers_bytes,
        )
