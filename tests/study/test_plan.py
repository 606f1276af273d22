from dataclasses import replace
from pathlib import Path

import pytest

from harness.domains import Text
from harness.study.ablation import PROFILES
from harness.study.plan import Cell, Where, seed_cells
from harness.study.request import check_domains, leaf_paths, requests
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from harness.trial.config import digest
from tests.study import toy


def test_arms_are_outermost_and_seeds_innermost(tmp_path: Path) -> None:
    planned = Schedule(toy.asked(toy.ablation((1, 2))), Runs(Results(root=tmp_path))).wanted()
    assert [(cell.arm, cell.seed) for cell in planned] == [
        (arm, seed) for arm in ("arm 1", "arm 2") for seed in (0, 1, 2)
    ]


def test_the_digest_is_that_of_configuration_and_seed() -> None:
    where = Where(ablation="toy", world="toy", arm="arm 1", profile="quick")
    made = seed_cells(where, toy.config(), range(3))
    assert [cell.digest for cell in made] == [digest(toy.config(), seed) for seed in range(3)]


def test_a_cell_survives_json() -> None:
    where = Where(ablation="toy", world="toy", arm="arm 1", profile="quick")
    cell = seed_cells(where, toy.config(), range(1))[0]
    assert Cell.from_json(cell.as_json()) == cell


def test_a_setting_reaches_every_arm_that_has_it() -> None:
    made = toy.request(toy.ablation(), toy.FAST, ["student.width=64", "domains.1.source_seed=7"])
    for config in made.ablation.worlds["toy"].cells().values():
        assert config.student.width == 64
        assert config.domains[1].source_seed == 7  # type: ignore[union-attr]


def test_what_is_only_valid_together_is_set_together() -> None:
    made = toy.request(toy.ablation(), toy.FAST, ["student.heads=3", "student.width=33"])
    assert made.ablation.worlds["toy"].arms["arm 1"].student.heads == 3


def test_a_parameter_that_is_set_is_not_tuned() -> None:
    made = toy.request(toy.ablation(tuned=True), toy.FAST, [f"{toy.RATE}=0.004"])
    assert made.tuned_parameters("arm 1", toy.config()) == {}
    assert toy.request(toy.ablation(tuned=True), toy.FAST).tuned_parameters("arm 1", toy.config())


def test_smoke_shortens_every_training() -> None:
    made = toy.request(toy.ablation((100, 200)), PROFILES["smoke"])
    steps = [c.method.steps for c in made.configs(made.ablation.worlds["toy"]).values()]
    assert steps == [5, 10]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("student.widht=1", r"not there; did you mean 'student\.width'\?; there are: .*base\."),
        ("student=1", "not there"),
        ("domains.9.name=x", "not there"),
        ("student.width=wide", r"student\.width: expected int, got 'wide'"),
        ("student.width=0", r"student\.width: width must be at least 1"),
        ("student.width", r"--set must be path=value, got 'student\.width'"),
        ("method.steps=5", "are the same trial"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(setting: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        toy.request(toy.ablation(), toy.FAST, [setting])


def test_an_unknown_arm_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="--arm arm1: not there; did you mean 'arm 1'"):
        toy.request(toy.ablation(), toy.FAST, arms=["arm1"])


def test_a_path_or_an_arm_may_be_in_one_of_several_ablations() -> None:
    both = [toy.ablation((1, 2)), toy.ablation((2, 3), name="other")]
    found = requests(both, toy.FAST, arms=["arm 3"])
    assert [request.ablation.name for request in found] == ["other"]
    assert set(found[0].configs(found[0].ablation.worlds["toy"])) == {"arm 2", "arm 3"}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "data"),
        ({"empty.txt": ""}, "data"),
        ({"broken.jsonl": '{"text": "one"}\n{broken\n'}, r"broken\.jsonl.*2"),
    ],
)
def test_faulty_data_of_the_users_is_named_before_anything_runs(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    folder = tmp_path / "data"
    for name, content in files.items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    domains = tuple(Text(name=name, path=str(folder)) for name in "ab")
    config = replace(toy.config(), domains=domains)
    section = replace(toy.ablation((1,)).worlds["toy"], arms={"arm 1": config})
    asked = toy.request(replace(toy.ablation((1,)), worlds={"toy": section}))
    with pytest.raises((ValueError, OSError), match=words):
        check_domains([asked])


def test_leaf_paths_name_every_setting() -> None:
    paths = leaf_paths(toy.config())
    assert "domains.1.name" in paths
    assert toy.RATE in paths
    assert "method" not in paths


def test_growing_a_plan_keeps_the_digests(tmp_path: Path) -> None:
    runs = Runs(Results(root=tmp_path))
    small = Schedule(toy.asked(toy.ablation((1, 2)), seeds=2), runs).wanted()
    large = Schedule(toy.asked(toy.ablation((3, 2, 1)), seeds=3), runs).wanted()
    assert {cell.digest for cell in small} < {cell.digest for cell in large}


def test_a_profile_asks_for_disjoint_seeds() -> None:
    for profile in PROFILES.values():
        assert not set(profile.confirm_seeds()) & set(profile.explore_seeds())
    assert replace(toy.FAST, seeds=2).confirm_seeds() == range(2)
