"""How is the queue made again from the runs files, which hold all that counts?"""

import os
import time
from collections.abc import Iterable

from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.study.collect import Collector
from harness.study.queue import Queue
from harness.study.results import Results
from harness.study.runs import Runs
from harness.trial.record import TrialRecord, read_records


def reindex(results: Results, storage: str | None = None) -> int:
    """Replace the queue by one finished trial per record; returns how many there are.

    What was delivered and not yet filed is filed first. Raises ValueError where a worker is at
    work, or the queue serves another results folder.
    """
    if not results.root.is_dir():
        raise ValueError(f"results folder must exist, got {str(results.root)!r}")
    results.prepare()
    with results.sole_planner(lambda: None):
        runs = Runs(results)
        runs.mend()
        runs.refresh()
        if storage is not None or _is_readable(results):
            old = Queue(results, storage)
            old.begin()
            _refuse_if_at_work(old)
            Collector(queue=old, runs=runs).collect()
            old.drop()
        if storage is None:
            results.journal.unlink(missing_ok=True)
        records = [r for path in sorted(results.runs.glob("*.jsonl")) for r in read_records(path)]
        queue = Queue(results, storage)
        queue.add(_trials(records))
        queue.begin()
        return len(records)


def _is_readable(results: Results) -> bool:
    """Whether the journal can say who is at work; one that cannot is what this command is for."""
    if not results.journal.exists():
        return False
    try:
        Queue(results)
    except ValueError:
        aside = results.journal.with_name(f"queue.journal.broken-{os.getpid()}")
        os.replace(results.journal, aside)
        return False
    return True


def _refuse_if_at_work(queue: Queue) -> None:
    now = time.monotonic()
    lost = {trial.number for trial in queue.lost(now)}
    for trial in queue.trials(TrialState.RUNNING):
        if trial.number not in lost:
            raise ValueError(f"{queue.where}: a worker is at work (see `opd status`); end it first")


def _trials(records: Iterable[TrialRecord]) -> Iterable[FrozenTrial]:
    for record in records:
        macro = {name: values.get("macro") for name, values in record.metrics.items()}
        yield create_trial(
            state=TrialState.COMPLETE,
            value=record.wall_seconds,
            user_attrs={
                "cell": record.digest,
                "ablation": record.ablation,
                "world": record.world,
                "arm": record.arm,
                "seed": record.seed,
                "profile": record.profile,
                "status": record.status,
                "metrics": macro,
            },
        )
