"""What is learned where nothing is idealised? The bytes of real documents."""

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from harness.domains.base import SPLITS, Demonstrations, Split, stream
from harness.domains.corpora import Corpus, built_in, read_documents
from harness.domains.layout import check_lengths, check_tag

BYTES = 256
PIECE_BYTES = 2048
PRIME = 1_099_511_628_211
INVERSE = (pow(PRIME, -1, 2**64) + 2**63) % 2**64 - 2**63


@dataclass(frozen=True, kw_only=True)
class Text:
    """Ids: 256 bytes, BOS, then `tags` domain tags. Position 0 holds the tag, or BOS.

    A built-in `corpus` (its first `limit_bytes`), or, before it, `path` to the user's own text.
    Documents are cut into pieces, equal pieces are dropped, and every piece is dealt to one split,
    so that no window of one split overlaps with another's; windows that occur in two splits all
    the same (licences, tables) are left out of both. `demonstration_fraction` of the bytes
    are the student's own data, a tenth each is for tuning and evaluation, a fifth for prompts, and
    the rest for specialists.
    """

    name: str
    corpus: Corpus | None = None
    path: str | None = None
    limit_bytes: int = 1_000_000
    demonstration_fraction: float = 0.3
    tag: int | None = None
    tags: int = 2
    prompt_tokens: int = 16
    sequence_tokens: int = 48

    def __post_init__(self) -> None:
        if self.corpus is None and self.path is None:
            raise ValueError(f"corpus or path must be given for {self.name!r}")
        if not 0 < self.demonstration_fraction <= 0.5:
            raise ValueError(
                f"demonstration_fraction must be in (0, 0.5], got {self.demonstration_fraction}"
            )
        check_tag(self.tag, self.tags)
        check_lengths(self.prompt_tokens, self.sequence_tokens)
        if self.limit_bytes < 1:
            raise ValueError(f"limit_bytes must be at least 1, got {self.limit_bytes}")
        if self.sequence_tokens > PIECE_BYTES:
            raise ValueError(
                f"sequence_tokens must be at most {PIECE_BYTES}, got {self.sequence_tokens}"
            )

    @property
    def vocabulary_size(self) -> int:
        """Bytes, BOS and the reserved tags."""
        return BYTES + 1 + self.tags

    @property
    def end_token(self) -> None:
        """Completions always have full length."""

    @cached_property
    def _documents(self) -> list[bytes]:
        if self.path is not None:
            return read_documents(Path(self.path))
        assert self.corpus is not None
        return built_in(self.corpus, self.limit_bytes)

    @cached_property
    def corpus_digest(self) -> str:
        """Names the bytes: what a built-in corpus holds depends on the Python version."""
        digest = hashlib.sha256()
        for document in self._documents:
            digest.update(hashlib.sha256(document).digest())
        return digest.hexdigest()[:16]

    @cached_property
    def _pieces(self) -> dict[Split, list[bytes]]:
        """Pieces by split, dealt in an order that depends on the corpus alone."""
        cut = [
            document[start : start + PIECE_BYTES]
            for document in self._documents
            for start in range(0, len(document), PIECE_BYTES)
        ]
        whole = list(dict.fromkeys(p for p in cut if len(p) >= self.sequence_tokens - 1))
        order = torch.randperm(len(whole), generator=stream(0, "text pieces")).tolist()
        shares = {"demonstrations": self.demonstration_fraction, "tuning": 0.1, "evaluation": 0.1,
                  "prompts": 0.2}  # fmt: skip
        counts = {split: max(1, round(share * len(whole))) for split, share in shares.items()}
        counts["specialist"] = len(whole) - sum(counts.values())
        if counts["specialist"] < 1:
            raise ValueError(
                f"{self.name!r}: the text has {len(whole)} distinct pieces of at least "
                f"{self.sequence_tokens - 1} bytes; it needs 6 or more"
            )
        dealt: dict[Split, list[bytes]] = {}
        for split in SPLITS:
            dealt[split] = [whole[i] for i in order[: counts[split]]]
            order = order[counts[split] :]
        return dealt

    def demonstrations(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Demonstrations:
        """`count` windows that start anywhere in the split's pieces."""
        everything, starts = _windows(self)[split]
        chosen = starts[torch.randint(len(starts), (count,), generator=generator)]
        body = everything[chosen[:, None] + torch.arange(self.sequence_tokens - 1)].long()
        first = torch.full((count, 1), BYTES if self.tag is None else BYTES + 1 + self.tag)
        is_completion = torch.arange(self.sequence_tokens) >= self.prompt_tokens
        tokens = torch.cat([first, body], dim=1)
        return Demonstrations(tokens=tokens, is_completion=is_completion.expand(tokens.shape))

    def prompts(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Int[Tensor, "count prompt"]:
        """The first bytes of windows of that split."""
        return self.demonstrations(count, split, generator).tokens[:, : self.prompt_tokens]

    def source_log_probabilities(self, tokens: Int[Tensor, "batch time"]) -> None:
        """Unknown."""

    def reward(
        self, tokens: Int[Tensor, "batch time"], is_completion: Bool[Tensor, "batch time"]
    ) -> None:
        """Nothing to verify."""


@lru_cache(maxsize=16)
def _windows(domain: Text) -> dict[Split, tuple[Tensor, Tensor]]:
    """Per split the bytes, and every position where a window of its own starts."""
    length = domain.sequence_tokens - 1
    everything, starts, keys = {}, {}, {}
    for split, pieces in domain._pieces.items():
        ends = torch.tensor([len(piece) for piece in pieces]).cumsum(0).tolist()
        begins = [0, *ends[:-1]]
        ranges = [torch.arange(b, e - length + 1) for b, e in zip(begins, ends, strict=True)]
        everything[split] = torch.frombuffer(bytearray(b"".join(pieces)), dtype=torch.uint8)
        starts[split] = torch.cat(ranges)
        keys[split] = _window_keys(everything[split], length)[starts[split]]
    found, splits = torch.cat([k.unique() for k in keys.values()]).unique(return_counts=True)
    windows: dict[Split, tuple[Tensor, Tensor]] = {}
    for split in SPLITS:
        own = ~torch.isin(keys[split], found[splits > 1])
        if not own.any():
            raise ValueError(
                f"{domain.name!r}: every window of {split!r} occurs in another split as well"
            )
        windows[split] = everything[split], starts[split][own]
    return windows


def _window_keys(text: UInt8[Tensor, " bytes"], length: int) -> Int[Tensor, " starts"]:
    """A number for the `length` bytes from every start: equal for equal bytes.

    The polynomial sum of byte * p^i modulo 2^64, whose prefix sums give all windows at once: a
    window's sum is divided by p^start. Different bytes share a number about once in 2^64.
    """
    powers, inverses = (
        torch.full((len(text),), p, dtype=torch.long).cumprod(0) for p in (PRIME, INVERSE)
    )
    sums = torch.cat([torch.zeros(1, dtype=torch.long), (powers * (text.long() + 1)).cumsum(0)])
    return (sums[length:] - sums[:-length]) * inverses[: len(sums) - length]
