"""When and how is the C++ path used? Build on first use, packing, one call per chunk."""

import hashlib
import importlib.util
import logging
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import torch
from filelock import FileLock
from jaxtyping import Float
from torch import Tensor

from opd_kernels.chunked import chains, default_chunk
from opd_kernels.divergences import Divergence
from opd_kernels.problem import Measured, Problem, Teacher
from opd_kernels.row_eager import MEASURED
from opd_kernels.supports import FullVocab

LOG = logging.getLogger("opd_kernels")
SOURCES = tuple(
    Path(__file__).with_name(n)
    for n in ("row_cpu.cpp", "rows_cpu.h", "lanes_cpu.h", "products_cpu.h")
)
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
UNIT = 16
"""Tokens are padded to a multiple of it, as in products_cpu.h."""


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


def pays() -> bool:
    """Whether this path, where it fits, is quicker than `chunked` (kernels/README.md)."""
    return _capability() in FLAGS


@lru_cache
def unavailable(dtype: torch.dtype) -> str | None:
    """None where the extension builds and multiplies in `dtype`, else why not; warns once."""
    try:
        one = torch.ones(UNIT, 2, dtype=dtype)
        extension().divergence(
            [one, one], one, [one, one], [None, None], torch.ones(UNIT), None, 0, 0.0, None, None,
            None, UNIT, torch.empty(4, UNIT),
        )  # fmt: skip
    except Exception as reason:  # a missing compiler, a failed build, a CPU without the product
        LOG.warning("no C++ kernels for %s (%s): the portable path is used", dtype, _line(reason))
        return f"the C++ path is not available: {_line(reason)}"
    return None


@lru_cache
def extension() -> ModuleType:
    """The built module, cached by the digest of sources, flags, capability and torch version.

    Built in a directory of its own and moved into place whole, under a lock that dies with its
    process: a killed build leaves nothing that another would wait for.
    """
    from torch.utils.cpp_extension import get_default_build_root, load  # slow: only when needed

    flags = ["-O3", "-fno-math-errno", "-Wno-psabi", *FLAGS.get(_capability(), ())]
    recipe = [sys.version, torch.__version__, _capability(), *flags]
    recipe += [path.read_text() for path in SOURCES]
    name = "opd_kernels_" + hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]
    cache = Path(get_default_build_root()) / name
    cache.mkdir(parents=True, exist_ok=True)
    library = cache / f"{name}.so"
    with FileLock(cache / "build.lock"):
        if not library.exists():
            LOG.info("building the C++ kernels, once: about a minute")
            if shutil.which("ninja") is None:  # pip puts it beside the interpreter
                os.environ["PATH"] = (
                    f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
                )
            with TemporaryDirectory(dir=cache) as folder:
                load(name, [str(SOURCES[0])], extra_cflags=flags, build_directory=folder)
                (Path(folder) / library.name).replace(library)
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
    hidden, teachers = problem.student_hidden, problem.teachers
    heads = [_rows(problem.student_head), *(_rows(teacher.head) for teacher in teachers)]
    tokens, vocab = len(hidden), len(heads[0])
    size = chunk_tokens or default_chunk(hidden)
    size = -(-min(max(tokens, 1), size) // UNIT) * UNIT
    single = len(teachers) == 1  # its weight acts on the result, not on its logits
    one = torch.ones(tokens)
    weights = [one if t.weights is None else t.weights.float() for t in teachers]
    scale = problem.student_scale / problem.student_temperature
    factors = [one if single else w for w in weights]
    factors = [
        w * (t.scale / problem.teacher_temperature) for t, w in zip(teachers, factors, strict=True)
    ]
    states, scales = zip(
        *map(_folded, [hidden, *(t.hidden for t in teachers)], [scale * one, *factors]), strict=True
    )
    kind, parameter, strength = _kind(problem.divergence)
    outer = weights[0] * strength if single and (weights[0] is not one or strength != 1) else one
    c = None if coefficient is None else coefficient.float() * outer * scale
    # A head's gradient is kept in float32 until it is whole; one chunk is whole at once.
    rounded = problem.precision == "fast" or tokens <= size
    d_hidden = torch.empty_like(hidden) if hidden_gradient else None
    d_head = None
    if head_gradient:
        dtype = hidden.dtype if rounded else torch.float32
        d_head = torch.zeros(vocab, hidden.shape[1], dtype=dtype)
    total = one if single else torch.stack(weights).sum(0)
    normalizer = _normalizer(teachers, [one] if single else weights)
    out = torch.zeros(5, tokens)
    extension().divergence(
        heads, _rows(hidden), list(states), list(scales), total, normalizer, kind, parameter, c,
        d_hidden, d_head, size, out[:4],
    )  # fmt: skip
    if outer is not one:
        for index, by in ((0, outer), (2, weights[0])):
            out[index] = by * out[index].masked_fill(by == 0, 0.0)
    return Measured(
        rows=dict(zip(MEASURED, out, strict=True)),
        hidden_gradient=d_hidden,
        head_gradient=None if d_head is None else d_head.to(hidden.dtype),
    )


def _folded(states: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | None]:
    """States with their scale folded in where that loses nothing, else the scale beside them."""
    if bool((scale == 1).all()):
        return _rows(states), None
    if states.dtype == torch.float32 or bool((scale.log2().frac() == 0).all()):
        return (states * scale[:, None]).to(states.dtype), None
    return _rows(states), scale


def _normalizer(teachers: tuple[Teacher, ...], weights: list[Tensor]) -> Tensor | None:
    """The weighted sum of the cached log-normalizers, where all are cached."""
    terms = [
        w * t.log_normalizer.float()
        for t, w in zip(teachers, weights, strict=True)
        if t.log_normalizer is not None
    ]
    return torch.stack(terms).sum(0) if len(terms) == len(teachers) else None


def _kind(divergence: Divergence) -> tuple[int, float, float]:
    """The number C++ knows it by, its parameter, and the factor of the normalized form."""
    name, parameter = divergence.name, divergence.parameter or 0.0
    if name == "jsd_normalized":
        return KINDS.index("jsd"), parameter, 1.0 / (parameter * (1.0 - parameter))
    if name.startswith("skew") and parameter == 0.0:
        name = name.removeprefix("skew_")
    return KINDS.index(name), parameter, 1.0


def _rows(states: Tensor) -> Tensor:
    return states if states.stride(1) == 1 else states.contiguous()


def _capability() -> str:
    return torch.backends.cpu.get_cpu_capability()


def _line(reason: Exception) -> str:
    return str(reason).strip().split("\n")[0][:200]
