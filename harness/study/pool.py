"""How are workers on this machine started, replaced when killed, and ended?"""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import IO

from harness.study.results import Results
from harness.study.worker import UNUSABLE

CRASH_LIMIT = 3
KILL_LIMIT = 30
GRACE_SECONDS = 20.0
FREED_MEMORY_IS_KEPT = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
}
"""For glibc, which otherwise gives every activation back to the system: a tenth of a cell's time
went into pages taken anew."""


class WorkersFailed(Exception):
    """No worker stays alive: the text says what the last one wrote before it ended."""


class FolderUnusable(Exception):
    """A worker could not write to the results folder: the text says why."""


@dataclass(kw_only=True)
class LocalPool:
    """Worker processes of one planner, in sessions of their own: Ctrl-C reaches the planner only.

    Leaving the `with` block asks them to stop, waits, and kills who does not.
    """

    results: Results
    runner: str
    storage: str | None = None
    _workers: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = field(default_factory=list)
    _crashes: int = 0
    _kills: int = 0

    def keep(self, count: int) -> None:
        """Look after the workers: as many as `count` are to be alive.

        Raises WorkersFailed where they end by themselves again and again, FolderUnusable where
        one found that the results folder cannot be written to.
        """
        for worker in [w for w in self._workers if w[0].poll() is not None]:
            self._workers.remove(worker)
            self._count(worker[0].returncode, _tail(worker[1]))
        while len(self._workers) < count:
            self._start()

    def progressed(self) -> None:
        """A cell was finished: whoever was killed before was not killed by the start."""
        self._kills = 0

    def _count(self, code: int, words: str) -> None:
        if code == UNUSABLE:
            raise FolderUnusable(words)
        self._crashes += code > 0
        self._kills += code < 0
        if self._crashes >= CRASH_LIMIT or self._kills >= KILL_LIMIT:
            raise WorkersFailed(f"workers keep ending (code {code}): {words or 'without a word'}")

    def _start(self) -> None:
        words = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives
        command = [sys.executable, "-m", "harness.study.worker"]
        arguments = [str(self.results.root), self.runner, str(os.getpid())]
        if self.storage is not None:
            arguments.append(self.storage)
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            **FREED_MEMORY_IS_KEPT,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        process = subprocess.Popen(
            [*command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )
        self._workers.append((process, words))

    def __enter__(self) -> "LocalPool":
        return self

    def __exit__(self, *exception: object) -> None:
        for process, _ in self._workers:
            process.send_signal(signal.SIGTERM)
        try:
            for process, _ in self._workers:
                process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for process, words in self._workers:
                process.kill()
                process.wait()
                words.close()


def _tail(words: IO[bytes]) -> str:
    """The last lines a worker wrote."""
    words.seek(0)
    text = words.read().decode(errors="replace")
    words.close()
    return "\n".join(text.strip().splitlines()[-15:])
