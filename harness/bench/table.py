"""How fast, how large and how accurate is every variant? One table; `python -m harness.bench.table`

Each round runs the floor and then every variant once; a ratio is the median over rounds of a
variant to the floor of its round, in processor time, on one thread.
"""

import argparse
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from harness.bench.accuracy import DISTANCES, gradient_error
from harness.bench.figure import error_figure
from harness.bench.memory import peak_extra_bytes
from harness.bench.ratio import processor_seconds
from harness.bench.variants import CHUNK_TOKENS, SIZES, Size, floor, operands, variants

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LARGE_VOCAB = 10_000


def compare(size: Size, dtype: torch.dtype, rounds: int, memory: bool) -> list[dict[str, Any]]:
    """Rows of one size: seconds and ratios of everything that runs here."""
    given = operands(size, dtype)
    steps = {"floor": floor(given)} | {name: make(given) for name, make in variants().items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(-1 if size.vocab < LARGE_VOCAB else 0, rounds):  # small ones warm up
        for name, step in steps.items():
            spent = processor_seconds(step)
            if round_ >= 0:
                seconds[name].append(spent)
    rows = []
    for name, step in steps.items():
        pairs = zip(seconds[name], seconds["floor"], strict=True)
        peak = peak_extra_bytes(step, given) if memory and name != "floor" else None
        rows.append(
            {
                "variant": name,
                "size": str(size),
                "dtype": str(dtype).removeprefix("torch."),
                "seconds": min(seconds[name]),
                "ratio": statistics.median(a / b for a, b in pairs),
                "rounds": rounds,
                "peak_buffers": None if peak is None else peak / given.chunk_buffers_bytes,
            }
        )
    return rows


def accuracy() -> list[dict[str, Any]]:
    """The sweep of distances: the usual bf16 path, and ours."""
    menu = {
        "plain bf16": (None, "exact"),
        "ours": ("auto", "exact"),
        "ours, portable": ("chunked", "exact"),
    }
    capability = environment()["capability"]
    return [
        {
            "variant": name,
            "distance": distance,
            "capability": capability,
            **vars(gradient_error(distance, i, precision=p)),  # type: ignore[arg-type]
        }
        for distance in DISTANCES
        for name, (i, p) in menu.items()
    ]


def render(found: dict[str, Any]) -> str:
    """Markdown: same input, same bytes."""
    rows = found["speed"]
    columns = sorted(
        {(r["size"], r["dtype"]) for r in rows}, key=lambda c: (_vocab(c[0]), c[1] != "float32")
    )
    cell = {(r["variant"], r["size"], r["dtype"]): r for r in rows}
    names = list(dict.fromkeys(r["variant"] for r in rows))
    body = []
    for name in names:
        line = [name]
        for column in columns:
            row = cell.get((name, *column))
            if row is None:
                line.append("")
            elif name == "floor":
                line.append(f"{row['seconds']:.3f} s")
            else:
                extra = row["peak_buffers"]
                line.append(f"{row['ratio']:.2f}" + ("" if extra is None else f" ({extra:.1f})"))
        body.append(line)
    headers = ["ratio to the floor (peak / two buffers)", *(f"{s}, {d}" for s, d in columns)]
    errors = [
        (f"{r['kl_nats']:.4f}", r["variant"], f"{r['hidden']:.2%}", f"{r['head']:.2%}")
        for r in found["accuracy"]
    ]
    e = found["environment"]
    return (
        tabulate(body, headers, tablefmt="github", disable_numparse=True)
        + f"\n\n{e['cpu']}, {e['capability']}, torch {e['torch']}, one thread, chunks of "
        f"{CHUNK_TOKENS}, processor time.\n\n"
        + tabulate(
            errors,
            ["KL (nats)", "reverse KL in bf16", "error, hidden gradient", "error, head gradient"],
            tablefmt="github",
            disable_numparse=True,
        )
        + f"\n\nErrors against float64, measured with {found['accuracy'][0]['capability']}.\n"
    )


def _vocab(size: str) -> int:
    return int(size.split(" x ")[-1])


def environment() -> dict[str, str]:
    """What the numbers depend on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [n for n in info.read_text().splitlines() if n.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    capability = torch.backends.cpu.get_cpu_capability()
    return {"cpu": cpu, "capability": capability, "torch": torch.__version__}


def main(arguments: list[str] | None = None) -> int:
    """The command line: rows are merged into what the file holds, then the table is drawn."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.table", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/local"))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(range(len(SIZES))))
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    path = given.results / "bench" / "cpu.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {"speed": []}
    for index in given.sizes:
        for name in given.dtypes:
            size = SIZES[index]
            rounds = given.rounds * (5 if size.vocab < LARGE_VOCAB else 1)
            rows = compare(size, DTYPES[name], rounds, not given.no_memory)
            old = [r for r in found["speed"] if (r["size"], r["dtype"]) != (str(size), name)]
            found["speed"] = old + rows
            for row in rows:
                print(
                    f"{row['size']} {row['dtype']} {row['variant']}: {row['ratio']:.3f}", flush=True
                )
            found["environment"] = environment()
            path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    found["accuracy"] = accuracy()
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    path.with_suffix(".md").write_text(render(found))
    error_figure(found["accuracy"], path.with_name("accuracy"))
    print(render(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
