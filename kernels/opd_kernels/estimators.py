"""What loss does a sampled token give, when only its own log-probabilities are known?"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from opd_kernels.supports import Estimator, require_choice


def sampled_token_loss(
    student_log_probability: Float[Tensor, "batch time"],
    teacher_log_probability: Float[Tensor, "batch time"],
    is_completion: Bool[Tensor, "batch time"],
    *,
    estimator: str = "policy_gradient",
    discount: float = 0.0,
) -> Float[Tensor, "batch time"]:
    """One-sample losses in nats per token; sum and divide by the global count of completion tokens.

    On-policy and importance-free: the tokens must come from the student as it is now, and no ratio
    to an older behaviour policy corrects them. With r = student - teacher log-probability:

    - `policy_gradient`: value r; gradient (r_t + discount r_t+1 + ...) d log p, the return detached
      and within its row. Expected gradient at discount 0: that of reverse KL (Tinker cookbook; Lu
      2025, "On-policy distillation").
    - `k1`, `k2`, `k3` (Schulman 2020) used as losses, for study: r, r^2 / 2, exp(-r) - 1 + r. Their
      expected gradients are 0, that of reverse KL, and that of FORWARD KL.

    Entries outside `is_completion` are 0 and get no gradient, whatever they hold. Raises ValueError
    for an unknown estimator, a discount outside [0, 1], or a discount where there is no return.
    """
    require_choice("estimator", estimator, Estimator)
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"discount must be in [0, 1], got {discount}")
    if discount and estimator != "policy_gradient":
        raise ValueError(f"discount acts on policy_gradient only, got {discount} for {estimator}")
    # Masked first: the exponential of a padding value can overflow, and 0 * inf is NaN.
    student = student_log_probability.masked_fill(~is_completion, 0.0)
    log_ratio = student - teacher_log_probability.detach().masked_fill(~is_completion, 0.0)
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return 0.5 * log_ratio.square()
    if estimator == "k3":
        return torch.expm1(-log_ratio) + log_ratio
    fixed = log_ratio.detach()
    returns = discounted_return(fixed, discount)
    returns = returns.masked_fill(returns.isinf(), 0.0)  # the value stays infinite; inf * 0 is NaN
    return fixed + returns * (student - student.detach())


def discounted_return(
    values: Float[Tensor, "batch time"], discount: float
) -> Float[Tensor, "batch time"]:
    """values_t + discount values_t+1 + discount^2 values_t+2 + ... along each row."""
    if discount == 0.0:
        return values
    returns = values.clone()
    for step in range(values.shape[1] - 2, -1, -1):
        returns[:, step] += discount * returns[:, step + 1]
    return returns
