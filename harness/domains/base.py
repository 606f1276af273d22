"""What must a domain offer, and where do all random numbers come from?"""

import hashlib
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Split = Literal["demonstrations", "specialist", "prompts", "tuning", "evaluation"]
"""`demonstrations` are what the student's SFT sees, `specialist` what only teachers trained on."""
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """Whole sequences to imitate; only tokens where `is_completion` holds are trained on."""

    tokens: Int[Tensor, "batch time"]
    is_completion: Bool[Tensor, "batch time"]


@runtime_checkable
class Domain(Protocol):
    """A frozen dataclass: its fields are the configuration, its methods make the data.

    The splits are disjoint: no sequence (or prompt, where prompts are enumerable) is in two.
    All rows of one call have one length; rows that end early are padded after the end token.
    """

    @property
    def name(self) -> str:
        """Identifies the domain within its world; the label that `by_domain` routes on."""

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids, special ones included."""

    @property
    def prompt_tokens(self) -> int:
        """Length of every prompt."""

    @property
    def sequence_tokens(self) -> int:
        """Length of prompt plus longest completion."""

    @property
    def end_token(self) -> int | None:
        """Ends a completion; None where every completion has full length."""

    def demonstrations(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Demonstrations:
        """`count` sequences drawn from `split`."""

    def prompts(
        self, count: int, split: Split, generator: torch.Generator
    ) -> Int[Tensor, "count prompt"]:
        """`count` prompts drawn from `split`."""

    def source_log_probabilities(
        self, tokens: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time vocab"] | None:
        """Exact log-probability in nats of every token id at each position, given those before.

        None if unknown. Position 0 and prompt positions carry whatever is convenient: callers
        mask them. A token the source never emits has a floor stated by the domain, not -inf.
        """

    def reward(
        self, tokens: Int[Tensor, "batch time"], is_completion: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, " batch"] | None:
        """1 for a right completion, 0 for a wrong one; None where nothing can be verified."""


def stream(seed: int, purpose: str) -> torch.Generator:
    """The generator of one purpose of one seed.

    Streams of different purposes are independent, so that drawing more of one (longer rollouts,
    say) leaves the others as they were: arms keep their common random numbers.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
