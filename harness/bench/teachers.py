"""What does one more teacher cost? `python -m harness.bench.teachers`

A reverse KL to K teachers with cached log-normalizers has one chain of products and one pass over
the words, so its time is a + b K. Elementwise work is what the pass takes beyond its products; it
must not grow with K. Each round times the pass at K = 1 and 8 and the products of both; the growth
is the ratio of the two medians of what the pass takes beyond its products.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from harness.bench.ratio import processor_seconds
from harness.bench.table import environment
from harness.bench.variants import CHUNK_TOKENS, Operands, Size, floor, operands, ours
from opd_kernels import Implementation, Teacher

SIZE = Size(tokens=1024, width=64, vocab=16384)
MANY = 8


def teachers(given: Operands, count: int) -> list[Teacher]:
    """So many teachers of one size, weights 1 / count, log-normalizers cached."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        hidden = torch.randn(given.hidden.shape, generator=generator)
        head = torch.randn(given.head.shape, generator=generator) * 2 / hidden.shape[1] ** 0.5
        made.append(
            Teacher(
                hidden,
                head,
                weights=torch.full((len(hidden),), 1 / count),
                log_normalizer=_normalizer(hidden, head),
            )
        )
    return made


def _normalizer(
    hidden: Float[Tensor, "tokens width"], head: Float[Tensor, "vocab width"]
) -> Float[Tensor, " tokens"]:
    return torch.cat([(part @ head.T).logsumexp(-1) for part in hidden.split(CHUNK_TOKENS)])


def compare(implementation: Implementation, rounds: int) -> dict[str, float]:
    """Processor seconds at 1 and 8 teachers, and how much the elementwise part grew."""
    given = operands(SIZE, torch.float32)
    several = teachers(given, MANY)
    menu = {
        f"{what}{count}": make
        for count, some in ((1, several[:1]), (MANY, several))
        for what, make in (
            ("pass", ours(given, implementation, teachers=some)),
            ("products", floor(given, teachers=some)),
        )
    }
    spent: dict[str, list[float]] = {name: [] for name in menu}
    for round_ in range(rounds + 1):
        for name, run in menu.items():
            seconds = processor_seconds(run)
            if round_:
                spent[name].append(seconds)
    one, many = (
        [a - b for a, b in zip(spent[f"pass{k}"], spent[f"products{k}"], strict=True)]
        for k in (1, MANY)
    )
    return {name: statistics.median(seconds) for name, seconds in spent.items()} | {
        "elementwise1": statistics.median(one),
        f"elementwise{MANY}": statistics.median(many),
        "growth": statistics.median(many) / statistics.median(one),
    }


def main(arguments: list[str] | None = None) -> int:
    """The command line: one JSON object per implementation, kept in RESULTS/bench/teachers.json."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.teachers", description=__doc__)
    parser.add_argument("--implementations", nargs="*", default=["chunked", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--results", type=Path, default=Path("results/local"))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = [
        {"implementation": name, "size": str(SIZE), **compare(name, given.rounds)}
        for name in given.implementations
    ]
    path = given.results / "bench" / "teachers.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"environment": environment(), "teachers": found}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    for row in found:
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
