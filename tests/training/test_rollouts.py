"""Are batches made by whom the prefix names, in equal shares and in domain order?"""

import pytest
import torch

from harness.training.rollouts import collect, demonstrations, labels, rows_per_domain
from tests.training.worlds import DOMAINS, policy, stored, streams


def test_labels_follow_the_batch() -> None:
    batch = demonstrations(DOMAINS, 3, "demonstrations", torch.Generator())
    tags = batch.tokens[:, 0]
    assert labels(DOMAINS, 3).tolist() == [0, 0, 0, 1, 1, 1]
    assert len(set(tags[:3].tolist())) == len(set(tags[3:].tolist())) == 1
    assert tags[0] != tags[3]


def test_the_prefix_says_who_completes() -> None:
    student, teacher = policy(0), policy(2)
    store = stored([policy(1), teacher])
    sampled = {
        prefix: collect(prefix, student, store, DOMAINS, 4, streams(), temperature=1.0, step=5)
        for prefix in ("student", "teacher", "data")
    }
    assert sampled["student"].policy_step == 5
    assert (sampled["student"].behaviour_log_probability != 0).any()
    assert (sampled["data"].behaviour_log_probability == 0).all()
    assert not torch.equal(sampled["student"].tokens, sampled["teacher"].tokens)
    expected = teacher.hidden(sampled["teacher"].tokens[4:, :-1]) @ teacher.head.T
    value = expected.log_softmax(dim=-1).gather(-1, sampled["teacher"].tokens[4:, 1:, None])
    counted = sampled["teacher"].is_completion[4:, 1:]
    torch.testing.assert_close(
        sampled["teacher"].behaviour_log_probability[4:, 1:][counted],
        value[..., 0][counted].detach(),
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("batch", [0, 3, -2])
def test_rows_must_divide(batch: int) -> None:
    with pytest.raises(ValueError, match="batch_sequences must be a positive multiple"):
        rows_per_domain(batch, DOMAINS)
