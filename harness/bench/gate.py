"""Did a kernel become slower than its committed baseline? `python -m harness.bench.gate`

A benchmark fails where the lower bound of its ratio to the floor exceeds the baseline by more than
max(10 %, 3 x the interquartile range of the calibration history), in 2 of 3 fresh processes.
Everything else than a clean comparison fails too, each with an exit code of its own.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

from harness.bench.measure import measure

BASELINES = Path(__file__).parents[2] / "results" / "reference" / "bench" / "baselines.json"
MARGIN = 0.10
WIDE_MARGIN = 1.0
Found = dict[str, dict[str, float]]


class Exit(IntEnum):
    """3 and above 4 are faults of configuration; none of them is green."""

    PASSED = 0
    REGRESSION = 1
    NO_BASELINE = 3
    NO_DATA = 4
    RENAMED = 5
    BROKEN_BASELINE = 6
    UNKNOWN_CPU = 7


def check(
    baselines: dict[str, dict[str, list[float]]],
    capability: str,
    fresh: Callable[[], Found],
    say: Callable[[str], object] = print,
) -> Exit:
    """Compare fresh measurements with the history of each benchmark on this kind of CPU."""
    if not baselines:
        say("no baselines: run with --aa 5 --record and commit the file")
        return Exit.NO_BASELINE
    known = capability in baselines
    history = baselines[capability if known else max(baselines)]
    if not history or any(
        not values or not all(math.isfinite(v) and v > 0 for v in values)
        for values in history.values()
    ):
        say(f"the baseline of {capability} has an empty or non-finite entry: record it anew")
        return Exit.BROKEN_BASELINE
    rounds: list[set[str]] = []
    while len(rounds) < 3:
        found = fresh()
        if (fault := _fault(found, history, say)) is not None:
            return fault
        rounds.append(_slower(found, history, known, say))
        if len(rounds) == 2 and rounds[0] == rounds[1]:
            break
    failed = sorted(name for name in history if sum(name in slower for slower in rounds) >= 2)
    if failed:
        say(f"slower than the baseline: {', '.join(failed)}")
        return Exit.REGRESSION
    if not known:
        say(f"uncalibrated: no baseline for {capability}; within twice that of another CPU")
        return Exit.UNKNOWN_CPU
    say("no regression")
    return Exit.PASSED


def limit(history: list[float], known: bool = True) -> float:
    """The largest lower bound that passes."""
    if not known:
        return statistics.median(history) * (1.0 + WIDE_MARGIN)
    spread = 0.0
    if len(history) > 3:
        low, _, high = statistics.quantiles(history, n=4)
        spread = 3.0 * (high - low) / statistics.median(history)
    return statistics.median(history) * (1.0 + max(MARGIN, spread))


def _fault(
    found: Found, history: dict[str, list[float]], say: Callable[[str], object]
) -> Exit | None:
    if not found or any(not math.isfinite(v) for row in found.values() for v in row.values()):
        say("no benchmark ran, or one gave no number")
        return Exit.NO_DATA
    if set(found) != set(history):
        say(f"benchmarks without a baseline or gone: {sorted(set(found) ^ set(history))}")
        return Exit.RENAMED
    return None


def _slower(
    found: Found, history: dict[str, list[float]], known: bool, say: Callable[[str], object]
) -> set[str]:
    slower = set()
    for name, row in found.items():
        base, most = statistics.median(history[name]), limit(history[name], known)
        word = "ok"
        if row["lower"] > most:
            word = "SLOWER"
            slower.add(name)
        elif row["median"] < base * (1.0 - MARGIN):
            word = "faster: record a new baseline"
        say(
            f"{name:22} {row['median']:6.3f} x floor (at least {row['lower']:.3f}), "
            f"baseline {base:.3f}, limit {most:.3f}: {word}"
        )
    return slower


def _fresh(planted: float) -> Found:
    """The measurement of a new interpreter."""
    command = [sys.executable, "-m", "harness.bench.gate", "--measure", "--planted", str(planted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: Found = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(done.stderr[-2000:], file=sys.stderr)
        return {}
    return found


def _calibrate(runs: int, path: Path, record: bool, capability: str) -> Exit:
    """A/A: the same code against itself, `runs` fresh processes; false alarms at the limit."""
    found = [_fresh(1.0) for _ in range(runs)]
    if any(_fault(one, {name: [1.0] for name in found[0]}, print) is not None for one in found):
        return Exit.NO_DATA
    history = {name: [one[name]["median"] for one in found] for name in found[0]}
    for name, values in history.items():
        alarms = sum(one[name]["lower"] > limit(values) for one in found)
        low, high = min(values), max(values)
        print(f"{name:22} median {statistics.median(values):.3f}, {low:.3f} to {high:.3f}, "
              f"limit {limit(values):.3f}, false alarms {alarms}/{runs}")  # fmt: skip
    if record:
        everything = _read(path) | {capability: history}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
        print(f"recorded {capability}")
    return Exit.PASSED


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except ValueError:
        loaded = {torch.backends.cpu.get_cpu_capability(): {}}  # unreadable: a broken baseline
    return loaded


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.gate", description=__doc__)
    parser.add_argument("--aa", type=int, default=0, metavar="N", help="calibrate with N processes")
    parser.add_argument("--record", action="store_true", help="write the calibration as baseline")
    parser.add_argument("--planted", type=float, default=1.0, help="self-test: slow down by this")
    parser.add_argument("--baselines", type=Path, default=BASELINES)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    capability = torch.backends.cpu.get_cpu_capability()
    if given.measure:
        print(json.dumps(measure(seed=0, planted=given.planted)))
        return Exit.PASSED
    if given.aa or given.record:
        return _calibrate(given.aa or 5, given.baselines, given.record, capability)
    return check(_read(given.baselines), capability, lambda: _fresh(given.planted))


if __name__ == "__main__":
    sys.exit(main())
