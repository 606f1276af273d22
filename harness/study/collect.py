"""How does a record get here from a worker that cannot write to this folder?"""

from dataclasses import dataclass, field

from optuna.trial import TrialState

from harness.study.queue import Queue
from harness.study.runs import Runs
from harness.trial.record import TrialRecord, parse_record


@dataclass(kw_only=True)
class Collector:
    """Takes records out of finished cells of the queue and files them, each once."""

    queue: Queue
    runs: Runs
    seen: set[int] = field(default_factory=set)

    def collect(self) -> None:
        """File what was delivered since; raises ValueError where a record cannot be read."""
        records: dict[str, list[TrialRecord]] = {}
        numbers: set[int] = set()
        for trial in self.queue.trials(TrialState.COMPLETE):
            if trial.number in self.seen:
                continue
            numbers.add(trial.number)
            line = trial.user_attrs.get("record")
            if line is not None:
                record = parse_record(line, f"{self.queue.where}: cell {trial.number}")
                records.setdefault(record.ablation, []).append(record)
        for name, found in records.items():
            self.runs.file(name).append(found)
        self.seen |= numbers  # last: where the disk is full, they are filed the next time
