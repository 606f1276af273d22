"""How does Optuna's journal survive a writer that is killed?"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from optuna.storages.journal import JournalFileBackend

from harness.study.results import whole_lines


class RepairingJournal(JournalFileBackend):
    """Optuna's journal file under a lock that the kernel releases, repaired before every write.

    Optuna's own locks outlive a killed holder by 30 seconds, and a half-written line would be
    joined to the next one, after which no process can read the journal.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        super().__init__(str(path))
        self._path, self._flock = path, lock
        self._held_back: list[dict[str, Any]] | None = None

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append whole lines and flush them to disk."""
        if self._held_back is not None:
            self._held_back += logs
            return
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self._flock, self._path.open("r+b") as file:
            file.truncate(whole_lines(self._path))
            file.seek(0, os.SEEK_END)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write everything of the block at its end, at once: for entries nothing reads before."""
        self._held_back = []
        try:
            yield
            logs = self._held_back
        finally:
            self._held_back = None
        if logs:
            self.append_logs(logs)
