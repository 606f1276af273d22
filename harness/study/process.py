"""Is the process that took a cell still alive?"""

import os
import subprocess
from pathlib import Path
from typing import TypedDict


class Owner(TypedDict):
    """A process, told from all others that have had or will have its number."""

    machine: str
    pid: int
    started: str


def this_process() -> Owner:
    """The owner that a claim by the running process names."""
    pid = os.getpid()
    return Owner(machine=_machine(), pid=pid, started=_started(pid) or "")


def is_alive(owner: Owner) -> bool | None:
    """Whether the process still runs; None where it is on a machine that cannot be looked at."""
    if owner["machine"] != _machine():
        return None
    return _started(owner["pid"]) == owner["started"]


def _machine() -> str:
    """Opaque, equal for processes that see each other's numbers: one boot, one name space."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "this"  # no /proc: a desktop system, where results folders are not shared


def _started(pid: int) -> str | None:
    """When the process started, in the system's own words; None where it is gone or a zombie."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return listed.stdout.strip() or None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may hold spaces and brackets
    return None if fields[0] == "Z" else fields[19]
