"""How does a results folder stand, seen from outside and without touching it?"""

import hashlib
import time
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from harness.study.launch import read_plan
from harness.study.progress import duration
from harness.study.queue import Queue
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import seconds_per_cell

SECONDS_SILENT = 60.0
"""After so long without a beat, a worker that cannot be looked at is called silent."""


def status(results: Results, storage: str | None = None) -> dict[str, Any]:
    """Plain JSON: per ablation cells done and planned, what the queue holds, and who is at work.

    Raises ValueError where the folder is missing, a line in it cannot be read, or `storage` cannot
    be reached.
    """
    if not results.root.is_dir():
        raise ValueError(f"results folder must exist, got {str(results.root)!r}")
    runs = Runs(results)
    runs.refresh()
    ablations = [_ablation(read_plan(path), runs) for path in sorted(results.plans.glob("*.json"))]
    queue = _queue(results, storage)
    at_work = sum(worker["alive"] for worker in queue["workers"])
    left = sum(entry["seconds_left"] for entry in ablations)
    return {
        "results": str(results.root),
        "ablations": ablations,
        "queue": queue,
        "eta_seconds": left / at_work if at_work else None,
    }


def _ablation(plan: dict[str, Any], runs: Runs) -> dict[str, Any]:
    done = diverged = total = untuned = 0
    for arms in plan["worlds"].values():
        for digests in arms.values():
            total += plan["seeds"]
            untuned += digests is None
            known = [runs.known(digest) for digest in (digests or {}).values()]
            done += sum(entry is not None for entry in known)
            diverged += sum(entry is not None and entry.status == "diverged" for entry in known)
    seconds, _ = seconds_per_cell(runs, plan["ablation"], plan["profile"])
    return {
        "name": plan["ablation"],
        "profile": plan["profile"],
        "done": done,
        "planned": total,
        "diverged": diverged,
        "arms_being_tuned": untuned,
        "tuned": plan["tuned"],
        "seconds_left": (total - done) * seconds,
    }


def _queue(results: Results, storage: str | None) -> dict[str, Any]:
    if storage is None and not results.journal.exists():
        return {"waiting": 0, "running": 0, "lost": 0, "finished": 0, "workers": [], "failures": []}
    queue = Queue(results, storage)
    lost = {trial.number for trial in queue.lost(time.monotonic())}
    workers = [_worker(trial, trial.number in lost) for trial in queue.trials(TrialState.RUNNING)]
    return {
        "waiting": len(queue.trials(TrialState.WAITING)),
        "running": len(workers) - len(lost),
        "lost": len(lost),
        "finished": len(queue.trials(TrialState.COMPLETE)),
        "workers": workers,
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


def _worker(trial: FrozenTrial, lost: bool) -> dict[str, Any]:
    """`machine` tells machines apart and names none."""
    owner, beat = trial.user_attrs.get("owner"), trial.user_attrs.get("beat")
    task = trial.user_attrs["task"]
    age = None if beat is None else round(max(0.0, time.time() - beat["at"]), 1)
    return {
        "machine": None if owner is None else _opaque(owner["machine"]),
        "pid": None if owner is None else owner["pid"],
        "cell": {key: task[key] for key in ("ablation", "world", "arm", "seed")},
        "seconds_since_beat": age,
        "alive": not lost and (age is None or age < SECONDS_SILENT),
    }


def _opaque(machine: str) -> str:
    return hashlib.sha256(machine.encode()).hexdigest()[:8]


def lines(found: dict[str, Any]) -> list[str]:
    """The same in words."""
    queue, said = found["queue"], []
    for entry in found["ablations"]:
        tuning = f", {entry['arms_being_tuned']} arms to tune" if entry["arms_being_tuned"] else ""
        said.append(
            f"{entry['name']} ({entry['profile']}): {entry['done']} of {entry['planned']} cells, "
            f"{entry['diverged']} diverged{tuning}"
        )
    said.append(f"queue: {queue['running']} running, {queue['waiting']} waiting")
    for worker in queue["workers"]:
        since = worker["seconds_since_beat"]
        heard = "not heard of yet" if since is None else f"heard of {since:.0f} s ago"
        silent = "" if worker["alive"] else ", lost or silent"
        said.append(
            f"worker {worker['machine']}/{worker['pid']}: {_where(worker['cell'])}, {heard}{silent}"
        )
    said += [f"failed: {_where(failure)}: {failure['error']}" for failure in queue["failures"]]
    if found["eta_seconds"]:
        said.append(f"left: {duration(found['eta_seconds'])} with the workers there are")
    return said


def _where(cell: dict[str, Any]) -> str:
    return f"{cell['ablation']}/{cell['world']}/{cell['arm']}, seed {cell['seed']}"
