"""Is the tiny model sampled exactly, and does it keep what it is given?"""

from pathlib import Path

import pytest
import torch

from harness.models.tiny import TinyPolicy, TinyShape

VOCABULARY, TIME = 11, 9


def policy(seed: int = 0, width: int = 8) -> TinyPolicy:
    return TinyPolicy(
        TinyShape(width=width, layers=2, heads=2),
        vocabulary_size=VOCABULARY,
        sequence_tokens=TIME,
        generator=torch.Generator().manual_seed(seed),
    )


def tokens(seed: int = 0, rows: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (rows, TIME), generator=generator)


def log_probability(model: TinyPolicy, rows: torch.Tensor) -> torch.Tensor:
    logits = (model.hidden(rows[:, :-1]) @ model.head.T).log_softmax(dim=-1)
    return logits.gather(-1, rows[:, 1:, None])[..., 0]


@pytest.mark.parametrize("seen", [0, 1, 3, TIME - 1])
def test_cached_states_agree_with_uncached(seen: int) -> None:
    model, rows = policy(), tokens()
    with torch.inference_mode():
        decoder = model.body.decoder(rows[:, :seen], time=TIME)
        steps = [
            decoder.step(model.embedding[rows[:, t]] + model.position[t], t)
            for t in range(seen, TIME)
        ]
    expected = model.hidden(rows)[:, seen:]
    torch.testing.assert_close(torch.stack(steps, dim=1), expected, atol=1e-5, rtol=0)


def test_a_token_sees_nothing_after_it() -> None:
    model, rows = policy(), tokens()
    changed = rows.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % VOCABULARY
    torch.testing.assert_close(model.hidden(rows)[:, :5], model.hidden(changed)[:, :5])
    assert not torch.allclose(model.hidden(rows)[:, 5:], model.hidden(changed)[:, 5:])


def test_behaviour_log_probability_is_that_of_the_sampled_tokens() -> None:
    model, prompts = policy(), tokens()[:, :3]
    rollouts = model.sample(prompts, TIME - 3, torch.Generator().manual_seed(5))
    expected = log_probability(model, rollouts.tokens) * rollouts.is_completion[:, 1:]
    torch.testing.assert_close(
        rollouts.behaviour_log_probability[:, 1:], expected, atol=1e-5, rtol=0
    )
    assert torch.equal(rollouts.tokens[:, :3], prompts)


def test_samples_follow_the_model() -> None:
    model = policy()
    rows = 20_000
    drawn = model.sample(torch.ones(rows, 1, dtype=torch.long), 1, torch.Generator()).tokens[:, 1]
    expected = (model.hidden(torch.ones(1, 1, dtype=torch.long)) @ model.head.T).softmax(dim=-1)
    share = torch.bincount(drawn, minlength=VOCABULARY) / rows
    assert (share - expected[0, 0]).abs().max() < 4 * (0.25 / rows) ** 0.5


def test_mask_ends_with_the_first_end_token() -> None:
    model = policy()
    rollouts = model.sample(tokens(rows=64)[:, :2], 7, torch.Generator(), end_token=3)
    for row, mask in zip(rollouts.tokens, rollouts.is_completion, strict=True):
        drawn = row[2:].tolist()
        length = drawn.index(3) + 1 if 3 in drawn else 7
        assert mask.tolist() == [False] * 2 + [True] * length + [False] * (7 - length)
    assert (rollouts.behaviour_log_probability[~rollouts.is_completion] == 0).all()


def test_noise_is_shared_between_models_and_lengths() -> None:
    one, two = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    model = policy()
    model.sample(tokens()[:, :2], 5, one, end_token=0)
    policy(seed=9).sample(tokens()[:, :2], 5, two)
    assert torch.equal(one.get_state(), two.get_state())


def test_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        policy().sample(tokens()[:, :2], 2, torch.Generator(), temperature=0.0)


def test_copy_is_independent_and_saved_weights_return(tmp_path: Path) -> None:
    model = policy()
    twin = model.copy()
    torch.testing.assert_close(twin.hidden(tokens()), model.hidden(tokens()))
    model.save(tmp_path / "m.safetensors")
    with torch.no_grad():
        twin.head.add_(1)
    assert not torch.equal(twin.head, model.head)
    twin.load(tmp_path / "m.safetensors")
    assert torch.equal(twin.head, model.head)
    with pytest.raises(ValueError, match="size mismatch"):
        policy(width=16).load(tmp_path / "m.safetensors")


def test_flop_parameters_leave_out_lookups() -> None:
    model = policy()
    everything = sum(p.numel() for p in model.parameters())
    assert model.flop_parameters == everything - (VOCABULARY + TIME) * 8


@pytest.mark.parametrize("field", [{"width": 9}, {"layers": 0}, {"heads": 0}])
def test_impossible_shapes_are_refused(field: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        TinyShape(**field)
