"""What does the gate measure, in one fresh process? Ratios to the floor, and peak memory."""

import math
import random
import time
from functools import partial

import torch

from harness.bench.memory import peak_extra_bytes
from harness.bench.ratio import Step, interleaved, summarize
from harness.bench.variants import Operands, Size, floor, operands, ours

SPEED = Size(tokens=1024, width=64, vocab=512)
MEMORY = Size(tokens=512, width=64, vocab=65536)
CASES = {
    "reverse_kl float32": (torch.float32, partial(ours, implementation="auto")),
    "reverse_kl bfloat16": (torch.bfloat16, partial(ours, implementation="auto")),
    "jsd float32": (torch.float32, partial(ours, implementation="auto", divergence="jsd(0.5)")),
    "forward_kl float32": (
        torch.float32,
        partial(ours, implementation="auto", divergence="forward_kl"),
    ),
    "portable float32": (torch.float32, partial(ours, implementation="chunked")),
    "frozen head float32": (torch.float32, partial(ours, implementation="auto", frozen=True)),
}
MEMORY_CASE = "peak memory float32"


def measure(seed: int, planted: float = 1.0) -> dict[str, dict[str, float]]:
    """Per benchmark its `median` and `lower`; memory in units of two chunk buffers.

    `planted` makes every candidate that much slower: the self-test of the gate.
    """
    torch.set_num_threads(1)
    rng = random.Random(seed)
    found = {}
    for name, (dtype, make) in CASES.items():
        given = operands(SPEED, dtype)
        ratio = summarize(interleaved(_slowed(make(given), planted), floor(given), rng=rng))
        found[name] = {"median": ratio.median, "lower": ratio.lower}
    given = operands(MEMORY, torch.float32)
    step = ours(given, "auto")
    step()  # what is loaded and kept at first is no part of a step
    peak = peak_extra_bytes(step, given)
    share = math.nan if peak is None else peak / given.chunk_buffers_bytes * planted
    found[MEMORY_CASE] = {"median": share, "lower": share}
    return found


def _slowed(step: Step, factor: float) -> Step:
    def slower() -> None:
        start = time.process_time()
        step()
        end = start + factor * (time.process_time() - start)
        while time.process_time() < end:
            pass

    return step if factor == 1.0 else slower


__all__ = ["CASES", "MEMORY_CASE", "Operands", "measure"]
