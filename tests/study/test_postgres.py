import os
import random
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from optuna.storages import RDBStorage, get_storage
from optuna.storages._grpc.server import make_server
from optuna.trial import TrialState

from harness.study import lease, process
from harness.study.launch import run_study
from harness.study.process import this_process
from harness.study.queue import Queue
from harness.study.reindex import reindex
from harness.study.results import Results
from harness.study.status import status
from harness.study.worker import run_worker
from harness.trial.record import read_records
from tests.study import postgres, toy

pytest.importorskip("psycopg")
if postgres.programs() is None:
    pytest.skip("no PostgreSQL programs on this machine", allow_module_level=True)


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    with postgres.server() as address:
        yield address


@pytest.fixture
def url(running: str, tmp_path: Path) -> Iterator[str]:
    """The address, with an empty queue."""
    yield running
    results = Results(root=tmp_path / "used")
    results.prepare()
    Queue(results, running).drop()


def elsewhere(arguments: tuple[object, ...], beat_seconds: float) -> None:
    """A worker on what looks like another machine, forked: nothing it sees can be looked at."""
    process._machine = lambda: "elsewhere"
    lease.BEAT_SECONDS = beat_seconds
    run_worker(*arguments)  # type: ignore[arg-type]


class Joined(toy.Pool):
    """Workers of another host: they have a folder of their own, and end by themselves."""

    beat_seconds = 0.2

    def __init__(self, results: Results, storage: str, own: Path) -> None:
        super().__init__(results, storage)
        self.own = own
        Results(root=own).prepare()

    def _start(self):  # type: ignore[no-untyped-def]
        arguments = (self.own, toy.RUNNER, None, self.storage, 60.0)
        started = self.context.Process(  # type: ignore[attr-defined]
            target=elsewhere, args=(arguments, self.beat_seconds)
        )
        started.start()
        return started


class Killing(Joined):
    """Kills one of its workers at every second look, wherever it is."""

    kills = 30

    def keep(self, count: int) -> None:
        super().keep(count)
        self.looks = getattr(self, "looks", 0) + 1
        if self.kills and self.looks % 2 == 0 and self.workers:
            self.kills -= 1
            random.Random(self.kills).choice(self.workers).kill()


def assert_every_cell_once(root: Path, url: str, cells: int) -> None:
    records = read_records(root / "runs" / "toy.jsonl")
    assert len(records) == len({(r.world, r.arm, r.seed, r.digest) for r in records}) == cells
    queue = Queue(Results(root=root), url)
    assert queue.trials(TrialState.RUNNING, TrialState.WAITING) == []


def test_workers_who_see_the_folder_write_to_it(tmp_path: Path, url: str) -> None:
    results = Results(root=tmp_path)
    pool = toy.Pool(results, url)
    asked = toy.asked(seeds=4)
    assert run_study([asked], results, toy.Quiet(), pool=pool, workers=2, storage=url) == []
    assert_every_cell_once(tmp_path, url, 8)
    assert not any("record" in t.user_attrs for t in Queue(results, url).trials())
    assert not results.journal.exists()


def test_thirty_random_kills_of_workers_elsewhere_lose_and_double_nothing(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2.0)
    root, own = tmp_path / "planner", tmp_path / "worker"
    results = Results(root=root)
    pool = Killing(results, url, own)
    asked = toy.asked(toy.ablation(range(1, 11), milliseconds=300), seeds=10)
    assert run_study([asked], results, toy.Quiet(), pool=pool, workers=4, storage=url) == []
    assert pool.kills == 0
    assert_every_cell_once(root, url, 100)
    assert list((own / "runs").iterdir()) == []  # all records came through the database
    assert toy.evaluations(root / "cache") == []


class Pausing(Joined):
    """Stops its first worker amid a cell, until another has run that cell; then lets it go on."""

    paused = 0
    number: int | None = None

    def keep(self, count: int) -> None:
        super().keep(count)
        queue = Queue(self.results, self.storage)
        first = self.workers[0] if self.workers else None
        if self.paused == 0 and first:
            for trial in queue.trials(TrialState.RUNNING):
                if trial.user_attrs.get("owner", {}).get("pid") == first.pid:
                    os.kill(first.pid or 0, signal.SIGSTOP)
                    self.paused, self.number = first.pid or 0, trial.number
                    return
        if self.number is not None and self._is_given_back(queue):
            os.kill(self.paused, signal.SIGCONT)
            self.number = None

    def _is_given_back(self, queue: Queue) -> bool:
        return queue.trials()[self.number or 0].state == TrialState.FAIL


def test_a_worker_paused_past_its_lease_wakes_up_without_harm(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 1.0)
    root, own = tmp_path / "planner", tmp_path / "worker"
    results = Results(root=root)
    pool = Pausing(results, url, own)
    asked = toy.asked(toy.ablation((1, 2), milliseconds=600), seeds=5)
    assert run_study([asked], results, toy.Quiet(), pool=pool, workers=2, storage=url) == []
    assert pool.paused
    assert pool.number is None
    assert_every_cell_once(root, url, 10)
    assert all(worker.exitcode == 0 for worker in pool.workers)
    assert Counter(t.state for t in Queue(results, url).trials())[TrialState.COMPLETE] == 10


def test_a_queue_of_another_results_folder_is_refused(tmp_path: Path, url: str) -> None:
    toys = [Results(root=tmp_path / name) for name in ("one", "two")]
    for results in toys:
        results.prepare()
    Queue(toys[0], url).begin()
    Queue(toys[0], url).begin()
    with pytest.raises(ValueError, match="is another plan's, that of a results folder other than"):
        Queue(toys[1], url).begin()


def test_status_names_workers_and_reindex_needs_them_gone(tmp_path: Path, url: str) -> None:
    results = Results(root=tmp_path)
    pool = toy.Pool(results, url)
    run_study([toy.asked()], results, toy.Quiet(), pool=pool, workers=1, storage=url)
    queue = Queue(results, url)
    queue.enqueue(toy_cell(results))
    claim = queue.claim(this_process())
    assert claim
    found = status(results, url)
    (worker,) = found["queue"]["workers"]
    assert (worker["pid"], worker["alive"]) == (os.getpid(), True)
    assert worker["cell"]["arm"] == "arm 7"
    assert worker["seconds_since_beat"] >= 0
    with pytest.raises(ValueError, match="a worker is at work"):
        reindex(results, url)
    queue.fail(claim.number, "released", "")
    assert reindex(results, url) == 6
    assert [t.state for t in Queue(results, url).trials()] == [TrialState.COMPLETE] * 6


def toy_cell(results: Results):  # type: ignore[no-untyped-def]
    from harness.study.runs import Runs
    from harness.study.schedule import Schedule

    return Schedule(toy.asked(toy.ablation((7, 8))), Runs(results)).wanted()[:1]


def test_optunas_proxy_in_front_of_it_serves_as_well(tmp_path: Path, url: str) -> None:
    pytest.importorskip("grpc")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    behind = RDBStorage(url.replace("postgresql", "postgresql+psycopg"))
    proxy = make_server(get_storage(behind), "localhost", port, ThreadPoolExecutor(max_workers=4))
    proxy.start()
    try:
        address, results = f"grpc://localhost:{port}", Results(root=tmp_path)
        results.prepare()
        planner, worker = Queue(results, address), Queue(results, address)
        planner.begin()
        planner.enqueue(toy_cell(results))
        claim = worker.claim(this_process())
        assert claim
        worker.deliver(claim.number, "{}")
        worker.finish(claim.number, 1.0)
        worker.finish(claim.number, 1.0)
        worker.fail(claim.number, "raised", "too late")
        assert [t.state for t in planner.trials()] == [TrialState.COMPLETE]
    finally:
        proxy.stop(None).wait()
        behind.engine.dispose()
