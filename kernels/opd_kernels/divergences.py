"""How far is a student's distribution from its teacher's? Sums over the vocabulary, in nats.

Every function takes log-probabilities, the student first. A probability of 0 contributes 0 (its
log may be -inf on either side or on both); positive weight where the other side is 0 gives +inf.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def _kl(
    first: Float[Tensor, "*batch vocab"], second: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(first || second). The difference is masked before it is weighted: 0 * inf is NaN."""
    impossible = first == -math.inf
    log_ratio = (first - second).masked_fill(impossible, 0.0)
    return (first.exp() * log_ratio).sum(dim=-1)


def _log_mixture(
    student: Float[Tensor, "*batch vocab"],
    teacher: Float[Tensor, "*batch vocab"],
    student_share: float,
) -> Float[Tensor, "*batch vocab"]:
    """log(share * student + (1 - share) * teacher); -inf where both are, with zero gradient."""
    if student_share in (0.0, 1.0):
        return student if student_share else teacher
    impossible = (student == -math.inf) & (teacher == -math.inf)
    mixture = torch.logaddexp(
        student.masked_fill(impossible, 0.0) + math.log(student_share),
        teacher.masked_fill(impossible, 0.0) + math.log(1.0 - student_share),
    )
    return mixture.masked_fill(impossible, -math.inf)


def forward_kl(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(teacher || student): covers every mode of the teacher (Hinton et al. 2015, 1503.02531)."""
    return _kl(teacher, student)


def reverse_kl(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(student || teacher): seeks a mode (MiniLLM, Gu et al. 2024, 2306.08543)."""
    return _kl(student, teacher)


def jsd(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"], beta: float
) -> Float[Tensor, "*batch"]:
    """beta KL(teacher || M) + (1 - beta) KL(student || M), M = beta teacher + (1 - beta) student.

    GKD (Agarwal et al. 2024, 2306.13649), equation 1. `beta` is also a strength: the value tends
    to 0 at both ends, where jsd / beta -> forward KL (beta -> 0) and jsd / (1 - beta) -> reverse
    KL (beta -> 1). `jsd_normalized` takes the strength out.
    """
    mixture = _log_mixture(student, teacher, 1.0 - beta)
    return beta * _kl(teacher, mixture) + (1.0 - beta) * _kl(student, mixture)


def jsd_normalized(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"], beta: float
) -> Float[Tensor, "*batch"]:
    """jsd(beta) / (beta (1 - beta)): forward KL in the limit beta -> 0, reverse KL at 1."""
    return jsd(student, teacher, beta) / (beta * (1.0 - beta))


def skew_forward_kl(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"], alpha: float
) -> Float[Tensor, "*batch"]:
    """KL(teacher || alpha teacher + (1 - alpha) student); DistiLLM (Ko et al. 2024, 2402.03898)."""
    return _kl(teacher, _log_mixture(student, teacher, 1.0 - alpha))


def skew_reverse_kl(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"], alpha: float
) -> Float[Tensor, "*batch"]:
    """KL(student || alpha student + (1 - alpha) teacher); DistiLLM (2402.03898)."""
    return _kl(student, _log_mixture(student, teacher, alpha))


def total_variation(
    student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """Half the sum of absolute differences of probability: in [0, 1], not nats."""
    return 0.5 * (student.exp() - teacher.exp()).abs().sum(dim=-1)


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "total_variation": total_variation,
}
PARAMETRIC: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "jsd": jsd,
    "jsd_normalized": jsd_normalized,
    "skew_forward_kl": skew_forward_kl,
    "skew_reverse_kl": skew_reverse_kl,
}


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A divergence by name, with its parameter (beta or alpha) where it has one.

    `str(divergence)` is what `parse_divergence` reads.
    """

    name: str
    parameter: float | None = None

    def __post_init__(self) -> None:
        if self.name in PLAIN:
            if self.parameter is not None:
                raise ValueError(f"{self.name} takes no parameter, got {self.parameter}")
        elif self.name in PARAMETRIC:
            closed = self.name.startswith("skew")
            value = math.nan if self.parameter is None else self.parameter
            if not (0.0 <= value < 1.0 if closed else 0.0 < value < 1.0):
                allowed = "alpha in [0, 1)" if closed else "beta in (0, 1)"
                raise ValueError(f"{self.name} needs {allowed}, got {self.parameter}")
        else:
            raise ValueError(f"divergence must be one of {_menu()}, got {self.name!r}")

    def __call__(
        self, student: Float[Tensor, "*batch vocab"], teacher: Float[Tensor, "*batch vocab"]
    ) -> Float[Tensor, "*batch"]:
        """The divergence of two arrays of log-probabilities."""
        if self.parameter is None:
            return PLAIN[self.name](student, teacher)
        return PARAMETRIC[self.name](student, teacher, self.parameter)

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}({self.parameter!r})"


def parse_divergence(text: str) -> Divergence:
    """`reverse_kl`, `jsd(0.5)`, `skew_reverse_kl(0.1)` as an object; ValueError with the menu."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([^()\s]+)\s*\))?\s*", text)
    if match is None:
        raise ValueError(f"divergence must be one of {_menu()}, got {text!r}")
    name, argument = match.groups()
    try:
        parameter = None if argument is None else float(argument)
    except ValueError:
        raise ValueError(f"divergence {text!r}: {argument!r} is not a number") from None
    return Divergence(name=name, parameter=parameter)


def _menu() -> str:
    return ", ".join([*PLAIN, *(f"{name}(x)" for name in PARAMETRIC)])
