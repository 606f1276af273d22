"""How far are divergences from cached states from those the teachers would give now?"""

import torch
from jaxtyping import Float

from harness.models.policy import Policy, Rollouts
from harness.teachers.store import TeacherStore
from opd_kernels import Teacher, linear_divergence, parse_divergence

REVERSE_KL = parse_divergence("reverse_kl")


@torch.no_grad()
def cache_error_nats(
    student: Policy,
    store: TeacherStore,
    rollouts: Rollouts,
    weights: Float[torch.Tensor, "rollouts teachers"],
) -> float:
    """The largest absolute difference of any token's reverse KL, in nats.

    The store must still hold the states of `rollouts`.
    """
    inputs, counted = rollouts.tokens[:, :-1], rollouts.is_completion[:, 1:]
    states = student.hidden(inputs)
    worst = 0.0
    for visit in store.visits(weights):
        rows = visit.rows
        teacher = store.files[visit.teacher].policy()
        exact = Teacher(teacher.hidden(inputs[rows])[counted[rows]], teacher.head)
        with store.operands(visit.teacher, rows) as kept:
            mine = states[rows][counted[rows]]
            found, right = (
                linear_divergence(mine, student.head, t, divergence=REVERSE_KL, reduction="none")
                for t in (kept, exact)
            )
        if len(mine):
            worst = max(worst, float((found.divergence - right.divergence).abs().max()))
    return worst
