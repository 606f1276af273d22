"""On which tokens are student and teacher compared? All, a few likely ones, or the sampled one."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

Owner = Literal["student", "teacher", "union"]
Remainder = Literal["tail", "renormalize", "truncate"]
Estimator = Literal["policy_gradient", "k1", "k2", "k3"]


def require_choice(argument: str, value: str, choices: object) -> None:
    """ValueError unless `value` is one of the strings of the Literal type `choices`."""
    if value not in get_args(choices):
        raise ValueError(f"{argument} must be one of {get_args(choices)}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class FullVocab:
    """Every token of the vocabulary.

    Exact by default. `skip_below` leaves out of the gradient, chunk by chunk, the words to which no
    token of the chunk gives that probability; the loss stays exact, and `dropped_mass` certifies
    what the gradient ignores. 1e-5 keeps about a quarter of a real model's columns.
    """

    skip_below: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.skip_below < 1.0:
            raise ValueError(f"skip_below must be in [0, 1), got {self.skip_below}")

    def __str__(self) -> str:
        return f"full({self.skip_below!r})" if self.skip_below else "full"


@dataclass(frozen=True, kw_only=True)
class TopK:
    """The `k` most likely tokens of the student, of the teacher, or of either (`union`).

    What happens to the rest: `tail` keeps it as one bucket, a lower bound of the divergence;
    `renormalize` forgets it on both sides; `truncate` leaves the terms out, for study only: the
    value can be negative, and a reverse KL on the teacher's tokens pushes mass out of the set.
    """

    k: int
    owner: Owner = "student"
    remainder: Remainder = "tail"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")
        require_choice("owner", self.owner, Owner)
        require_choice("remainder", self.remainder, Remainder)
        if self.k == 1 and self.remainder == "renormalize":
            raise ValueError("k must be at least 2 to renormalize (one token has probability 1)")

    def __str__(self) -> str:
        return f"top_k({self.k}, {self.owner}, {self.remainder})"


@dataclass(frozen=True, kw_only=True)
class SampledToken:
    """The token the student drew; `estimators.sampled_token_loss` says what each choice means."""

    estimator: Estimator = "policy_gradient"

    def __post_init__(self) -> None:
        require_choice("estimator", self.estimator, Estimator)

    def __str__(self) -> str:
        return f"sampled_token({self.estimator})"


Support = FullVocab | TopK | SampledToken


def parse_support(text: str) -> Support:
    """`full`, `top_k(16, student, tail)`, `sampled_token(k2)` as an object; `str` is its inverse.

    Arguments after the first may be left out: `top_k(16)` is the student's, with a tail bucket.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name = match.group(1) if match else None
    arguments = [part.strip() for part in (match.group(2) or "").split(",")] if match else []
    arguments = [] if arguments == [""] else arguments
    if name == "full" and len(arguments) <= 1:
        return FullVocab(skip_below=_number(text, arguments[0])) if arguments else FullVocab()
    if name == "sampled_token" and len(arguments) <= 1:
        return SampledToken(**_choices(arguments, estimator=Estimator))
    if name == "top_k" and 1 <= len(arguments) <= 3 and re.fullmatch(r"[+-]?\d+", arguments[0]):
        choices = _choices(arguments[1:], owner=Owner, remainder=Remainder)
        return TopK(k=int(arguments[0]), **choices)
    raise ValueError(
        "support must be full, top_k(k, owner, remainder) or sampled_token(estimator), "
        f"got {text!r}"
    )


def _number(text: str, argument: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise ValueError(f"support {text!r}: {argument!r} is not a number") from None


def _choices(arguments: list[str], **allowed: object) -> dict[str, Any]:
    """Positional strings as named, checked choices."""
    chosen = dict(zip(allowed, arguments, strict=False))
    for name, value in chosen.items():
        require_choice(name, value, allowed[name])
    return chosen
