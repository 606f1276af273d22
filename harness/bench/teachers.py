"""What does one more teacher cost? `python -m harness.bench.teachers`

A reverse KL to K teachers with cached log-normalizers has one chain of products and one pass over
the words, so its time is a + b K. Elementwise work is what the pass takes beyond its products; it
must not grow with K. Each round times the pass at K = 1 and 8 and the products of both, and the
figure is the median over rounds of the two differences' ratio.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from jaxtyping import Float
from torch import Tensor

from harness.bench.variants import CHUNK_TOKENS, Operands, Size, Step, operands
from opd_kernels import Implementation, Teacher, linear_divergence, parse_divergence

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


def step(given: Operands, several: list[Teacher], implementation: Implementation) -> Step:
    """One pass, forward and backward."""

    def run() -> None:
        given.hidden.grad = given.head.grad = None
        linear_divergence(
            given.hidden,
            given.head,
            several,
            divergence=parse_divergence("reverse_kl"),
            implementation=implementation,
            chunk_tokens=CHUNK_TOKENS,
        ).loss.backward()

    return run


def products(given: Operands, several: list[Teacher]) -> Step:
    """The same products alone: K + 1 accumulated into logits, two of the gradient."""
    hidden, head = given.hidden.detach(), given.head.detach()

    def run() -> None:
        size = min(CHUNK_TOKENS, len(hidden))
        logits, gradient = (hidden.new_empty(size, len(head)) for _ in range(2))
        d_hidden, d_head = torch.empty_like(hidden), torch.zeros_like(head)
        for start in range(0, len(hidden), size):
            part = slice(start, start + size)
            torch.mm(hidden[part], head.T, out=logits)
            for index, teacher in enumerate(several):
                torch.addmm(
                    gradient, teacher.hidden[part], teacher.head.T, beta=float(index > 0),
                    out=gradient,
                )  # fmt: skip
            torch.mm(logits, head, out=d_hidden[part])
            d_head.addmm_(logits.T, hidden[part])

    return run


def compare(implementation: Implementation, rounds: int) -> dict[str, float]:
    """Processor seconds at 1 and 8 teachers, and how much the elementwise part grew."""
    given = operands(SIZE, torch.float32)
    several = teachers(given, MANY)
    menu = {
        f"{what}{count}": make
        for count, some in ((1, several[:1]), (MANY, several))
        for what, make in (
            ("pass", step(given, some, implementation)),
            ("products", products(given, some)),
        )
    }
    spent: dict[str, list[float]] = {name: [] for name in menu}
    for round_ in range(rounds + 1):
        for name, run in menu.items():
            start = time.process_time()
            run()
            if round_:
                spent[name].append(time.process_time() - start)
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
    """The command line: one JSON object per implementation."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.teachers", description=__doc__)
    parser.add_argument("--implementations", nargs="*", default=["chunked", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in given.implementations:
        found = compare(name, given.rounds)
        print(json.dumps({"implementation": name, "size": str(SIZE), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
