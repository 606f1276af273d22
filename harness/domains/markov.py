"""What is learned where the truth is known exactly? A random Markov source over shared states."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.domains.base import SPLITS, Demonstrations, Split, stream
from harness.domains.layout import check_lengths, check_tag

FLOOR_NATS = math.log(1e-6)
"""Log-probability (1e-6) of what the source never emits, special tokens among it."""


@dataclass(frozen=True, kw_only=True)
class Markov:
    """Ids: the states, then BOS, then `tags` domain tags. Position 0 holds the tag, or BOS.

    What follows any `order` states is drawn from a symmetric Dirichlet(`concentration`), mixed
    with that of a source all domains share (`overlap`: 0 unrelated, 1 identical) and with the
    uniform (`smoothing`). The first `order` states are uniform. Every split is a finite pool of
    distinct sequences: `demonstration_sequences` for the student's own data, `pool_sequences` for
    any other.
    """

    name: str
    source_seed: int = 0
    states: int = 32
    order: int = 1
    concentration: float = 0.1
    smoothing: float = 0.05
    overlap: float = 0.0
    shared_seed: int = 999
    tag: int | None = None
    tags: int = 2
    prompt_tokens: int = 1
    sequence_tokens: int = 32
    demonstration_sequences: int = 2048
    pool_sequences: int = 2048

    def __post_init__(self) -> None:
        check_tag(self.tag, self.tags)
        check_lengths(self.prompt_tokens, self.sequence_tokens)
        for name in ("overlap", "smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.states < 2:
            raise ValueError(f"states must be at least 2, got {self.states}")
        if not 1 <= self.order < self.sequence_tokens:
            raise ValueError(f"order must be in [1, {self.sequence_tokens}), got {self.order}")
        if self.states**self.order > 100_000:
            raise ValueError(
                f"states ** order must be at most 100000, got {self.states**self.order}"
            )
        if not 0 < self.concentration < math.inf:
            raise ValueError(f"concentration must be positive, got {self.concentration}")
        for name in ("demonstration_sequences", "pool_sequences"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def vocabulary_size(self) -> int:
        """States, BOS and the reserved tags."""
        return self.states + 1 + self.tags

    @property
    def end_token(self) -> None:
        """Completions always have full length."""

    @cached_property
    def conditionals(self) -> Float[Tensor, "contexts states"]:
        """What follows the states (s1, .., sk): row s1 * states^(k-1) + .. + sk, for order k."""
        own, shared = (
            _dirichlet_rows(self.states**self.order, self.states, self.concentration, seed)
            for seed in (self.source_seed, self.shared_seed)
        )
        mixed = (1 - self.overlap) * own + self.overlap * shared
        return (1 - self.smoothing) * mixed + self.smoothing / self.states

    @property
    def entropy_nats(self) -> float:
        """Expected -log p per token of a whole completion: the floor of any cross-entropy."""
        rows = self.conditionals.double()
        per_context = -torch.xlogy(rows, rows).sum(dim=1)
        contexts = torch.full((len(rows),), 1 / len(rows), dtype=torch.double)
        per_token = [math.log(self.states)] * self.order
        for _ in range(self.order + 1, self.sequence_tokens):
            per_token.append(float(contexts @ per_context))
            joint = (contexts[:, None] * rows).view(self.states, -1)
            contexts = joint.sum(dim=0)
        completion = per_token[self.prompt_tokens - 1 :]
        return sum(completion) / len(completion)

    def _draw(self, count: int, generator: torch.Generator) -> Int[Tensor, "count time"]:
        rows = torch.empty(count, self.sequence_tokens, dtype=torch.long)
        rows[:, 0] = self.states if self.tag is None else self.states + 1 + self.tag
        given = torch.randint(self.states, (count, self.order), generator=generator)
        rows[:, 1 : 1 + self.order] = given
        for t in range(1 + self.order, self.sequence_tokens):
            weights = self.conditionals[self._context(rows[:, t - self.order : t])]
            rows[:, t] = torch.multinomial(weights, 1, generator=generator)[:, 0]
        return rows

    def _context(self, states: Int[Tensor, "*batch order"]) -> Int[Tensor, "*batch"]:
        """Row of `conditionals` that belongs to the last `order` states."""
        return (states * self.states ** torch.arange(self.order - 1, -1, -1)).sum(dim=-1)

    def demonstrations(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Demonstrations:
        """`count` sequences drawn with replacement from the split's pool."""
        pool = _pools(self)[split]
        tokens = pool[torch.randint(len(pool), (count,), generator=generator)]
        is_completion = torch.arange(self.sequence_tokens) >= self.prompt_tokens
        return Demonstrations(tokens=tokens, is_completion=is_completion.expand(tokens.shape))

    def prompts(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Int[Tensor, "count prompt"]:
        """The first tokens of sequences of that split."""
        return self.demonstrations(count, split, generator).tokens[:, : self.prompt_tokens]

    @cached_property
    def _log_table(self) -> Float[Tensor, "contexts_and_uniform vocab"]:
        """Log-probability of every id in every context; the last row is for a context unknown."""
        uniform = torch.full((1, self.states), 1 / self.states)
        known = torch.cat([self.conditionals, uniform]).log().clamp_min(FLOOR_NATS)
        special = torch.full((len(known), self.vocabulary_size - self.states), FLOOR_NATS)
        return torch.cat([known, special], dim=1)

    def source_log_probabilities(
        self, tokens: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time vocab"]:
        """Exact, in nats; what is never emitted has `FLOOR_NATS`. Position 0 carries zeros.

        After fewer than `order` states, or a special token among the last `order`, any state is
        as likely.
        """
        windows = tokens[:, :-1].unfold(1, self.order, 1)
        context = self._context(windows).where((windows < self.states).all(dim=-1), -1)
        early = torch.full_like(tokens[:, : self.order - 1], -1)
        known = self._log_table[torch.cat([early, context], dim=1)]
        return torch.cat([torch.zeros_like(known[:, :1]), known], dim=1)

    def reward(
        self, tokens: Int[Tensor, "batch time"], is_completion: Bool[Tensor, "batch time"]
    ) -> None:
        """Nothing to verify: every sequence is possible."""


@lru_cache(maxsize=64)  # more than the domains of any trial: a pool takes a while to draw
def _pools(domain: Markov) -> dict[Split, Tensor]:
    """Distinct sequences: drawn once, in one order, and dealt out to the splits."""
    sizes = {
        s: domain.demonstration_sequences if s == "demonstrations" else domain.pool_sequences
        for s in SPLITS
    }
    generator = stream(domain.source_seed, "markov pool")
    drawn = torch.empty(0, domain.sequence_tokens, dtype=torch.long)
    for _ in range(8):
        drawn = _distinct(torch.cat([drawn, domain._draw(sum(sizes.values()), generator)]))
        if len(drawn) >= sum(sizes.values()):
            parts = drawn[: sum(sizes.values())].split(list(sizes.values()))
            return dict(zip(sizes, parts, strict=True))
    raise ValueError(
        f"pool_sequences: the source of {domain.name!r} has fewer than "
        f"{sum(sizes.values())} distinct sequences; lower pool_sequences"
    )


def _dirichlet_rows(
    rows: int, columns: int, concentration: float, seed: int
) -> Float[Tensor, "rows columns"]:
    generator = stream(seed, "markov source")
    shape = torch.full((rows, columns), concentration)
    # Dirichlet as normalised Gamma; torch.distributions takes no generator.
    gamma = torch._standard_gamma(shape, generator=generator) + 1e-6
    drawn: Tensor = gamma / gamma.sum(dim=1, keepdim=True)
    return drawn


def _distinct(rows: Int[Tensor, "rows time"]) -> Int[Tensor, "distinct time"]:
    """Rows without repetitions, in order of first appearance."""
    _, inverse = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(rows)).scatter_reduce(
        0, inverse, torch.arange(len(rows)), "amin"
    )
    return rows[first.sort().values]
