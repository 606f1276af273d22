"""What does an update cost with 2 to 32 teachers? `python -m harness.bench.many_teachers`

At a size where products rule, as they do in earnest: the small worlds of `ablations/teacher_count`
spend much of their time on the fixed cost of a teacher's turn. One student, teachers in files, and
whole updates: rollouts, scoring, loss, step. Rounds go through all numbers of teachers in turn; a
round gives one exponent, and the exponents of all rounds their median and range.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from tabulate import tabulate

from harness.bench.memory import peak_bytes
from harness.bench.ratio import processor_seconds
from harness.bench.table import environment
from harness.domains import Markov
from harness.models.tiny import TinyPolicy, TinyShape
from harness.teachers.files import TeacherFile, write_teachers
from harness.teachers.store import TeacherStore
from harness.training.budget import Ledger
from harness.training.config import Distill, Optimization
from harness.training.distill import train_distill
from harness.training.rollouts import Streams

COUNTS = (2, 4, 8, 16, 32)
Budget = Literal["fixed", "proportional"]
ROLLOUTS: dict[Budget, Callable[[int], int]] = {
    "fixed": lambda count: 64,
    "proportional": lambda count: 4 * count,
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of student, teachers and rollouts."""

    width: int = 256
    states: int = 512
    tokens: int = 64

    def policy(self, seed: int) -> TinyPolicy:
        """An untrained model; training speed and memory do not depend on what it knows."""
        return TinyPolicy(
            TinyShape(width=self.width, layers=2, heads=4),
            vocabulary_size=self.domain(0).vocabulary_size,
            sequence_tokens=self.tokens,
            generator=torch.Generator().manual_seed(seed),
        )

    def domain(self, index: int) -> Markov:
        """A source with so many states; its pools are as small as they can be."""
        return Markov(
            name=f"{index}", source_seed=index, states=self.states, tag=index, tags=COUNTS[-1],
            sequence_tokens=self.tokens, demonstration_sequences=8, pool_sequences=8,
        )  # fmt: skip


def updates(
    scale: Scale, files: Sequence[TeacherFile], rollouts: int, folder: Path, steps: int
) -> Callable[[], None]:
    """A whole training of so many updates, from a student of its own."""
    domains = [scale.domain(k) for k in range(len(files))]
    config = Distill(
        steps=steps, batch_sequences=rollouts, optimization=Optimization(learning_rate=1e-3)
    )
    student = scale.policy(0)

    def run() -> None:
        first, second, third, fourth = (torch.Generator().manual_seed(i) for i in range(4))
        streams = Streams(prompts=first, noise=second, demonstrations=third, scheduler=fourth)
        store = TeacherStore.open(files, folder)
        train_distill(student, store, domains, config, streams, Ledger(), lambda *_: False)

    return run


def measure(scale: Scale, counts: Sequence[int], rounds: int) -> dict[str, object]:
    """Seconds of an update by budget and number of teachers, and their growth."""
    with tempfile.TemporaryDirectory(prefix="opd-teachers-") as name:
        folder = Path(name)
        files = write_teachers([scale.policy(1 + k) for k in range(max(counts))], folder)
        menu = {
            (budget, count): updates(scale, files[:count], rollouts(count), folder, steps=2)
            for budget, rollouts in ROLLOUTS.items()
            for count in counts
        }
        spent: dict[tuple[Budget, int], list[float]] = {key: [] for key in menu}
        for run in menu.values():
            run()  # pools and pages are there from now on
        for _ in range(rounds):
            for key, run in menu.items():
                spent[key].append(processor_seconds(run) / 2)
    return {
        "updates": [
            {
                "budget": budget,
                "teachers": count,
                "rollouts": ROLLOUTS[budget](count),
                "seconds": statistics.median(seconds),
            }
            for (budget, count), seconds in spent.items()
        ],
        "growth": {budget: _growth(counts, spent, budget, rounds) for budget in ROLLOUTS},
        "teacher_bytes": files[0].body_bytes + files[0].head_bytes,
    }


def peak(scale: Scale, count: int) -> int | None:
    """Peak memory of updates with so many teachers, student and optimizer included, in bytes.

    To be compared, each count needs a process of its own: memory that one left behind is reused.
    """
    with tempfile.TemporaryDirectory(prefix="opd-teachers-") as name:
        files = write_teachers([scale.policy(1 + k) for k in range(count)], Path(name))
        for k in range(count):
            scale.domain(k).demonstrations(1, "prompts", torch.Generator())  # its pools are drawn
        run = updates(scale, files, ROLLOUTS["fixed"](count), Path(name), steps=2)
        return peak_bytes(run)


def _peaks(counts: Sequence[int]) -> dict[int, int | None]:
    found = {}
    for count in counts:
        command = [sys.executable, "-m", "harness.bench.many_teachers", "--peak", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[count] = json.loads(done.stdout)
    return found


def _growth(
    counts: Sequence[int], spent: dict[tuple[Budget, int], list[float]], budget: Budget, rounds: int
) -> dict[str, float]:
    """Exponent of seconds in the number of teachers, and seconds at the most over the fewest."""
    x = np.log(counts)
    found = [
        np.polyfit(x, np.log([spent[budget, count][i] for count in counts]), 1)[0]
        for i in range(rounds)
    ]
    last, first = spent[budget, counts[-1]], spent[budget, counts[0]]
    return {
        "exponent": float(np.median(found)),
        "exponent_low": float(min(found)),
        "exponent_high": float(max(found)),
        "ratio": statistics.median(a / b for a, b in zip(last, first, strict=True)),
    }


def main(arguments: list[str] | None = None) -> int:
    """The command line: a table, and RESULTS/bench/many_teachers.json."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.bench.many_teachers", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("results/local"))
    parser.add_argument("--peak", type=int, help="print the peak memory with so many teachers")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if given.peak is not None:
        print(json.dumps(peak(Scale(), given.peak)))
        return 0
    found = {**measure(Scale(), COUNTS, given.rounds), "peak_bytes": _peaks(COUNTS)}
    path = given.results / "bench" / "many_teachers.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"environment": environment(), **found}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(tabulate(found["updates"], headers="keys", floatfmt=".3g"))  # type: ignore[arg-type]
    print(json.dumps({name: found[name] for name in ("growth", "peak_bytes")}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
