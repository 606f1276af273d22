"""Where does everything of a study lie, and can it be written to?"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout


@dataclass(frozen=True, kw_only=True)
class Results:
    """A results folder: `runs/` holds every number, all else can be made again from it."""

    root: Path

    @property
    def runs(self) -> Path:
        """One JSONL file per ablation, and `explore.jsonl` of the tuning."""
        return self.root / "runs"

    @property
    def plans(self) -> Path:
        """What was last asked for, per ablation: which digest stands for which arm and seed."""
        return self.root / "plans"

    @property
    def cache(self) -> Path:
        """Base models and specialists that cells share."""
        return self.root / "cache"

    @property
    def jobs(self) -> Path:
        """What cluster jobs wrote."""
        return self.root / "jobs"

    def known_identity(self) -> str | None:
        """What `identity` gave when a planner ran here with a queue elsewhere; None before."""
        path = self.root / "queue.id"
        return path.read_text().strip() if path.exists() else None

    def identity(self) -> str:
        """Tells this folder from all others, wherever it is seen from; a copy keeps it."""
        found = self.known_identity()
        if found is None:
            found = uuid.uuid4().hex
            write_whole(self.root / "queue.id", found + "\n")
        return found

    @property
    def journal(self) -> Path:
        """Optuna's journal: the queue."""
        return self.root / "queue.journal"

    def lock(self, name: str) -> FileLock:
        """The kernel's lock of that name: it is let go when its holder dies, however it dies."""
        return FileLock(self.root / ".locks" / f"{name}.lock", poll_interval=0.01)

    def prepare(self) -> None:
        """Make the folders and write a block; raises OSError where that cannot be done."""
        for folder in (self.runs, self.plans, self.cache, self.root / ".locks"):
            folder.mkdir(parents=True, exist_ok=True)
        probe = self.root / ".locks" / f"probe-{os.getpid()}"
        try:
            with probe.open("wb") as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)

    @contextmanager
    def sole_planner(self, waiting: Callable[[], None]) -> Iterator[None]:
        """One planner at a time; calls `waiting` once where another has to end first."""
        lock = self.lock("planner")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def whole_lines(path: Path) -> int:
    """Bytes up to the end of the last line that was written whole."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0
