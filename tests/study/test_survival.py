import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from optuna.trial import TrialState

from harness.study.launch import run_study
from harness.study.process import Owner, is_alive
from harness.study.queue import Queue
from harness.study.request import Request
from harness.study.results import Results
from harness.trial.record import read_records
from tests.study import toy


def wanted() -> Request:
    return toy.asked(toy.ablation((1, 2, 3, 4), milliseconds=80), seeds=5)


def plan(root: Path) -> None:
    """A planner with two workers of its own, to be killed or stopped."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
    results = Results(root=root)
    pool = toy.Pool(results, nested=True)
    try:
        run_study([wanted()], results, toy.Quiet(), pool=pool, workers=2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def planner(root: Path) -> Iterator[BaseProcess]:
    process = toy.FORKSERVER.Process(target=plan, args=(root,))
    process.start()
    yield process
    process.kill()
    process.join()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that must come; the limit only keeps a broken run from hanging."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def assert_every_cell_once(root: Path, cells: int) -> None:
    records = read_records(root / "runs" / "toy.jsonl")
    assert len(records) == len({(r.world, r.arm, r.seed, r.digest) for r in records}) == cells
    queue = Queue(Results(root=root))
    assert queue.trials(TrialState.RUNNING, TrialState.WAITING) == []


def recorded(root: Path) -> int:
    path = root / "runs" / "toy.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def running(root: Path) -> list[Owner]:
    trials = Queue(Results(root=root)).trials(TrialState.RUNNING)
    return [trial.user_attrs["owner"] for trial in trials if "owner" in trial.user_attrs]


def test_planner_and_workers_killed_at_once_then_started_again(tmp_path: Path) -> None:
    with planner(tmp_path) as first:
        until(lambda: recorded(tmp_path) >= 4)
        first.kill()
        for owner in running(tmp_path):
            os.kill(owner["pid"], signal.SIGKILL)
    assert recorded(tmp_path) < 20
    assert toy.study(tmp_path, wanted()) == []
    assert_every_cell_once(tmp_path, 20)


def test_workers_end_with_their_planner(tmp_path: Path) -> None:
    with planner(tmp_path) as first:
        until(lambda: len(running(tmp_path)) == 2)
        owners = running(tmp_path)
        first.kill()
        until(lambda: not any(is_alive(owner) for owner in owners))
    assert recorded(tmp_path) < 20
    assert toy.study(tmp_path, wanted()) == []
    assert_every_cell_once(tmp_path, 20)


def test_a_stopped_study_gives_its_cells_back_and_goes_on(tmp_path: Path) -> None:
    with planner(tmp_path) as first:
        until(lambda: recorded(tmp_path) >= 2)
        assert first.pid
        os.kill(first.pid, signal.SIGINT)
        first.join()
        assert first.exitcode == 130
    assert running(tmp_path) == []
    assert toy.study(tmp_path, wanted()) == []
    assert_every_cell_once(tmp_path, 20)


class KillingPool(toy.Pool):
    """Kills one of its workers at every second look, wherever it is."""

    def __init__(self, results: Results, kills: int) -> None:
        super().__init__(results)
        self.kills, self.looks, self.chance = kills, 0, random.Random(0)

    def keep(self, count: int) -> None:
        super().keep(count)
        self.looks += 1
        if self.kills and self.looks % 2 == 0 and self.workers:
            self.kills -= 1
            self.chance.choice(self.workers).kill()


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    asked = toy.asked(toy.ablation((1, 2, 3, 4, 5, 6), milliseconds=100), seeds=10)
    pool = KillingPool(results, kills=15)
    assert run_study([asked], results, toy.Quiet(), pool=pool, workers=4) == []
    assert pool.kills < 10
    assert_every_cell_once(tmp_path, 60)


class PausingPool(toy.Pool):
    """Stops a worker for a while, and lets it go on."""

    paused = 0

    def keep(self, count: int) -> None:
        super().keep(count)
        self.paused += 1
        if self.workers and self.workers[0].pid and self.paused in (5, 25):
            number = signal.SIGSTOP if self.paused == 5 else signal.SIGCONT
            os.kill(self.workers[0].pid, number)

    def __exit__(self, *exception: object) -> None:
        for worker in self.workers:
            os.kill(worker.pid or 0, signal.SIGCONT)
        super().__exit__(*exception)


def test_a_paused_worker_holds_up_only_its_own_cell(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    asked = toy.asked(toy.ablation((1, 2), milliseconds=20), seeds=5)
    assert run_study([asked], results, toy.Quiet(), pool=PausingPool(results), workers=2) == []
    assert_every_cell_once(tmp_path, 10)


def test_two_planners_at_once_queue_nothing_twice(tmp_path: Path) -> None:
    with planner(tmp_path) as one, planner(tmp_path) as two:
        one.join()
        two.join()
    assert (one.exitcode, two.exitcode) == (0, 0)
    assert len(toy.evaluations(tmp_path / "cache")) == 20
    assert_every_cell_once(tmp_path, 20)
