"""Does a store give what teachers would, one head at a time, and refuse what was changed?"""

from pathlib import Path

import pytest
import torch

from harness.models.policy import Rollouts
from harness.teachers.files import TeacherFile, file_digest, write_teachers
from harness.teachers.scheduler import parse_scheduler
from harness.teachers.state_cache import StateCache
from harness.teachers.store import TeacherStore
from harness.training.budget import Ledger
from harness.training.cache_error import cache_error_nats
from harness.training.distill import schedule, train_distill
from harness.training.objective import Objective
from harness.training.rollouts import collect, labels
from tests.training.worlds import DOMAINS, distill, policy, stored, streams

TEACHERS = [policy(1), policy(2, width=16)]


def batch() -> Rollouts:
    return collect("student", policy(0), stored([]), DOMAINS, 4, streams(), temperature=1.0, step=0)


def scheduled(store: TeacherStore, scheduler: str = "by_domain") -> torch.Tensor:
    return schedule(
        parse_scheduler(scheduler), store, batch(), labels(DOMAINS, 4), 0, streams(), Ledger()
    )


def gradient_with(scheduler: str = "by_domain", **caching: object) -> torch.Tensor:
    student, store = policy(0), stored(TEACHERS, **caching)
    weights = scheduled(store, scheduler)
    Objective.parse(distill()).backward(student, store, batch(), weights)
    return torch.cat([p.grad.flatten() for p in student.parameters() if p.grad is not None])


@pytest.mark.parametrize("scheduler", ["by_domain", "soft_likelihood"])
@pytest.mark.parametrize(
    "caching",
    [
        {"content": "logits"},
        {"content": "nothing"},
        {"sort_by_teacher": False},
        {"prefetch": True},
        {"content": "logits", "sort_by_teacher": False},
    ],
)
def test_however_states_wait_the_gradient_is_the_same(
    caching: dict[str, object], scheduler: str
) -> None:
    expected = gradient_with(scheduler)
    torch.testing.assert_close(gradient_with(scheduler, **caching), expected, atol=1e-6, rtol=1e-5)


def test_bfloat16_states_cost_a_little_and_half_the_bytes() -> None:
    exact, rounded = stored(TEACHERS), stored(TEACHERS, dtype="bfloat16")
    weights = [scheduled(store) for store in (exact, rounded)]
    errors = [
        cache_error_nats(policy(0), store, batch(), w)
        for store, w in zip((exact, rounded), weights, strict=True)
    ]
    assert errors[0] < 1e-6
    assert 1e-6 < errors[1] < 0.1
    assert exact.cache.bytes_written == 2 * rounded.cache.bytes_written


def trained_facts(teachers: int = 2, scheduler: str = "by_domain", **caching: object):  # type: ignore[no-untyped-def]
    config = distill(steps=3, scheduler=scheduler)
    store = stored([policy(1 + k) for k in range(teachers)], **caching)
    return train_distill(policy(0), store, DOMAINS, config, streams(), Ledger(), lambda *_: False)


def test_one_head_is_resident_and_each_is_loaded_once_per_step() -> None:
    facts = trained_facts()
    assert facts["store.peak_resident_heads"] == 1
    assert facts["store.head_loads"] == facts["store.body_loads"] == 2


def test_unsorted_rollouts_load_a_head_at_every_change() -> None:
    facts = trained_facts(sort_by_teacher=False)
    assert facts["store.head_loads"] == 8  # rollouts of two domains alternate
    assert facts["store.peak_resident_heads"] == 1


def test_fetching_ahead_holds_two_heads_and_loads_no_more() -> None:
    facts = trained_facts(prefetch=True)
    assert facts["store.peak_resident_heads"] == 2
    assert facts["store.head_loads"] == 2


def test_recomputing_writes_nothing_and_runs_a_body_again_after_routing_by_likelihood() -> None:
    facts = trained_facts(content="nothing")
    assert facts["store.body_loads"] == 2
    assert facts["store.bytes_written"] == 0
    assert trained_facts(content="nothing", scheduler="soft_likelihood")["store.body_loads"] == 4
    assert trained_facts(scheduler="soft_likelihood")["store.body_loads"] == 2


def test_a_scheduler_by_likelihood_leaves_its_normalizers_to_the_loss() -> None:
    store = stored(TEACHERS)
    scheduled(store, "soft_likelihood")
    rows = torch.arange(8)
    for k, teacher in enumerate(TEACHERS):
        states = teacher.hidden(batch().tokens[:, :-1])[batch().is_completion[:, 1:]]
        with store.operands(k, rows) as kept:
            torch.testing.assert_close(kept.hidden, states.detach())
            torch.testing.assert_close(
                kept.log_normalizer, (states @ teacher.head.T).logsumexp(-1).detach()
            )


def test_part_of_the_rollouts_gives_their_states_in_row_order() -> None:
    store = stored(TEACHERS)
    scheduled(store, "soft_likelihood")
    rows, counted = torch.tensor([1, 4, 7]), batch().is_completion[:, 1:]
    states = TEACHERS[1].hidden(batch().tokens[:, :-1])
    with store.operands(1, rows) as kept:
        torch.testing.assert_close(kept.hidden, states[rows][counted[rows]].detach())


def test_what_is_written_again_takes_the_whole_place_of_what_was_there(tmp_path: Path) -> None:
    cache = StateCache(folder=tmp_path, dtype="float32")
    for rows in (3, 5, 2, 0):
        values = torch.randn(rows, 4)
        cache.put("0", values)
        assert torch.equal(cache.get("0"), values)
        assert [file.stat().st_size for file in tmp_path.iterdir()] == [16 * rows]


@pytest.mark.parametrize("damage", ["changed", "cut", "removed"])
def test_damaged_states_are_refused_with_their_path(damage: str) -> None:
    store = stored(TEACHERS)
    scheduled(store)
    path = store.cache.folder / "1.states"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(data if damage == "changed" else data[:-4])
    with (
        pytest.raises(ValueError, match=r"1\.states: (cached states are missing|checksum)"),
        store.operands(1, torch.tensor([4])),
    ):
        pass


def test_a_damaged_teacher_is_refused_with_its_path(tmp_path: Path) -> None:
    file = write_teachers([policy(1)], tmp_path)[0]
    digest = file_digest(file.path)
    data = bytearray(file.path.read_bytes())
    data[-1] ^= 1
    file.path.write_bytes(data)
    with pytest.raises(ValueError, match=r"teacher-0\.safetensors: checksum differs"):
        TeacherFile.open(file.path, file.shape, digest)
    with pytest.raises(ValueError, match=r"teacher-0\.safetensors: changed or removed"):
        file.body()
    with pytest.raises(ValueError, match=r"nowhere: missing"):
        TeacherFile.open(tmp_path / "nowhere", file.shape, digest)


def test_a_mapped_teacher_is_the_teacher(tmp_path: Path) -> None:
    file = write_teachers([policy(1)], tmp_path)[0]
    tokens = batch().tokens
    expected = policy(1).hidden(tokens)
    assert torch.equal(file.policy().hidden(tokens), expected)
    assert torch.equal(file.body().hidden(tokens), expected)
    assert torch.equal(file.head(), policy(1).head)
    assert file.flop_parameters == policy(1).flop_parameters
    assert file.head_bytes == policy(1).head.numel() * 4


@pytest.mark.parametrize("scheduler", ["by_domain", "round_robin"])
def test_equal_teachers_update_the_student_as_one_does(scheduler: str) -> None:
    """Thirty-two files of one teacher, against two."""
    wide = tuple(
        type(DOMAINS[0])(
            name=f"{k}", source_seed=1, states=7, concentration=1.0, tag=0, sequence_tokens=9
        )
        for k in range(32)
    )
    students = []
    for domains in (wide, wide[:2]):
        store, student = stored([policy(1)] * len(domains)), policy(0)
        config = distill(steps=2, scheduler=scheduler)
        config = type(config)(**{**config.__dict__, "batch_sequences": 32})
        facts = train_distill(
            student, store, domains, config, streams(), Ledger(), lambda *_: False
        )
        assert facts["store.head_loads"] == len(domains)
        assert facts["store.peak_resident_heads"] == 1
        students.append(student)
    for one, other in zip(*(student.parameters() for student in students), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
