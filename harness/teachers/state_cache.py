"""Where do a step's hidden states wait until their teacher's head comes round?"""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

CacheDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What must be known to read a file back."""

    shape: torch.Size
    dtype: torch.dtype
    checksum: int
    bytes: int


@dataclass(kw_only=True)
class StateCache:
    """Named tensors in files of `folder`, rounded to `dtype`, each with its CRC-32.

    A name that is written again takes the place of what was there, so that the folder never holds
    more than one step. The checksums stay here: whoever changes a file cannot change them too.
    """

    folder: Path
    dtype: CacheDtype
    bytes_written: int = 0
    bytes_read: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)

    def put(self, name: str, values: Tensor, dtype: CacheDtype | None = None) -> None:
        """Keep `values`, rounded to `dtype` if given; they come back as float32."""
        kept = values.detach().to(getattr(torch, dtype or self.dtype)).contiguous()
        data = kept.view(torch.uint8).numpy().tobytes()
        self._write(name, data)
        self.entries[name] = Entry(
            shape=kept.shape, dtype=kept.dtype, checksum=zlib.crc32(data), bytes=len(data)
        )
        self.bytes_written += len(data)

    def _write(self, name: str, data: bytes) -> None:
        """Over what was there: emptying a file first takes thirty times as long as writing it."""
        path = self._path(name)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(data)
            file.truncate()

    def get(self, name: str) -> Tensor:
        """What `put` kept under `name`, as float32; ValueError with the path where it is not."""
        path, entry = self._path(name), self.entries[name]
        if not path.exists() or path.stat().st_size != entry.bytes:
            raise ValueError(f"{path}: cached states are missing or cut short")
        data = bytearray(path.read_bytes())
        if zlib.crc32(data) != entry.checksum:
            raise ValueError(f"{path}: checksum of the cached states differs from what was written")
        self.bytes_read += entry.bytes
        if not data:
            return torch.zeros(entry.shape)
        return torch.frombuffer(data, dtype=entry.dtype).view(entry.shape).float()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.states"
