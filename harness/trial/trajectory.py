"""How does a longer training go on where a shorter one of the same kind stopped?"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from harness.models.tiny import TinyPolicy
from harness.training.sft import Progress
from harness.trial.config import Specialist, content_digest, normal_form


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """The one training that specialists share which differ in nothing but where they stop.

    The file at `path` holds the furthest stop so far. Whoever stops later goes on from there, with
    the same bits as from the start; whoever stops earlier cannot use it.
    """

    path: Path

    @classmethod
    def of(cls, root: Path, form: dict[str, Any], making: Specialist) -> "Trajectory":
        """That of a specialist described by `form`, less what `making` says on when to stop."""
        kept = normal_form(making)
        for name in ("gap_nats", "check_every_steps"):
            del kept[name]
        return cls(path=root / f"{content_digest({**form, 'specialist': kept})}.trajectory")

    def extend(
        self,
        model: TinyPolicy,
        making: Specialist,
        train: Callable[[Progress | None], Progress],
    ) -> None:
        """Bring `model` to where `making` stops, by `train`, which is told what has been done.

        Whoever comes second waits: the first one's updates are then its own.
        """
        if making.gap_nats is None:
            train(None)
            return
        with FileLock(self.path.with_suffix(".trajectory.lock")):
            stored = torch.load(self.path) if self.path.exists() else None
            if stored is not None and not passes(stored, making):
                train(None)
                return
            progress = None
            if stored is not None:
                model.load_state_dict(stored["weights"])
                progress = Progress(**stored["progress"])
            reached = train(progress)
            entry = {
                "gap_nats": making.gap_nats,
                "check_every_steps": making.check_every_steps,
                "weights": model.state_dict(),
                "progress": asdict(reached),
            }
            partial = self.path.with_suffix(".partial")
            torch.save(entry, partial)
            os.replace(partial, self.path)


def passes(stored: dict[str, Any], making: Specialist) -> bool:
    """Whether `making` comes to the stop that is stored: every check before it fails for both."""
    rarer = making.check_every_steps % stored["check_every_steps"] == 0
    return rarer and making.gap_nats is not None and making.gap_nats > stored["gap_nats"]
