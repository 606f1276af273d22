"""Small worlds and models that the tests of training and trials share."""

import atexit
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from harness.domains import Markov
from harness.models.tiny import TinyPolicy, TinyShape
from harness.teachers.files import write_teachers
from harness.teachers.store import Caching, TeacherStore
from harness.training.config import Distill, Optimization
from harness.training.rollouts import Streams

DOMAINS = (
    Markov(name="a", source_seed=1, states=7, concentration=1.0, tag=0, sequence_tokens=9),
    Markov(name="b", source_seed=2, states=7, concentration=1.0, tag=1, sequence_tokens=9),
)
FOLDER = tempfile.TemporaryDirectory(prefix="teachers-")
atexit.register(FOLDER.cleanup)
RATE = Optimization(learning_rate=3e-3, warmup_steps=2)


def policy(seed: int, width: int = 8) -> TinyPolicy:
    """An untrained model of the world's sizes, sharp enough that teachers differ."""
    model = TinyPolicy(
        TinyShape(width=width, layers=1, heads=2),
        vocabulary_size=DOMAINS[0].vocabulary_size,
        sequence_tokens=9,
        generator=torch.Generator().manual_seed(seed),
    )
    with torch.no_grad():
        model.head.mul_(4)
    return model


def streams(seed: int = 0) -> Streams:
    """Generators that start where another call's with the same seed start."""
    first, second, third, fourth = (torch.Generator().manual_seed(seed + i) for i in range(4))
    return Streams(prompts=first, noise=second, demonstrations=third, scheduler=fourth)


def distill(steps: int = 3, **changes: object) -> Distill:
    """A short distillation."""
    return Distill(steps=steps, batch_sequences=8, optimization=RATE, **changes)  # type: ignore[arg-type]


def stored(policies: Sequence[TinyPolicy], **caching: object) -> TeacherStore:
    """A store of copies of the policies, in files of their own."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    files = write_teachers(policies, folder)
    return TeacherStore.open(files, folder, Caching(**caching))  # type: ignore[arg-type]
