# mypy: ignore-errors
"""What does one Triton program do with the logits of one token? Import needs triton."""

import triton
import triton.language as tl


@triton.jit
def divergence_row(
    student, teacher, out, rows, weight, normalizer, coefficient, vocab,
    student_stride, teacher_stride, out_stride, c,
    KIND: tl.constexpr, BLOCK: tl.constexpr, CACHED: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """Statistics, then (all but reverse KL) value and mean slope, then the gradient into `out`.

    KIND: 0 reverse, 1 forward, 2 jsd(c), 3 skew forward(c), 4 skew reverse(c). `rows` [token, 5]
    gets divergence, student entropy, cross-entropy, agreement, 0. Offsets are int64.
    """
    token = tl.program_id(0).to(tl.int64)
    s_row, z_row = student + token * student_stride, teacher + token * teacher_stride
    w = tl.load(weight + token)
    lowest = -3.0e38
    top, z_top, at_top = lowest, lowest, lowest
    total, z_total, weighted, dot = 0.0, 0.0, 0.0, 0.0
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        s = tl.load(s_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        z = tl.load(z_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        best = tl.max(s, 0)
        z_at_best = tl.max(tl.where(s == best, z, lowest), 0)
        at_top = tl.where(best > top, z_at_best, at_top)
        new, z_new = tl.maximum(top, best), tl.maximum(z_top, tl.max(z, 0))
        e, shrink = tl.exp(s - new), tl.exp(top - new)
        weighted = shrink * (weighted + (top - new) * total)
        weighted += tl.sum(tl.where(e > 0, e * (s - new), 0.0), 0)
        dot = tl.where(shrink > 0, shrink * dot, 0.0) + tl.sum(
            tl.where(e > 0, e * (w * s - z), 0.0), 0
        )
        total = shrink * total + tl.sum(e, 0)
        z_total = z_total * tl.exp(z_top - z_new) + tl.sum(tl.exp(z - z_new), 0)
        top, z_top = new, z_new
    lse = top + tl.log(total)
    z_lse = z_top + tl.log(z_total)
    if CACHED:
        z_lse = tl.load(normalizer + token)
    entropy = tl.log(total) - weighted / total
    mean = dot / total
    loss = mean - w * lse + z_lse
    cross = loss + w * entropy
    if KIND != 0:
        loss, mean = 0.0, 0.0
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            s = tl.load(s_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32) - lse
            z = tl.load(z_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32) - z_lse
            value, slope = terms(s, z, c, KIND)
            loss += tl.sum(value, 0)
            mean += tl.sum(tl.exp(s) * slope, 0)
    tl.store(rows + token * 5, tl.maximum(loss, 0.0))
    tl.store(rows + token * 5 + 1, entropy)
    tl.store(rows + token * 5 + 2, cross)
    tl.store(rows + token * 5 + 3, tl.where(at_top == z_top, 1.0, 0.0))
    if GRADIENT:
        factor = tl.load(coefficient + token)
        factor = tl.where(loss == float("inf"), 0.0, factor)
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            s = tl.load(s_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
            z = tl.load(z_row + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
            p = tl.exp(s - lse)
            if KIND == 0:
                gradient = p * (w * s - z - mean)
            elif KIND == 1:
                gradient = p - tl.exp(z - z_lse)
            else:
                _, slope = terms(s - lse, z - z_lse, c, KIND)
                gradient = p * (slope - mean)
            if KIND != 1:
                gradient = tl.where(p > 0, gradient, 0.0)
            gradient = tl.where(factor == 0, 0.0, factor * gradient)
            tl.store(
                out + token * out_stride + at, gradient.to(out.dtype.element_ty), mask=at < vocab
            )


@triton.jit
def terms(log_p, log_q, c, KIND: tl.constexpr):
    """Value and slope at each word, as in rows_cpu.h: r = q / p, clamped where one vanishes."""
    p, q = tl.exp(log_p), tl.exp(log_q)
    d = log_p - log_q
    d = tl.where(d == d, d, 0.0)
    if KIND == 1:
        return tl.where(q > 0, q * -d, 0.0), tl.zeros_like(q)
    log_r = tl.minimum(tl.maximum(-d, -80.0), 80.0)
    share = c
    if KIND == 4:
        share = 1.0 - c
    mixture = 1.0 + share * (tl.exp(log_r) - 1.0)
    log_mixture = tl.log(mixture)
    if KIND == 2:
        return c * q * (log_r - log_mixture) - (1.0 - c) * p * log_mixture, (c - 1.0) * log_mixture
    if KIND == 3:
        return q * (log_r - log_mixture), (c - 1.0) * tl.exp(log_r) / mixture
    return p * -log_mixture, -log_mixture - c / mixture
