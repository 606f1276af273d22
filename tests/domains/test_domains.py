"""Does every domain keep the contract of `Domain`?"""

import dataclasses

import pytest
import torch

from harness.domains import Fold, Markov, Text
from harness.domains.base import SPLITS, Domain, stream
from harness.trial.config import from_normal_form, normal_form, override

MARKOV = Markov(name="markov", prompt_tokens=3, sequence_tokens=16, tag=1, pool_sequences=64)
FOLD = Fold(name="fold", operator="maximum", operands=3, thinking_fraction=0.5, tag=1)
TEXT = Text(name="text", corpus="stdlib_topics", limit_bytes=60_000, tag=1)
DOMAINS = [MARKOV, FOLD, TEXT]
EVERY = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


@EVERY
def test_is_a_domain_of_plain_values(domain: Markov | Fold | Text) -> None:
    assert isinstance(domain, Domain)
    form = normal_form(domain)
    assert all(isinstance(value, str | int | float | bool | None) for value in form.values())
    assert from_normal_form(form, type(domain)) == domain
    assert hash(dataclasses.replace(domain)) == hash(domain)
    assert override(domain, "tag", "none").tag is None


@EVERY
def test_demonstrations_depend_on_the_generator_alone(domain: Domain) -> None:
    one, same, other = (
        dataclasses.replace(domain).demonstrations(32, "prompts", stream(seed, "test"))
        for seed in (0, 0, 1)
    )
    assert torch.equal(one.tokens, same.tokens)
    assert torch.equal(one.is_completion, same.is_completion)
    assert not torch.equal(one.tokens, other.tokens)


@EVERY
def test_no_row_is_in_two_splits(domain: Domain, generator: torch.Generator) -> None:
    length = domain.prompt_tokens if isinstance(domain, Fold) else domain.sequence_tokens
    rows = {
        split: {tuple(row[:length]) for row in drawn.tokens.tolist()}
        for split in SPLITS
        if (drawn := domain.demonstrations(500, split, generator))
    }
    assert len(set.union(*rows.values())) == sum(len(found) for found in rows.values())


@EVERY
def test_shapes_ids_and_mask(domain: Domain, generator: torch.Generator) -> None:
    batch = domain.demonstrations(64, "tuning", generator)
    assert batch.tokens.shape == batch.is_completion.shape == (64, domain.sequence_tokens)
    assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < domain.vocabulary_size
    assert not batch.is_completion[:, : domain.prompt_tokens].any()
    assert batch.is_completion[:, domain.prompt_tokens].all()
    if domain.end_token is None:
        assert batch.is_completion[:, domain.prompt_tokens :].all()


@EVERY
def test_prompts_begin_what_the_split_demonstrates(domain: Domain) -> None:
    prompts = domain.prompts(32, "evaluation", stream(0, "test"))
    batch = domain.demonstrations(32, "evaluation", stream(0, "test"))
    assert torch.equal(prompts, batch.tokens[:, : domain.prompt_tokens])


@EVERY
def test_position_0_tells_the_tag_or_nothing(domain: Markov | Fold | Text) -> None:
    ids = []
    for tag in (None, 0, 1):
        tagged = dataclasses.replace(domain, tag=tag)
        first = tagged.prompts(16, "prompts", stream(0, "test"))[:, 0]
        assert (first == first[0]).all()
        ids.append(int(first[0]))
    assert ids == [
        domain.vocabulary_size - 3,
        domain.vocabulary_size - 2,
        domain.vocabulary_size - 1,
    ]


@EVERY
def test_truth_is_normalised_or_absent(domain: Domain, generator: torch.Generator) -> None:
    batch = domain.demonstrations(16, "evaluation", generator)
    truth = domain.source_log_probabilities(batch.tokens)
    reward = domain.reward(batch.tokens, batch.is_completion)
    assert (truth is None) == (not isinstance(domain, Markov))
    assert (reward is None) == (not isinstance(domain, Fold))
    if truth is not None:
        total = truth[:, 1:].exp().sum(dim=-1)
        torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)


@EVERY
@pytest.mark.parametrize(("tag", "tags"), [(2, 2), (-1, 2), (0, 0), (None, -1)])
def test_a_tag_outside_of_the_reserved_is_refused(
    domain: Markov | Fold | Text, tag: int | None, tags: int
) -> None:
    with pytest.raises(ValueError, match=r"tags? must be .*, got -?\d"):
        dataclasses.replace(domain, tag=tag, tags=tags)


@pytest.mark.parametrize("domain", [MARKOV, TEXT], ids=lambda domain: domain.name)
@pytest.mark.parametrize("prompt_tokens", [0, 16, 48])
def test_a_prompt_without_completion_is_refused(domain: Markov | Text, prompt_tokens: int) -> None:
    with pytest.raises(ValueError, match=r"prompt_tokens must be in \[1, 16\), got"):
        dataclasses.replace(domain, prompt_tokens=prompt_tokens, sequence_tokens=16)
