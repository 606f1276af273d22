"""Where are models kept that many cells share, so that each is trained once?"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness.models.tiny import TinyPolicy
from harness.teachers.files import file_digest
from harness.trial.config import content_digest

Facts = dict[str, float]
"""What is known of a shared model beside its weights: FLOPs, steps, measured gap."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A model with the file that holds it."""

    model: TinyPolicy
    path: Path
    sha256: str
    facts: Facts


def shared_model(
    root: Path,
    form: Any,
    blank: Callable[[], TinyPolicy],
    train: Callable[[TinyPolicy], Facts],
) -> Shared:
    """The model that `form` describes: read from `root`, or made by `train` out of `blank`.

    Content-addressed, so equal descriptions share a file and different ones never do. Whoever
    comes second waits for the first. Raises ValueError with the path where a file was changed or
    is missing.
    """
    root.mkdir(parents=True, exist_ok=True)
    name = content_digest(form)
    weights, description = root / f"{name}.safetensors", root / f"{name}.json"
    model = blank()
    with FileLock(root / f"{name}.lock"):
        if not description.exists():
            facts = train(model)
            partial = weights.with_suffix(".partial")
            model.save(partial)
            entry = {"facts": facts, "sha256": file_digest(partial), "form": form}
            os.replace(partial, weights)
            partial.write_text(json.dumps(entry, sort_keys=True, indent=1))
            os.replace(partial, description)
            return Shared(model=model, path=weights, sha256=entry["sha256"], facts=facts)
    entry = json.loads(description.read_text())
    if not weights.exists():
        raise ValueError(f"{weights}: missing; delete {description.name} to have it made again")
    if file_digest(weights) != entry["sha256"]:
        raise ValueError(f"{weights}: checksum differs from the one recorded beside it")
    model.load(weights)
    return Shared(model=model, path=weights, sha256=entry["sha256"], facts=entry["facts"])
