"""Where was a record made: which code, which packages, which processor?"""

import hashlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("numpy", "scipy", "optuna")
SOURCE = Path(__file__).resolve().parents[1]
CODE = (":(top)*.py", ":(top)*.cpp", ":(top)*.toml", ":(top)constraints.txt")


def environment() -> dict[str, Any]:
    """Plain JSON that can be published: no host names, no paths.

    `commit` is "unknown" outside of a checkout; `dirty` is a hash of what differs from the commit,
    None where nothing does.
    """
    return {
        "commit": _commit() or "unknown",
        "dirty": _dirty(),
        "torch": torch.__version__,
        "packages": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def _git(*arguments: str) -> bytes | None:
    """What git prints in the source folder; None without git or outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(SOURCE), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def _commit() -> str | None:
    """The commit checked out, if this very file is in it (not merely below somebody's checkout)."""
    if _git("ls-files", "--error-unmatch", str(Path(__file__).resolve())) is None:
        return None
    head = _git("rev-parse", "HEAD")
    return head.decode().strip() if head else None


def _dirty() -> str | None:
    """Sixteen hex digits over every difference in code, new files included."""
    if _commit() is None:
        return None
    difference = _git("diff", "HEAD", "--binary", "--", *CODE) or b""
    untracked = _git("ls-files", "--others", "--exclude-standard", "-z", "--", *CODE) or b""
    names = sorted(name.decode() for name in untracked.split(b"\0") if name)
    for name in names:
        difference += name.encode() + b"\0" + (SOURCE / name).read_bytes()
    return hashlib.sha256(difference).hexdigest()[:16] if difference else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    """The processor's own name; the architecture where the system does not tell."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()
