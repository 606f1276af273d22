"""When and how is the C++ path used? Build on first use, packing, one call per chunk."""

import hashlib
import logging
import os
import shutil
import sys
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from opd_kernels.chunked import chains, cut, default_chunk
from opd_kernels.divergences import Divergence
from opd_kernels.problem import Measured, Problem, Teacher
from opd_kernels.row_eager import MEASURED
from opd_kernels.supports import FullVocab

LOG = logging.getLogger("opd_kernels")
SOURCES = tuple(Path(__file__).with_name(n) for n in ("row_cpu.cpp", "rows_cpu.h", "lanes_cpu.h"))
# By capability, not -march=native: the cache may lie on a disk that other machines share.
FLAGS = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}
KINDS = (
    "reverse_kl",
    "forward_kl",
    "jsd",
    "skew_forward_kl",
    "skew_reverse_kl",
    "total_variation",
)
LANES = 16


def fits(problem: Problem) -> str | None:
    """None where this path can run the problem, else why not."""
    operands = [problem.student_hidden, *(teacher.hidden for teacher in problem.teachers)]
    dtypes = {operand.dtype for operand in operands}
    exact_width = 1 if dtypes == {torch.float32} else 2  # bf16 factors hold pairs
    if any(operand.device.type != "cpu" for operand in operands):
        return "not on a CPU"
    if dtypes not in ({torch.float32}, {torch.bfloat16}):
        return f"operands must all be float32 or all bfloat16, got {sorted(map(str, dtypes))}"
    if any(operand.shape[1] % exact_width for operand in operands):
        return "bfloat16 states must have an even width"
    if problem.support != FullVocab():
        return f"support {problem.support} is done by the portable path"
    if problem.student_softcap or any(teacher.softcap for teacher in problem.teachers):
        return "a softcap is done by the portable path"
    if not chains(problem):
        return "several teachers need reverse_kl and cached log-normalizers here"
    return unavailable(operands[0].dtype)


@lru_cache
def unavailable(dtype: torch.dtype) -> str | None:
    """None where the extension builds and multiplies in `dtype`, else why not; warns once."""
    try:
        module = extension()
        one = torch.ones(LANES, 2, dtype=dtype)
        packed = _packed(module, one, LANES)
        buffers = [torch.empty(LANES, LANES) for _ in range(2)]
        weight, out = torch.ones(LANES), torch.empty(4, LANES)
        module.chunk(
            [one, one], [packed, packed], [None, None], *buffers, weight, None, 0, 0.0, None, None,
            None, out,
        )  # fmt: skip
    except Exception as reason:  # a missing compiler, a failed build, a CPU without the product
        LOG.warning("no C++ kernels for %s (%s): the portable path is used", dtype, _line(reason))
        return f"the C++ path is not available: {_line(reason)}"
    return None


@lru_cache
def extension() -> ModuleType:
    """The built module, cached by the digest of sources, flags, capability and torch version."""
    from torch.utils.cpp_extension import load  # imports setuptools: only when needed

    flags = ["-O3", "-fno-math-errno", "-Wno-psabi", *FLAGS.get(_capability(), ())]
    recipe = [torch.__version__, _capability(), *flags, *(path.read_text() for path in SOURCES)]
    digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]
    if (
        shutil.which("ninja") is None
    ):  # pip puts it beside the interpreter, which need not be on PATH
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    LOG.info("building the C++ kernels, once: about a minute")
    module: ModuleType = load(f"opd_kernels_{digest}", [str(SOURCES[0])], extra_cflags=flags)
    return module


def run(
    problem: Problem,
    coefficient: Float[Tensor, " tokens"] | None,
    *,
    hidden_gradient: bool,
    head_gradient: bool,
    chunk_tokens: int | None,
) -> Measured:
    """As `chunked.chunked`: logits transposed, products and rows fused in C++."""
    hidden, heads = (
        problem.student_hidden,
        [problem.student_head, *(t.head for t in problem.teachers)],
    )
    heads = [head if head.stride(1) == 1 else head.contiguous() for head in heads]
    tokens, vocab = len(hidden), len(heads[0])
    size = min(max(tokens, 1), chunk_tokens or default_chunk(tokens, vocab))
    size = -(-size // LANES) * LANES
    pitch = size + LANES  # off a power of two: rows of a tile must not share cache sets
    memory = [torch.empty(vocab, pitch) for _ in range(2)]
    measured = hidden.new_zeros(5, tokens, dtype=torch.float32)
    d_hidden = torch.empty_like(hidden) if hidden_gradient else None
    d_head = torch.zeros(vocab, hidden.shape[1]) if head_gradient else None
    for start in range(0, tokens, size):
        part = slice(start, min(start + size, tokens))
        n = -(-(part.stop - start) // LANES) * LANES
        factor = None if coefficient is None else coefficient[part]
        buffers = [block[:, :n] for block in memory]
        _chunk(cut(problem, part), heads, buffers, factor, measured[:, part], d_head)
        if d_hidden is not None:
            logits = memory[0].view(hidden.dtype)[:, : part.stop - start]
            torch.mm(logits.T, heads[0], out=d_hidden[part])
    return Measured(
        rows=dict(zip(MEASURED, measured, strict=True)),
        hidden_gradient=d_hidden,
        head_gradient=None if d_head is None else d_head.to(hidden.dtype),
    )


def _chunk(
    problem: Problem,
    heads: list[Tensor],
    buffers: list[Tensor],
    coefficient: Tensor | None,
    measured: Tensor,
    d_head: Tensor | None,
) -> None:
    module, n, hidden = extension(), buffers[0].shape[1], problem.student_hidden
    weights = _weights(problem.teachers, n)
    single = len(problem.teachers) == 1  # its weight acts on the result, not on its logits
    scale = problem.student_scale / problem.student_temperature
    states, factors = [hidden], [torch.full((n,), scale)]
    for teacher, w in zip(problem.teachers, weights, strict=True):
        states.append(teacher.hidden)
        factor = teacher.scale / problem.teacher_temperature
        factors.append(torch.full((n,), factor) if single else w * factor)
    packed, scales = zip(*map(partial(_factor, module), states, factors), strict=True)
    kind, parameter, strength = _kind(problem.divergence)
    outer = weights[0] * strength if single else torch.ones(n)
    total = torch.ones(n) if single else torch.stack(weights).sum(0)
    c = None if coefficient is None else _padded(coefficient, n) * outer * scale
    hidden_pairs = _pairs(module, hidden, n) if d_head is not None else None
    normalizer = _normalizer(problem.teachers, weights, n)
    out = torch.empty(4, n)
    module.chunk(
        heads, list(packed), list(scales), *buffers, total, normalizer, kind, parameter, c,
        hidden_pairs, d_head, out,
    )  # fmt: skip
    if single:
        for index, by in ((0, outer), (2, weights[0])):
            out[index] = by * out[index].masked_fill(by == 0, 0.0)
    measured[:4] = out[:, : measured.shape[1]]


def _factor(module: ModuleType, states: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | None]:
    """The packed states with their scale folded in where that loses nothing, else beside them."""
    if states.dtype == torch.float32 or bool((scale.log2().frac() == 0).all()):
        folded = (states * scale[: len(states), None]).to(states.dtype)
        return _packed(module, folded, len(scale)), None
    return _packed(module, states, len(scale)), scale


def _weights(teachers: tuple[Teacher, ...], n: int) -> list[Tensor]:
    return [torch.ones(n) if t.weights is None else _padded(t.weights, n) for t in teachers]


def _normalizer(teachers: tuple[Teacher, ...], weights: list[Tensor], n: int) -> Tensor | None:
    if any(teacher.log_normalizer is None for teacher in teachers):
        return None
    single = len(teachers) == 1
    terms = [
        _padded(t.log_normalizer, n) * (1.0 if single else w)
        for t, w in zip(teachers, weights, strict=True)
        if t.log_normalizer is not None
    ]
    return torch.stack(terms).sum(0)


def _kind(divergence: Divergence) -> tuple[int, float, float]:
    """The number C++ knows it by, its parameter, and the factor of the normalized form."""
    name, parameter = divergence.name, divergence.parameter or 0.0
    if name == "jsd_normalized":
        return KINDS.index("jsd"), parameter, 1.0 / (parameter * (1.0 - parameter))
    if name.startswith("skew") and parameter == 0.0:
        name = name.removeprefix("skew_")
    return KINDS.index(name), parameter, 1.0


def _packed(module: ModuleType, states: Tensor, n: int) -> Tensor:
    pair = 1 if states.dtype == torch.float32 else 2
    packed = states.new_zeros(states.shape[1] // pair, n, pair)
    module.pack_transposed(_rows(states), packed)
    return packed


def _pairs(module: ModuleType, hidden: Tensor, n: int) -> Tensor:
    """The hidden states, padded to `n` tokens, as the right factor of the head's gradient."""
    if hidden.dtype == torch.float32:
        return torch.nn.functional.pad(hidden, (0, 0, 0, n - len(hidden))).contiguous()
    packed = hidden.new_zeros(n // 2, hidden.shape[1], 2)
    module.pack_pairs(_rows(hidden), packed)
    return packed


def _rows(states: Tensor) -> Tensor:
    return states if states.stride(1) == 1 else states.contiguous()


def _padded(values: Tensor, n: int) -> Tensor:
    return torch.nn.functional.pad(values.float(), (0, n - len(values)))


def _capability() -> str:
    return torch.backends.cpu.get_cpu_capability()


def _line(reason: Exception) -> str:
    return str(reason).strip().split("\n")[0][:200]
