"""A decoder-only transformer small enough to train in seconds on one core."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TinyShape:
    """Layers of pre-norm attention and MLP (4x), learned positions, untied head, no biases."""

    width: int = 32
    layers: int = 2
    heads: int = 2

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads={self.heads}, got {self.width}")
