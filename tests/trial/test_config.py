"""Does a configuration keep its identity, and refuse what it cannot be?"""

from dataclasses import replace
from pathlib import Path

import pytest

from ablations.baseline import MARKOV, TEXT, sft_controls
from harness.trial.config import (
    TrialConfig,
    changed_fields,
    digest,
    from_normal_form,
    normal_form,
    override,
)


@pytest.mark.parametrize("config", [MARKOV, TEXT, *sft_controls(MARKOV).values()])
def test_normal_form_round_trips(config: TrialConfig) -> None:
    assert from_normal_form(normal_form(config)) == config


def test_digest_names_content() -> None:
    assert digest(MARKOV, 0) == digest(from_normal_form(normal_form(MARKOV)), 0)
    others = [
        digest(MARKOV, 1),
        digest(TEXT, 0),
        *(digest(c, 0) for c in sft_controls(MARKOV).values()),
    ]
    assert len({digest(MARKOV, 0), *others}) == 6


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("method.optimization.learning_rate", "1e-4", 1e-4),
        ("method.scheduler", "random", "random"),
        ("specialist.width", "64", 64),
        ("specialist.width", "none", None),
        ("specialist.gap_nats", "none", None),
        ("domains.0.name", "first", "first"),
        ("domains.1.overlap", "0.5", 0.5),
        ("student.width", "16", 16),
    ],
)
def test_override(path: str, text: str, value: object) -> None:
    found: object = override(MARKOV, path, text)
    for key in path.split("."):
        found = found[int(key)] if isinstance(found, tuple) else getattr(found, key)
    assert found == value
    assert changed_fields(MARKOV, override(MARKOV, path, text)) <= {path}


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("method.rate", "1", "no field 'rate'; allowed: steps, batch_sequences"),
        ("domains.7.name", "x", "'7' must be an index below 2"),
        ("domains.x.name", "x", "'x' must be an index below 2"),
        ("method.steps", "many", "expected int, got 'many'"),
        ("method.scheduler", "fifo", "scheduler must be one of by_domain"),
        ("student.heads", "5", "width must be a multiple of heads=5"),
        ("student.width.more", "5", "no field 'more'; allowed: none"),
        ("domains.0.name", "b", "distinct names"),
    ],
)
def test_override_refuses(path: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        override(MARKOV, path, text)
    assert str(caught.value).startswith(path)


def test_unknown_type_and_field_are_named() -> None:
    form = normal_form(MARKOV)
    with pytest.raises(ValueError, match=r"type must be one of .*'Distill'.* got 'Magic'"):
        from_normal_form({**form, "method": {**form["method"], "type": "Magic"}})
    with pytest.raises(ValueError, match="Distill has no field 'spell'"):
        from_normal_form({**form, "method": {**form["method"], "spell": 1}})


def test_other_text_is_another_trial(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three four " * 2000)
    config = replace(TEXT, domains=(replace(TEXT.domains[0], path=str(tmp_path)), TEXT.domains[1]))
    before, form = digest(config, 0), normal_form(config)
    assert before != digest(TEXT, 0)
    (tmp_path / "a.txt").write_text("four three two one " * 2000)
    again = replace(config, domains=tuple(replace(domain) for domain in config.domains))
    assert digest(again, 0) != before
    with pytest.raises(ValueError, match="the text of domain 'sources' has changed"):
        from_normal_form(form)


def test_domains_must_agree() -> None:
    with pytest.raises(ValueError, match="domains must share one vocabulary_size"):
        replace(MARKOV, domains=(MARKOV.domains[0], TEXT.domains[0]))
    with pytest.raises(ValueError, match="at least one domain"):
        replace(MARKOV, domains=())
