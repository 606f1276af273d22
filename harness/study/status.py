"""How does a results folder stand, seen from outside and without touching it?"""

from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from harness.study.launch import read_plan
from harness.study.process import is_alive
from harness.study.queue import Queue
from harness.study.results import Results
from harness.study.runs import Runs


def status(results: Results) -> dict[str, Any]:
    """Plain JSON: per ablation cells done and planned, and what the queue holds.

    Raises ValueError where the folder is missing or a line in it cannot be read.
    """
    if not results.root.is_dir():
        raise ValueError(f"results folder must exist, got {str(results.root)!r}")
    runs = Runs(results)
    runs.refresh()
    plans = sorted(results.plans.glob("*.json"))
    return {
        "results": str(results.root),
        "ablations": [_ablation(path, runs) for path in plans],
        "queue": _queue(results),
    }


def _ablation(path: Path, runs: Runs) -> dict[str, Any]:
    plan = read_plan(path)
    done = diverged = total = untuned = 0
    for arms in plan["worlds"].values():
        for digests in arms.values():
            total += plan["seeds"]
            untuned += digests is None
            known = [runs.known(digest) for digest in (digests or {}).values()]
            done += sum(entry is not None for entry in known)
            diverged += sum(entry is not None and entry.status == "diverged" for entry in known)
    return {
        "name": plan["ablation"],
        "profile": plan["profile"],
        "done": done,
        "planned": total,
        "diverged": diverged,
        "arms_being_tuned": untuned,
        "tuned": plan["tuned"],
    }


def _queue(results: Results) -> dict[str, Any]:
    if not results.journal.exists():
        return {"waiting": 0, "running": 0, "lost": 0, "failures": []}
    queue = Queue(results)
    running = queue.trials(TrialState.RUNNING)
    owners = [trial.user_attrs.get("owner") for trial in running]
    lost = sum(owner is not None and is_alive(owner) is False for owner in owners)
    return {
        "waiting": len(queue.trials(TrialState.WAITING)),
        "running": len(running) - lost,
        "lost": lost,
        "failures": [
            {
                "ablation": failure.cell.ablation,
                "world": failure.cell.world,
                "arm": failure.cell.arm,
                "seed": failure.cell.seed,
                "attempts": failure.attempts,
                "error": failure.error.splitlines()[0] if failure.error else "",
            }
            for failure in queue.failed_for_good().values()
        ],
    }
