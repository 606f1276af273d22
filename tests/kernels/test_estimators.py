"""What is the expected gradient of a sampled-token loss, and what stays out of it?"""

import math

import pytest
import torch

from opd_kernels import forward_kl, parse_support, reverse_kl, sampled_token_loss

STUDENT = torch.tensor([0.6, 0.4], dtype=torch.float64).log()
TEACHER = torch.tensor([0.9, 0.1], dtype=torch.float64).log()


def expected_gradient(estimator: str) -> torch.Tensor:
    """Exact expectation over y ~ student of the gradient in the student's logits."""
    total = torch.zeros(2, dtype=torch.float64)
    for token in range(2):
        logits = STUDENT.clone().requires_grad_()
        chosen = logits.log_softmax(-1)[token].reshape(1, 1)
        everything = torch.ones(1, 1, dtype=torch.bool)
        sampled_token_loss(
            chosen, TEACHER[token].reshape(1, 1), everything, estimator=estimator
        ).sum().backward()
        total += STUDENT[token].exp() * logits.grad
    return total


def full_gradient(function) -> torch.Tensor:
    logits = STUDENT.clone().requires_grad_()
    function(logits.log_softmax(-1), TEACHER).backward()
    return logits.grad


@pytest.mark.parametrize(
    ("estimator", "same_as"),
    [("policy_gradient", reverse_kl), ("k1", None), ("k2", reverse_kl), ("k3", forward_kl)],
)
def test_expected_gradient(estimator: str, same_as) -> None:
    expected = torch.zeros(2, dtype=torch.float64) if same_as is None else full_gradient(same_as)
    torch.testing.assert_close(expected_gradient(estimator), expected)


def test_discounted_return_is_detached_and_stays_in_its_row() -> None:
    student = torch.tensor([[-1.0, -2.0, -3.0, -9.0], [-4.0, -5.0, -6.0, -7.0]]).requires_grad_()
    teacher = torch.tensor([[-1.5, -1.0, -5.0, 4.0], [-4.0, -4.0, -4.0, -4.0]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])
    loss = sampled_token_loss(student, teacher, mask, discount=0.5)
    loss.sum().backward()
    returns = torch.tensor([[0.5, 0.0, 2.0, 0.0], [0.0, -2.75, -3.5, -3.0]])
    returns[0, 1] = -1.0 + 0.5 * 2.0
    returns[0, 0] = 0.5 + 0.5 * returns[0, 1]
    torch.testing.assert_close(student.grad, returns)
    torch.testing.assert_close(loss.detach(), (student.detach() - teacher).masked_fill(~mask, 0.0))


@pytest.mark.parametrize("estimator", ["policy_gradient", "k1", "k2", "k3"])
def test_padding_never_enters(estimator: str) -> None:
    student = torch.tensor([[-1.0, -1e4, math.nan]]).requires_grad_()
    teacher = torch.tensor([[-2.0, 1e4, math.inf]])
    mask = torch.tensor([[True, False, False]])
    loss = sampled_token_loss(student, teacher, mask, estimator=estimator)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert (loss[0, 1:] == 0).all()
    assert (student.grad[0, 1:] == 0).all()


def test_a_row_without_completion_is_exactly_zero() -> None:
    student = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.zeros(2, 3, dtype=torch.bool)
    loss = sampled_token_loss(student, torch.zeros(2, 3), mask).sum()
    loss.backward()
    assert loss == 0
    assert (student.grad == 0).all()


def test_a_token_the_teacher_forbids_is_infinite_but_not_nan() -> None:
    student = torch.tensor([[-1.0]]).requires_grad_()
    loss = sampled_token_loss(student, torch.tensor([[-math.inf]]), torch.tensor([[True]]))
    loss.sum().backward()
    assert loss.item() == math.inf
    assert student.grad.isfinite().all()


@pytest.mark.parametrize(
    ("estimator", "discount"), [("k4", 0.0), ("k2", 0.5), ("policy_gradient", 1.5)]
)
def test_refuses(estimator: str, discount: float) -> None:
    with pytest.raises(ValueError, match=r"estimator|discount"):
        sampled_token_loss(
            torch.zeros(1, 1),
            torch.zeros(1, 1),
            torch.ones(1, 1, dtype=torch.bool),
            estimator=estimator,
            discount=discount,
        )


@pytest.mark.parametrize(
    "text",
    [
        "full",
        "top_k(16, student, tail)",
        "top_k(4, union, renormalize)",
        "top_k(1, teacher, truncate)",
        "sampled_token(policy_gradient)",
        "sampled_token(k2)",
    ],
)
def test_support_round_trip(text: str) -> None:
    assert str(parse_support(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all",
        "full(1)",
        "top_k",
        "top_k(0)",
        "top_k(2.5)",
        "top_k(2, me)",
        "top_k(2, union, clamp)",
        "top_k(-3)",
        "top_k(1, student, renormalize)",
        "top_k(1, union, renormalize)",
        "sampled_token(k9)",
        "top_k(1,2,3,4)",
    ],
)
def test_support_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"support|skip_below|k must|owner|remainder|estimator"):
        parse_support(text)
