"""Where does the queue live, and what is said where that cannot be reached?"""

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage, get_storage

from harness.study.journal import RepairingJournal
from harness.study.results import Results

T = TypeVar("T")
CONNECT_SECONDS = 5
IDLE_TRANSACTION_MILLISECONDS = 10_000
PATIENCE_SECONDS = 300.0
RETRY_SECONDS = 2.0
JOURNAL_POLL_SECONDS, SERVER_POLL_SECONDS = 0.05, 0.5
EXTRAS = {"postgresql": "postgres", "grpc": "grpc"}
ALLOWED = "postgresql://…, grpc://HOST:PORT or sqlite:///FILE"


class StorageLost(Exception):
    """The server was away for longer than anybody waits: the text says which and why."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A storage, its name without a password, and how often it may be asked."""

    storage: BaseStorage
    where: str
    poll_seconds: float = SERVER_POLL_SECONDS
    batch: Callable[[], AbstractContextManager[None]] = nullcontext
    close: Callable[[], object] = nullcontext


def check_storage(url: str | None, workers: int) -> None:
    """Raises ValueError for an address that no queue can live at, or not with so many workers."""
    if url is None:
        return
    kind = _kind(url)
    if kind not in (*EXTRAS, "sqlite"):
        raise ValueError(f"--storage must be {ALLOWED}, got {url!r}")
    if kind == "grpc" and not _port(url):
        raise ValueError(f"--storage must be grpc://HOST:PORT, got {url!r}")
    if kind == "sqlite" and workers > 1:
        raise ValueError(
            f"{url}: SQLite serves one worker, got {workers}; give --workers 1, or leave --storage "
            "out (a journal file: many workers), or use postgresql:// (many machines)"
        )


def open_storage(results: Results, url: str | None) -> Opened:
    """The journal in the results folder, or what stands at `url`.

    Raises ValueError where it cannot be read, reached, or lacks its driver.
    """
    if url is None:
        journal = RepairingJournal(results.journal, results.lock("journal"))
        try:
            storage = JournalStorage(journal)
        except (ValueError, KeyError, AssertionError) as error:
            raise ValueError(f"{results.journal}: not an Optuna journal: {error}") from None
        return Opened(
            storage=storage,
            where=str(results.journal),
            poll_seconds=JOURNAL_POLL_SECONDS,
            batch=journal.batch,
        )
    check_storage(url, 1)
    where = shown(url)
    try:
        return _grpc(url, where) if _kind(url) == "grpc" else _rdb(url, where)
    except ImportError:
        extra = EXTRAS[_kind(url)]
        raise ValueError(f"{where}: needs a driver: pip install 'opd-bench[{extra}]'") from None
    except losses() as error:
        raise ValueError(f"{where}: cannot be reached: {_first_line(error)}") from None


def shown(url: str) -> str:
    """The address as it may be printed: without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":***@", 1)


def losses() -> tuple[type[Exception], ...]:
    """What is raised where a server does not answer."""
    from sqlalchemy.exc import DBAPIError  # here: a journal needs no database library

    grpc = sys.modules.get("grpc")
    more = () if grpc is None else (grpc.RpcError,)
    return (ConnectionError, StorageInternalError, DBAPIError, *more)


def patiently(call: Callable[[], T], where: str, seconds: float | None = None) -> T:
    """The result of `call`, tried again while the server is away; raises StorageLost in the end.

    `call` may be made twice where the server did its part and the answer was lost.
    """
    end = time.monotonic() + (PATIENCE_SECONDS if seconds is None else seconds)
    while True:
        try:
            return call()
        except losses() as error:
            if time.monotonic() >= end:
                raise StorageLost(f"{where}: went away: {_first_line(error)}") from error
        time.sleep(RETRY_SECONDS)


def _rdb(url: str, where: str) -> Opened:
    """PostgreSQL or SQLite. Tables that another process makes at the same moment are no error."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    try:
        made = _backend(url)
    except (IntegrityError, ProgrammingError):
        made = _backend(url)
    return Opened(storage=get_storage(made), where=where, close=made.engine.dispose)


def _backend(url: str) -> RDBStorage:
    if _kind(url) == "sqlite":
        return RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60}})
    # A worker that is stopped amid a transaction would hold its locks as long as it sleeps.
    options = f"-c idle_in_transaction_session_timeout={IDLE_TRANSACTION_MILLISECONDS}"
    connect = {"connect_timeout": CONNECT_SECONDS, "options": options}
    address = url.partition("://")[2]
    return RDBStorage(
        f"postgresql+psycopg://{address}",
        engine_kwargs={"pool_pre_ping": True, "connect_args": connect},
    )


def _grpc(url: str, where: str) -> Opened:
    import grpc  # noqa: F401 - Optuna would only say so at its first call

    parts = urlsplit(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        proxy = GrpcStorageProxy(host=str(parts.hostname), port=int(_port(url) or 0))
    proxy.wait_server_ready(timeout=CONNECT_SECONDS)
    return Opened(storage=proxy, where=where, close=proxy.close)


def _kind(url: str) -> str:
    """`postgresql` of `postgresql+psycopg://…`."""
    return url.partition("://")[0].partition("+")[0] if "://" in url else ""


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _first_line(error: Exception) -> str:
    """What went wrong underneath, in one line: the libraries append advice and links."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    text = str(getattr(cause, "orig", None) or cause).strip() or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
