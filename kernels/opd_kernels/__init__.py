"""Divergences between a student and its teachers, exact, from cached hidden states."""

from opd_kernels.dispatch import Implementation, doctor
from opd_kernels.divergences import (
    Divergence,
    forward_kl,
    jsd,
    jsd_normalized,
    parse_divergence,
    reverse_kl,
    skew_forward_kl,
    skew_reverse_kl,
    total_variation,
)
from opd_kernels.estimators import sampled_token_loss
from opd_kernels.linear import linear_divergence
from opd_kernels.log_probability import linear_log_normalizer, linear_log_probability
from opd_kernels.problem import LinearDivergence, Teacher
from opd_kernels.supports import FullVocab, SampledToken, Support, TopK, parse_support

__all__ = [
    "Divergence",
    "FullVocab",
    "Implementation",
    "LinearDivergence",
    "SampledToken",
    "Support",
    "Teacher",
    "TopK",
    "doctor",
    "forward_kl",
    "jsd",
    "jsd_normalized",
    "linear_divergence",
    "linear_log_normalizer",
    "linear_log_probability",
    "parse_divergence",
    "parse_support",
    "reverse_kl",
    "sampled_token_loss",
    "skew_forward_kl",
    "skew_reverse_kl",
    "total_variation",
]
