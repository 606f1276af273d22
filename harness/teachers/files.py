"""What is a teacher on disk, and how is only its body or only its head brought in?"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from harness.models.policy import Policy
from harness.models.tiny import Body, TinyPolicy, TinyShape

HEAD = "head"


@dataclass(frozen=True, kw_only=True)
class TeacherFile:
    """Weights that `TinyPolicy.save` wrote; what is read of them is freed when nobody holds it.

    `stamp` is the file's size and time of change when its checksum was compared: a file that
    changes later is refused when it is next asked for.
    """

    path: Path
    shape: TinyShape
    flop_parameters: int
    body_bytes: int
    head_bytes: int
    stamp: tuple[int, int]

    @classmethod
    def open(cls, path: Path, shape: TinyShape, sha256: str) -> "TeacherFile":
        """The file behind `path`; ValueError with the path where it is not what `sha256` says."""
        if not path.exists():
            raise ValueError(f"{path}: missing")
        stamp = _stamp(path)
        if file_digest(path) != sha256:
            raise ValueError(f"{path}: checksum differs from the one recorded when it was made")
        tensors = _mapped(path)
        sizes = {name: t.numel() * t.element_size() for name, t in tensors.items()}
        return cls(
            path=path,
            shape=shape,
            flop_parameters=TinyPolicy.of_tensors(shape, tensors).flop_parameters,
            body_bytes=sum(sizes.values()) - sizes[HEAD],
            head_bytes=sizes[HEAD],
            stamp=stamp,
        )

    def body(self) -> Body:
        """All but the head."""
        return Body.of_tensors(self.shape, self._read(lambda name: name != HEAD))

    def head(self) -> Float[Tensor, "vocab width"]:
        """The head alone."""
        return self._read(lambda name: name == HEAD)[HEAD]

    def policy(self) -> Policy:
        """The whole model, mapped into memory: the system pages in what is used of it."""
        self._check()
        return TinyPolicy.of_tensors(self.shape, _mapped(self.path))

    def _read(self, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
        self._check()
        # Through numpy it takes a third of the time, and this is done twice per teacher and update.
        with safe_open(self.path, framework="np") as file:
            names = [name for name in file.keys() if wanted(name)]  # noqa: SIM118
            return {name: torch.from_numpy(file.get_tensor(name)) for name in names}

    def _check(self) -> None:
        if not self.path.exists() or _stamp(self.path) != self.stamp:
            raise ValueError(f"{self.path}: changed or removed while it was in use")


def write_teachers(policies: Sequence[TinyPolicy], folder: Path) -> list[TeacherFile]:
    """Every policy as a file in `folder`, in order."""
    found = []
    for index, policy in enumerate(policies):
        path = folder / f"teacher-{index}.safetensors"
        policy.save(path)
        found.append(TeacherFile.open(path, policy.shape, file_digest(path)))
    return found


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _mapped(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
