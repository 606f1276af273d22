"""How is the student of a trial trained, method by method?"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.domains.base import stream
from harness.models.tiny import TinyPolicy
from harness.teachers.files import TeacherFile
from harness.teachers.store import TeacherStore
from harness.training.budget import Ledger
from harness.training.config import Distill, Keep, Sft
from harness.training.distill import Facts, train_distill
from harness.training.precision import teacher_autocast
from harness.training.rollouts import Streams
from harness.training.sft import Observe, train_sft
from harness.trial.cache import Shared
from harness.trial.config import TrialConfig


def train(
    config: TrialConfig,
    method: Sft | Distill | Keep,
    student: TinyPolicy,
    made: Sequence[Shared],
    seed: int,
    ledger: Ledger,
    observe: Observe,
) -> Facts:
    """Train `student` in place; specialist i of `made` is the teacher of domain i.

    Returns what is worth keeping beside the metrics. Raises Diverged.
    """
    if isinstance(method, Keep):
        return {}
    if isinstance(method, Sft):
        demonstrations = stream(seed, "demonstrations")
        train_sft(student, config.domains, method, demonstrations, ledger, observe)
        return {}
    files = [TeacherFile.open(entry.path, entry.model.shape, entry.sha256) for entry in made]
    with tempfile.TemporaryDirectory(prefix="opd-states-") as folder:
        store = TeacherStore.open(
            files,
            Path(folder),
            method.caching,
            autocast=teacher_autocast(method.precision),
        )
        return train_distill(student, store, config.domains, method, streams(seed), ledger, observe)


def streams(seed: int) -> Streams:
    """The generators of a trial's distillation, one per purpose."""
    return Streams(
        prompts=stream(seed, "prompts"),
        noise=stream(seed, "rollouts"),
        demonstrations=stream(seed, "demonstrations"),
        scheduler=stream(seed, "scheduler"),
    )
