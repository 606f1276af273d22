"""Do the Triton rows agree with the reference? Interpreted on a CPU, compiled on CUDA."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CHECK = """
import torch
from dataclasses import replace
from opd_kernels import linear_divergence, parse_divergence
from tests.kernels.cases import operands
device = "cuda" if torch.cuda.is_available() else "cpu"
for name in ("reverse_kl", "forward_kl", "jsd(0.1)", "jsd_normalized(0.5)",
             "skew_forward_kl(0.1)", "skew_reverse_kl(0.1)"):
    hidden, head, one = operands(6, 12, 20, 5003, dtype=torch.float32)
    _, _, two = operands(6, 12, 8, 5003, dtype=torch.float32, seed=1)
    hidden, head = (x.detach().to(device).requires_grad_() for x in (hidden, head))
    weights = torch.rand(6, generator=torch.Generator().manual_seed(0)).to(device)
    teachers = []
    for teacher in (one, two):
        h, w = teacher.hidden.to(device), teacher.head.to(device)
        teachers.append(replace(teacher, hidden=h, head=w, weights=weights,
                                log_normalizer=(h @ w.T).logsumexp(-1)))
    for group in (teachers[:1], teachers):
        for extra in ({}, {"reduction": "none"}):
            outs = [linear_divergence(hidden, head, group, divergence=parse_divergence(name),
                                      implementation=i, temperature=(1.3, 1.0), **extra)
                    for i in ("reference", "triton")]
            grads = [torch.autograd.grad(o.loss.sum(), (hidden, head)) for o in outs]
            for field in ("loss", "divergence", "student_entropy", "teacher_cross_entropy",
                          "top1_agreement"):
                torch.testing.assert_close(getattr(outs[1], field), getattr(outs[0], field),
                                           atol=3e-6, rtol=1e-5)
            torch.testing.assert_close(grads[1], grads[0], atol=1e-6, rtol=2e-4)
print("agrees")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_rows_agree() -> None:
    # A process of its own: triton reads TRITON_INTERPRET on import.
    root = Path(__file__).parents[2]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "kernels")])
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "agrees", done.stderr[-2000:]
