"""How does a decoder-only transformer look that trains in seconds on one core?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from harness.models.decode import Decoder, Weights, norm
from harness.models.policy import Rollouts


@dataclass(frozen=True, kw_only=True)
class TinyShape:
    """Layers of pre-norm attention and MLP (4x), learned positions, untied head, no biases."""

    width: int = 32
    layers: int = 2
    heads: int = 2

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads={self.heads}, got {self.width}")


@dataclass(frozen=True, kw_only=True)
class Body:
    """All that comes before the head, and the pass through it."""

    shape: TinyShape
    embedding: Float[Tensor, "vocab width"]
    position: Float[Tensor, "time width"]
    layers: Sequence[Weights]

    @classmethod
    def of_tensors(cls, shape: TinyShape, tensors: Mapping[str, Tensor]) -> "Body":
        """The body whose weights these are, named as `TinyPolicy.save` names them; not copied."""
        blocks = [tensors[f"blocks.{i}"] for i in range(4 * shape.layers)]
        return cls(
            shape=shape,
            embedding=tensors["embedding"],
            position=tensors["position"],
            layers=by_layer(blocks),
        )

    def hidden(
        self, tokens: Int[Tensor, "batch time"], decoder: Decoder | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Last-layer states after the final norm; a `decoder` is told keys and values."""
        batch, time = tokens.shape
        heads, width = self.shape.heads, self.shape.width
        x = F.embedding(tokens, self.embedding) + self.position[:time]
        for layer, (attend, merge, up, down) in enumerate(self.layers):
            mixed = F.linear(norm(x), attend).view(batch, time, 3, heads, width // heads)
            query, key, value = mixed.permute(2, 0, 3, 1, 4)
            if decoder is not None:
                decoder.layers[layer].keep(key, value)
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + F.linear(attended.transpose(1, 2).reshape(batch, time, width), merge)
            x = x + F.linear(F.silu(F.linear(norm(x), up)), down)
        return norm(x)

    def decoder(self, seen: Int[Tensor, "batch seen"], time: int) -> Decoder:
        """What goes on after `seen`, up to `time` positions in all."""
        decoder = Decoder(self.layers, self.shape.heads, len(seen), time)
        if seen.shape[1]:
            self.hidden(seen, decoder)
        return decoder


def by_layer(blocks: Sequence[Tensor]) -> list[Weights]:
    """Attend, merge, up and down of each layer, out of all of them in a row."""
    each = [tuple(blocks[i : i + 4]) for i in range(0, len(blocks), 4)]
    return cast(list[Weights], each)


class TinyPolicy(nn.Module):
    """A `Policy` in pure torch, sampled exactly."""

    def __init__(
        self,
        shape: TinyShape,
        *,
        vocabulary_size: int,
        sequence_tokens: int,
        generator: torch.Generator,
    ) -> None:
        width = shape.width

        def normal(rows: int, columns: int, scale: float) -> Tensor:
            return torch.randn(rows, columns, generator=generator) * scale

        into, back = width**-0.5, (2 * shape.layers * width) ** -0.5
        embedding = normal(vocabulary_size, width, 0.02)
        position = normal(sequence_tokens, width, 0.02)
        blocks = []
        for _ in range(shape.layers):
            blocks.append(normal(3 * width, width, into))
            blocks.append(normal(width, width, back))
            blocks.append(normal(4 * width, width, into))
            blocks.append(normal(width, 4 * width, back / 2))
        head = normal(vocabulary_size, width, 0.5 * into)
        self._take(shape, embedding, position, blocks, head)

    def _take(
        self,
        shape: TinyShape,
        embedding: Tensor,
        position: Tensor,
        blocks: Sequence[Tensor],
        head: Tensor,
        *,
        trained: bool = True,
    ) -> None:
        """Hold these weights; `blocks` are attend, merge, up and down of each layer."""
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(embedding, requires_grad=trained)
        self.position = nn.Parameter(position, requires_grad=trained)
        self.blocks = nn.ParameterList(nn.Parameter(b, requires_grad=trained) for b in blocks)
        self.head = nn.Parameter(head, requires_grad=trained)
        # nn.ParameterList costs more to walk than a decoding step to compute: walk it once.
        layers = by_layer(list(self.blocks))
        self.body = Body(
            shape=shape, embedding=self.embedding, position=self.position, layers=layers
        )

    @classmethod
    def of_tensors(cls, shape: TinyShape, tensors: Mapping[str, Tensor]) -> "TinyPolicy":
        """The model whose weights these are, as `save` names them; not copied, not trained."""
        model = cls.__new__(cls)
        blocks = [tensors[f"blocks.{i}"] for i in range(4 * shape.layers)]
        embedding, position, head = tensors["embedding"], tensors["position"], tensors["head"]
        model._take(shape, embedding, position, blocks, head, trained=False)
        return model

    @property
    def flop_parameters(self) -> int:
        """All parameters but input embedding and positions."""
        lookups = self.embedding.numel() + self.position.numel()
        return sum(p.numel() for p in self.parameters()) - lookups

    def hidden(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        """Last-layer states after the final norm: exactly what the head sees."""
        return self.body.hidden(tokens)

    def sample(
        self,
        prompts: Int[Tensor, "batch prompt"],
        completion_tokens: int,
        generator: torch.Generator,
        *,
        end_token: int | None = None,
        temperature: float = 1.0,
        policy_step: int = 0,
    ) -> Rollouts:
        """Completions drawn exactly from the model at `temperature`, by the Gumbel-max trick.

        All noise is drawn first: two policies that share a generator's state share their noise
        token by token, however early their completions end.
        """
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        batch, start = prompts.shape
        vocabulary = self.head.shape[0]
        noise = torch.rand(completion_tokens, batch, vocabulary, generator=generator)
        noise.clamp_min_(1e-30).log_().neg_().log_().neg_()  # Gumbel
        logits = torch.empty(completion_tokens, batch, vocabulary)
        new, drawn = prompts[:, -1], []
        with torch.inference_mode():
            head, places = self.head.T / temperature, self.position.unbind()
            decoder = self.body.decoder(prompts[:, :-1], time=start + completion_tokens)
            for t, (of_step, shift) in enumerate(zip(logits, noise, strict=True), start - 1):
                x = F.embedding(new, self.embedding).add_(places[t])
                torch.mm(decoder.step(x, t), head, out=of_step)
                new = (of_step + shift).argmax(dim=-1)
                drawn.append(new)
        tokens = torch.cat([prompts, torch.stack(drawn, dim=1)], dim=1)
        return finished_rollouts(tokens, logits.transpose(0, 1), start, end_token, policy_step)

    def copy(self) -> "TinyPolicy":
        """An independent copy with the same weights."""
        time, vocabulary = self.position.shape[0], self.head.shape[0]
        twin = type(self)(
            self.shape,
            vocabulary_size=vocabulary,
            sequence_tokens=time,
            generator=torch.Generator(),
        )
        twin.load_state_dict(self.state_dict())
        return twin

    def save(self, path: Path) -> None:
        """Write the weights to one safetensors file."""
        save_file(self.state_dict(), path)

    def load(self, path: Path) -> None:
        """Read the weights `save` wrote; raises ValueError where shapes or names differ."""
        try:
            self.load_state_dict(load_file(path))
        except RuntimeError as error:
            raise ValueError(f"{path}: {' '.join(str(error).split())}") from None


def finished_rollouts(
    tokens: Int[Tensor, "batch time"],
    logits: Float[Tensor, "batch completion vocab"],
    prompt_tokens: int,
    end_token: int | None,
    policy_step: int,
) -> Rollouts:
    """Mask by position, not by id: the first end token counts, what follows it does not."""
    drawn = tokens[:, prompt_tokens:]
    log_probability = logits.log_softmax(dim=-1).gather(-1, drawn[..., None])[..., 0]
    counts = torch.ones_like(drawn, dtype=torch.bool)
    if end_token is not None:
        ends = (drawn == end_token).int()
        counts = (ends.cumsum(dim=1) - ends) == 0
    before = tokens.shape[1] - drawn.shape[1]
    return Rollouts(
        tokens=tokens,
        is_completion=F.pad(counts, (before, 0)),
        behaviour_log_probability=F.pad(log_probability * counts, (before, 0)),
        policy_step=policy_step,
    )
