"""What does one update take: processor time, FLOPs, memory kept for the backward pass?"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.training.budget import Ledger


@dataclass(kw_only=True)
class Meter:
    """Counts updates, not what is measured between them.

    `seconds` are those of the processor, all threads: a neighbour's load does not count.
    """

    updates: int = 0
    seconds: float = 0.0
    flops: int = 0
    saved_bytes: int = 0
    _storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)

    @contextmanager
    def update(self, ledger: Ledger) -> Iterator[None]:
        """Around one update."""
        started, flops = time.process_time(), ledger.flops
        yield
        self.updates += 1
        self.seconds += time.process_time() - started
        self.flops += ledger.flops - flops

    @contextmanager
    def first_backward(self) -> Iterator[None]:
        """Around the passes of an update: of the first, count the bytes that autograd keeps.

        Weights are kept anyway and not counted; a storage that several operations share is, once.
        """
        if self.updates > 0:
            yield
            return
        with torch.autograd.graph.saved_tensors_hooks(self._seen, lambda tensor: tensor):
            yield
        self._storages.clear()

    def _seen(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        is_weight = tensor.is_leaf and tensor.requires_grad
        if not is_weight and storage.data_ptr() not in self._storages:
            # Held until the end: an address that is freed can be another storage's soon.
            self._storages[storage.data_ptr()] = storage
            self.saved_bytes += storage.nbytes()
        return tensor

    def facts(self) -> dict[str, float | None]:
        """For a record, per update."""
        updates = max(1, self.updates)
        return {
            "step_seconds": self.seconds / updates,
            "step_flops": self.flops / updates,
            "saved_bytes": self.saved_bytes,
        }
