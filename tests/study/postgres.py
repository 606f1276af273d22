"""A PostgreSQL server for tests, on a socket of its own and with nothing on the network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def programs() -> Path | None:
    """Where the server's programs are; None where there are none, or none that could be used."""
    found = shutil.which("initdb")
    folder = Path(found).parent if found else BINARIES[-1] if BINARIES else None
    as_root = os.getuid() == 0  # initdb refuses root
    return None if as_root and shutil.which("runuser") is None else folder


@contextmanager
def server() -> Iterator[str]:
    """Start a server that forgets everything at the end; yields the address of a database."""
    folder = programs()
    assert folder
    prefix = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    root = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path must be short
    if prefix:
        shutil.chown(root, "postgres")

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [*prefix, str(folder / program), *arguments],
            check=True,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    data = str(root / "data")
    settings = (
        f"-k {root} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB "
        "-c max_connections=40 -c autovacuum=off"
    )
    try:
        call("initdb", "-D", data, "-U", "opd", "-A", "trust", "--no-sync")
        call("pg_ctl", "-D", data, "-w", "-o", settings, "-l", str(root / "log"), "start")
        try:
            yield f"postgresql://opd@/postgres?host={root}"
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(root)
