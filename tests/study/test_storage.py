import builtins
import socket
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from harness.study import storage
from harness.study.launch import run_study
from harness.study.queue import Queue
from harness.study.reindex import reindex
from harness.study.results import Results
from harness.study.storage import StorageLost, check_storage, open_storage, patiently, shown
from tests.study import toy


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Results(root=tmp_path)
    made.prepare()
    return made


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://db/opd", "--storage must be postgresql"),
        ("results/queue", "--storage must be postgresql"),
        ("grpc://host", "--storage must be grpc://HOST:PORT"),
        ("sqlite:///x.db", "SQLite serves one worker, got 2; give --workers 1"),
    ],
)
def test_an_address_that_will_not_do_is_refused(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_storage(url, 2)


def test_the_other_addresses_will_do() -> None:
    for url in (None, "postgresql://me@db/opd", "grpc://host:13000"):
        check_storage(url, 100)
    check_storage("sqlite:///x.db", 1)


@pytest.mark.parametrize("kind", ["postgresql://me:secret@localhost", "grpc://localhost"])
def test_a_server_that_is_not_there_is_one_line_without_a_password(
    results: Results, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("grpc")
    monkeypatch.setattr(storage, "CONNECT_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with pytest.raises(ValueError, match=r"cannot be reached: .*(refused|timeout)") as refused:
        open_storage(results, f"{kind}:{port}")
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("postgresql://db/opd", "psycopg", "postgres"), ("grpc://host:1", "grpc", "grpc")],
)
def test_a_driver_that_is_not_there_is_named(
    results: Results, url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=rf"needs a driver: pip install 'opd-bench\[{extra}\]'"):
        open_storage(results, url)


def test_a_password_is_not_shown() -> None:
    assert shown("postgresql://me:secret@db:5/opd") == "postgresql://me:***@db:5/opd"
    assert shown("grpc://host:13000") == "grpc://host:13000"


def test_a_server_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "RETRY_SECONDS", 0.0)
    answers: list[Exception | int] = [ConnectionError("one"), ConnectionError("two"), 3]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(ask, "db") == 3
    answers.append(ConnectionError("gone"))
    with pytest.raises(StorageLost, match="db: went away: gone"):
        patiently(ask, "db", seconds=0.0)


def test_one_worker_may_use_sqlite(results: Results) -> None:
    url, pool = f"sqlite:///{results.root}/queue.db", toy.Pool(results)
    pool.storage = url
    asked = toy.asked(seeds=1)
    assert run_study([asked], results, toy.Quiet(), pool=pool, workers=1, storage=url) == []
    done = Queue(results, url).trials()
    assert [trial.state for trial in done] == [TrialState.COMPLETE] * 2


@pytest.mark.parametrize("journal", [None, "my notes\nmore notes\n"])
def test_the_queue_is_made_again_from_the_runs(results: Results, journal: str | None) -> None:
    toy.study(results.root, toy.asked())
    digests = {trial.user_attrs["cell"] for trial in Queue(results).trials()}
    if journal is None:
        results.journal.unlink()
    else:
        results.journal.write_text(journal)
    assert reindex(results) == 6
    made = Queue(results).trials(TrialState.COMPLETE)
    assert {trial.user_attrs["cell"] for trial in made} == digests
    assert {trial.user_attrs["metrics"]["nats"] > 0 for trial in made} == {True}
    toy.study(results.root, toy.asked(seeds=4))
    assert len(toy.evaluations(results.cache)) == 8
