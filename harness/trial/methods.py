"""How is the student of a trial trained, method by method?"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from harness.domains.base import Domain, stream
from harness.models.tiny import TinyPolicy
from harness.teachers.files import TeacherFile, write_teachers
from harness.teachers.store import TeacherStore
from harness.training.budget import Ledger
from harness.training.config import Distill, Fuse, Keep, Sft
from harness.training.distill import Facts, train_distill
from harness.training.optimizer import Diverged
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
    begin: Callable[[], None],
    observe: Observe,
) -> Facts:
    """Train `student` in place; specialist i of `made` is the teacher of domain i.

    `begin` is called before the student's own first update: what was spent by then went into its
    teachers, or it starts as their average. Returns what is worth keeping beside the metrics.
    Raises Diverged.
    """
    if isinstance(method, Keep):
        if method.model == "average":
            student.load_state_dict(averaged([entry.model for entry in made]))
        begin()
        return {}
    if isinstance(method, Sft):
        begin()
        demonstrations = stream(seed, "demonstrations")
        train_sft(student, config.domains, method, demonstrations, ledger, observe)
        return {}
    files = [TeacherFile.open(entry.path, entry.model.shape, entry.sha256) for entry in made]
    with tempfile.TemporaryDirectory(prefix="opd-states-") as folder:
        stage = Stage(folder=Path(folder), ledger=ledger, seed=seed)
        if isinstance(method, Fuse):
            files = stage.fuse(student, files, config.domains, method)
            method = method.second
        begin()
        return stage.distill(student, files, config.domains, method, observe)


def averaged(models: Sequence[TinyPolicy]) -> dict[str, Tensor]:
    """The plain mean of every weight over the models."""
    states = [model.state_dict() for model in models]
    return {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the distillations of one trial share: scratch space, ledger and seed."""

    folder: Path
    ledger: Ledger
    seed: int

    def fuse(
        self,
        base: TinyPolicy,
        files: Sequence[TeacherFile],
        domains: Sequence[Domain],
        method: Fuse,
    ) -> list[TeacherFile]:
        """For every domain the file of its group's model, made from a copy of `base`."""
        fused = [base.copy() for _ in method.groups]
        for number, (group, model) in enumerate(zip(method.groups, fused, strict=True)):
            own = [files[i] for i in group], [domains[i] for i in group]
            purpose = f"/group {number}"
            try:
                self.distill(model, *own, method.first, lambda *_: False, purpose)
            except Diverged as diverged:
                raise Diverged(diverged.step, f"group {number}: {diverged.cause}") from None
        written = write_teachers(fused, self.folder)
        of_domain = {i: file for group, file in zip(method.groups, written, strict=True)
                     for i in group}  # fmt: skip
        return [of_domain[i] for i in range(len(domains))]

    def distill(
        self,
        student: TinyPolicy,
        files: Sequence[TeacherFile],
        domains: Sequence[Domain],
        method: Distill,
        observe: Observe,
        purpose: str = "",
    ) -> Facts:
        """One distillation; teacher i is that of domain i. `purpose` sets its streams apart."""
        store = TeacherStore.open(
            files, self.folder, method.caching, autocast=teacher_autocast(method.precision)
        )
        drawn = streams(self.seed, purpose)
        return train_distill(student, store, domains, method, drawn, self.ledger, observe)


def streams(seed: int, purpose: str = "") -> Streams:
    """The generators of a trial's distillation, one per purpose."""
    return Streams(
        prompts=stream(seed, f"prompts{purpose}"),
        noise=stream(seed, f"rollouts{purpose}"),
        demonstrations=stream(seed, f"demonstrations{purpose}"),
        scheduler=stream(seed, f"scheduler{purpose}"),
    )
