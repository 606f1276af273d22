"""Which parts of a step are computed in bfloat16, and what is rounded on the way?"""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from opd_kernels import Teacher

Precision = Literal["float32", "bf16_exact", "bf16_rounded", "bf16_teacher"]
"""`bf16_*`: the bodies run under bfloat16 autocast, weights and optimizer stay float32. The heads'
products then take bfloat16 operands; `exact` keeps the difference of the logits in float32,
`rounded` rounds both logits first, as is usual. `bf16_teacher`: only the teacher, logits and all,
as in code that wraps nothing but the teacher's forward pass."""


def student_autocast(precision: Precision) -> AbstractContextManager[object]:
    """For the student's forward pass."""
    low = precision in ("bf16_exact", "bf16_rounded")
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=low)


def teacher_autocast(precision: Precision) -> bool:
    """Whether teachers' bodies run in bfloat16."""
    return precision != "float32"


def operands(
    states: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    teacher: Teacher,
    precision: Precision,
) -> tuple[Tensor, Tensor, Teacher]:
    """Student states, student head and teacher as the loss gets them."""
    if precision == "float32":
        return states, head, teacher
    low = replace(teacher, hidden=teacher.hidden.bfloat16(), head=teacher.head.bfloat16())
    if precision == "bf16_teacher":
        logits = (low.hidden @ low.head.T).float()
        identity = torch.eye(logits.shape[1])
        return states, head, replace(teacher, hidden=logits, head=identity, log_normalizer=None)
    return states.bfloat16(), head.bfloat16(), low
