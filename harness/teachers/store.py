"""How do many teachers score one batch with one body and one head in memory at a time?

DeepSeek-V4 (arXiv 2606.19348, 5.2.2): weights offloaded, last-layer hidden states cached, logits
rebuilt through the head when the loss is taken, samples ordered by teacher so that each head is
loaded once per step.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.models.policy import Policy
from harness.teachers.files import TeacherFile
from harness.teachers.state_cache import CacheDtype, StateCache
from harness.teachers.visits import Visit, visits
from opd_kernels import Teacher, linear_log_normalizer


@dataclass(frozen=True, kw_only=True)
class Caching:
    """What waits between scoring and the loss, and in which order the heads are asked for.

    `content`: `hidden` states; `logits`, which need no head any more but are as wide as the
    vocabulary; or `nothing`, and the body runs again. Unsorted, rollouts come as a stream of mixed
    domains would bring them, and the head changes with every other rollout. `prefetch` reads the
    next head while one is in use, so that two are resident.
    """

    content: Literal["hidden", "logits", "nothing"] = "hidden"
    dtype: CacheDtype = "float32"
    sort_by_teacher: bool = True
    prefetch: bool = False


@dataclass(kw_only=True)
class Counters:
    """What the training asked of a store; bytes of teacher weights, apart from the cache's own."""

    body_loads: int = 0
    head_loads: int = 0
    weight_bytes_read: int = 0
    resident_heads: int = 0
    peak_resident_heads: int = 0
    resident_bytes: int = 0
    peak_bytes: int = 0

    def hold(self, size: int, *, heads: int = 0) -> None:
        """Weights or states of `size` bytes came into memory (or left it, where negative)."""
        self.resident_bytes += size
        self.resident_heads += heads
        self.peak_bytes = max(self.peak_bytes, self.resident_bytes)
        self.peak_resident_heads = max(self.peak_resident_heads, self.resident_heads)


@dataclass(kw_only=True)
class TeacherStore:
    """Teachers in files, their states of the current batch in a cache; nothing else is kept.

    `autocast` runs the bodies in bfloat16 where PyTorch's autocast does.
    """

    files: Sequence[TeacherFile]
    cache: StateCache
    caching: Caching
    autocast: bool = False
    counters: Counters = field(default_factory=Counters)
    _scored: dict[int, Tensor] = field(default_factory=dict)
    _normalized: set[int] = field(default_factory=set)
    _batch: tuple[Tensor, Tensor] | None = None
    _coming: tuple[int, Future[Tensor]] | None = None
    _reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    @classmethod
    def open(
        cls,
        files: Sequence[TeacherFile],
        folder: Path,
        caching: Caching = Caching(),  # frozen
        *,
        autocast: bool = False,
    ) -> "TeacherStore":
        """A store whose cache lives in `folder`, which should be fast and may be lost."""
        cache = StateCache(folder=folder, dtype=caching.dtype)
        return cls(files=files, cache=cache, caching=caching, autocast=autocast)

    def __len__(self) -> int:
        return len(self.files)

    def policies(self) -> list[Policy]:
        """All teachers, mapped: for measuring, which nothing here counts."""
        return [file.policy() for file in self.files]

    def begin(
        self, inputs: Int[Tensor, "rollouts time"], counted: Bool[Tensor, "rollouts time"]
    ) -> None:
        """Take the next batch, and forget the states of the last one."""
        self._batch = inputs, counted
        self._scored.clear()
        self._normalized.clear()

    def score(self, teacher: int, rows: Int[Tensor, " rows"]) -> None:
        """Run a teacher's body on those rollouts of the batch, ascending; keep what it says."""
        self._scored[teacher] = rows
        if self.caching.content == "nothing":
            return
        states = self._states(teacher, rows)
        if self.caching.content == "logits":
            with self._head(teacher) as head:
                states = states @ head.T
        self.cache.put(f"{teacher}", states)

    def log_likelihood(
        self, teacher: int, tokens: Int[Tensor, "rollouts time"], temperature: float
    ) -> Float[Tensor, " rollouts"]:
        """Summed log-probability (nats) of the counted `tokens` of every rollout scored.

        Its log-normalizers stay in the cache: the loss need not sum over the vocabulary again.
        """
        rows = self._scored[teacher]
        counted = self._counted(rows)
        with self.operands(teacher, rows) as operand:
            normalizer = linear_log_normalizer(
                operand.hidden, operand.head, temperature=temperature
            )
            drawn = operand.head[tokens[rows][counted]]
            values = (operand.hidden * drawn).sum(dim=-1) / temperature - normalizer
        if temperature == 1.0 and self.caching.content != "nothing":
            self.cache.put(f"{teacher}.normalizer", normalizer, dtype="float32")
            self._normalized.add(teacher)
        return torch.zeros(counted.shape).masked_scatter(counted, values).sum(dim=1)

    def visits(self, weights: Float[Tensor, "rollouts teachers"]) -> Iterator[Visit]:
        """Whose turn it is, in the order in which heads are loaded."""
        return visits(weights, sort_by_teacher=self.caching.sort_by_teacher)

    @contextmanager
    def operands(
        self, teacher: int, rows: Int[Tensor, " rows"], following: int | None = None
    ) -> Iterator[Teacher]:
        """States and head of some of the rollouts scored, as `linear_divergence` takes them.

        States are those of the counted tokens, in row order. Nothing of it may be kept: it is
        released at the end. `following` is whose head a store that prefetches reads meanwhile.
        """
        chosen = self._tokens_of(teacher, rows)
        if self.caching.content == "nothing":
            states = self._states(teacher, rows)
        else:
            states = self.cache.get(f"{teacher}")[chosen]
        normalizer = None
        if teacher in self._normalized:
            normalizer = self.cache.get(f"{teacher}.normalizer")[chosen]
        size = states.numel() * states.element_size()
        self.counters.hold(size)
        if self.caching.content == "logits":
            # An identity for a head: one product too many, and the same code for all.
            yield Teacher(states, torch.eye(states.shape[1]), log_normalizer=normalizer)
        else:
            with self._head(teacher, following) as head:
                yield Teacher(states, head, log_normalizer=normalizer)
        self.counters.hold(-size)

    def _tokens_of(self, teacher: int, rows: Tensor) -> Tensor:
        """Which of the tokens kept for a teacher are those of `rows`."""
        scored = self._scored[teacher]
        wanted = torch.isin(scored, rows)
        return wanted[:, None].expand(-1, self._counted(scored).shape[1])[self._counted(scored)]

    def _counted(self, rows: Tensor) -> Tensor:
        assert self._batch is not None
        return self._batch[1][rows]

    def _states(self, teacher: int, rows: Tensor) -> Float[Tensor, "tokens width"]:
        """What the body says at the counted tokens of `rows`."""
        assert self._batch is not None
        inputs, counted = self._batch
        file = self.files[teacher]
        self.counters.body_loads += 1
        self.counters.weight_bytes_read += file.body_bytes
        self.counters.hold(file.body_bytes)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            states = file.body().hidden(inputs[rows])[counted[rows]].float()
        self.counters.hold(states.numel() * states.element_size())
        self.counters.hold(-file.body_bytes - states.numel() * states.element_size())
        return states

    @contextmanager
    def _head(self, teacher: int, following: int | None = None) -> Iterator[Tensor]:
        """A teacher's head, the only one in memory but for one that is being fetched."""
        if self._coming is not None and self._coming[0] == teacher:
            head = self._coming[1].result()
        else:
            self._count_head(teacher)
            head = self.files[teacher].head()
        self._coming = None
        if self.caching.prefetch and following is not None:
            self._count_head(following)
            self._coming = following, self._reader.submit(self.files[following].head)
        yield head
        self.counters.hold(-self.files[teacher].head_bytes, heads=-1)

    def _count_head(self, teacher: int) -> None:
        self.counters.head_loads += 1
        self.counters.weight_bytes_read += self.files[teacher].head_bytes
        self.counters.hold(self.files[teacher].head_bytes, heads=1)

    def facts(self, updates: int) -> dict[str, float | None]:
        """The counters for a record: loads and bytes per update, peaks as they are."""
        counted = self.counters
        return {
            "store.body_loads": counted.body_loads / updates,
            "store.head_loads": counted.head_loads / updates,
            "store.bytes_read": (counted.weight_bytes_read + self.cache.bytes_read) / updates,
            "store.bytes_written": self.cache.bytes_written / updates,
            "store.peak_resident_heads": counted.peak_resident_heads,
            "store.peak_bytes": counted.peak_bytes,
        }
