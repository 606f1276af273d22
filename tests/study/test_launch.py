import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from harness.study.ablation import PROFILES, Tuning
from harness.study.queue import Queue
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from harness.trial.record import read_records
from tests.study import toy


def filed(root: Path, name: str = "toy") -> list[tuple[str, str, int, str]]:
    records = read_records(root / "runs" / f"{name}.jsonl")
    return [(r.world, r.arm, r.seed, r.digest) for r in records]


def test_every_cell_once_with_four_workers(tmp_path: Path) -> None:
    watcher = toy.Quiet()
    wanted = toy.asked(toy.ablation((1, 2, 3, 4), milliseconds=5), seeds=5)
    assert toy.study(tmp_path, wanted, workers=4, watcher=watcher) == []
    assert len(filed(tmp_path)) == len(set(filed(tmp_path))) == 20
    assert set(Counter(toy.evaluations(tmp_path / "cache")).values()) == {1}
    assert watcher.done == ["toy"]


def test_a_done_study_runs_nothing_and_reports_again(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked())
    before = toy.evaluations(tmp_path / "cache")
    watcher = toy.Quiet()
    toy.study(tmp_path, toy.asked(), watcher=watcher)
    assert toy.evaluations(tmp_path / "cache") == before
    assert watcher.done == ["toy"]


def test_adding_arms_seeds_and_reordering_keep_what_is_done(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked(toy.ablation((1, 2))))
    toy.study(tmp_path, toy.asked(toy.ablation((3, 2, 1)), seeds=4))
    assert len(toy.evaluations(tmp_path / "cache")) == len(set(filed(tmp_path))) == 12


def test_a_cell_that_two_ablations_want_is_run_once_and_filed_under_both(tmp_path: Path) -> None:
    other = toy.ablation((2, 3), name="other")
    toy.study(tmp_path, toy.asked(), toy.asked(other))
    assert len(toy.evaluations(tmp_path / "cache")) == 9
    first, second = filed(tmp_path), filed(tmp_path, "other")
    assert len(first) == len(second) == 6
    assert len(set(first) & set(second)) == 3
    assert {r.ablation for r in read_records(tmp_path / "runs" / "other.jsonl")} == {"other"}


def test_arms_that_come_to_one_trial_are_run_once_and_both_filed(tmp_path: Path) -> None:
    wanted = toy.request(toy.ablation((1, 2, 3)), PROFILES["smoke"])  # all shortened to the minimum
    toy.study(tmp_path, wanted)
    assert len(toy.evaluations(tmp_path / "cache")) == 2
    assert len(set(filed(tmp_path))) == len(filed(tmp_path)) == 6


def test_a_cell_that_raised_once_is_run_again(tmp_path: Path) -> None:
    assert toy.study(tmp_path, toy.asked(toy.ablation((toy.RAISES_ONCE, 2)))) == []
    assert len(set(filed(tmp_path))) == 6
    assert len(toy.evaluations(tmp_path / "cache")) == 9


def test_a_cell_that_raises_is_given_up_after_three_attempts_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    wanted = toy.asked(toy.ablation((toy.RAISES, 2)), seeds=2)
    watcher = toy.Quiet()
    failures = toy.study(tmp_path, wanted, watcher=watcher)
    assert [(f.cell.arm, f.attempts) for f in failures] == [("arm 901", 3)] * 2
    assert failures[0].error.startswith("RuntimeError: attempt 3 of seed")
    assert "toy.py" in failures[0].error
    assert {arm for _, arm, _, _ in filed(tmp_path)} == {"arm 2"}
    assert watcher.done == ["toy"]  # with what there is
    assert len(toy.study(tmp_path, wanted)) == 2  # a new run gives new attempts
    assert Counter(toy.evaluations(tmp_path / "cache")).most_common(1)[0][1] == 6


def test_a_cell_that_kills_its_worker_is_run_again(tmp_path: Path) -> None:
    assert toy.study(tmp_path, toy.asked(toy.ablation((toy.KILLED, 2)))) == []
    assert len(set(filed(tmp_path))) == len(filed(tmp_path)) == 6


def test_divergence_is_a_result_and_never_run_again(tmp_path: Path) -> None:
    wanted = toy.asked(toy.ablation((toy.DIVERGES, 2)))
    assert toy.study(tmp_path, wanted) == toy.study(tmp_path, wanted) == []
    assert len(toy.evaluations(tmp_path / "cache")) == 6
    records = read_records(tmp_path / "runs" / "toy.jsonl")
    assert Counter(r.status for r in records) == {"finished": 3, "diverged": 3}


def test_arms_run_with_what_the_search_found(tmp_path: Path) -> None:
    wanted = toy.asked(toy.ablation(tuned=True))
    assert toy.study(tmp_path, wanted) == []
    records = read_records(tmp_path / "runs" / "toy.jsonl")
    rates = {r.config["method"]["optimization"]["learning_rate"] for r in records}
    assert rates == {2e-3}
    explored = read_records(tmp_path / "runs" / "explore.jsonl")
    assert {r.seed for r in explored} == {1000, 1001}
    assert len(explored) == 2 * (5 + 3)  # the better three of five get a second seed
    toy.study(tmp_path, wanted)
    assert len(toy.evaluations(tmp_path / "cache")) == 16 + 6


def test_what_was_found_is_said_and_an_end_of_the_range_marked(tmp_path: Path) -> None:
    made = toy.ablation(tuned=True, families={"arm 2": "arm 1"})
    for bounds, words in (((5e-4, 8e-3), "0.002"), ((2e-3, 6e-3), "0.002 (end of range)")):
        wanted = toy.asked(
            dataclasses.replace(
                made, tuning=Tuning(parameters={toy.RATE: bounds}, families=made.tuning.families)
            )
        )
        toy.study(tmp_path, wanted)
        runs = Runs(Results(root=tmp_path))
        runs.refresh()
        assert Schedule(wanted, runs).tuned_lines() == [f"tuned {toy.RATE}={words}: toy/arm 1"]


def test_families_that_found_the_same_share_a_line(tmp_path: Path) -> None:
    wanted = toy.asked(toy.ablation(range(1, 8), tuned=True))
    toy.study(tmp_path, wanted)
    runs = Runs(Results(root=tmp_path))
    runs.refresh()
    assert Schedule(wanted, runs).tuned_lines() == [
        f"tuned {toy.RATE}=0.002: toy/arm 1, toy/arm 2, toy/arm 3, toy/arm 4 and 3 more"
    ]
    assert len(Schedule(wanted, runs).tuned()) == 7


def test_ablations_that_share_a_representative_share_its_search(tmp_path: Path) -> None:
    one = toy.ablation((1, 2), tuned=True, families={"arm 2": "arm 1"})
    two = toy.ablation((1, 3), name="other", tuned=True, families={"arm 3": "arm 1"})
    toy.study(tmp_path, toy.asked(one), toy.asked(two))
    assert len(read_records(tmp_path / "runs" / "explore.jsonl")) == 8


def test_where_the_search_fails_its_arms_are_left_out_and_named(tmp_path: Path) -> None:
    wanted = toy.asked(toy.ablation((toy.RAISES, 2), tuned=True))
    failures = toy.study(tmp_path, wanted)
    assert {f.cell.ablation for f in failures} == {"explore"}
    assert {arm for _, arm, _, _ in filed(tmp_path)} == {"arm 2"}


def test_cells_left_by_another_plan_are_not_run(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    results.prepare()
    stale = Schedule(toy.asked(toy.ablation((7, 8), name="stale")), Runs(results))
    Queue(results).enqueue(stale.wanted())
    toy.study(tmp_path, toy.asked())
    assert len(toy.evaluations(tmp_path / "cache")) == 6


def test_only_the_arms_asked_for_and_their_reference_run(tmp_path: Path) -> None:
    wanted = toy.request(toy.ablation((1, 2, 3)), toy.FAST, arms=["arm 3"])
    toy.study(tmp_path, wanted)
    assert {arm for _, arm, _, _ in filed(tmp_path)} == {"arm 1", "arm 3"}


def test_a_half_written_line_is_reported_and_its_cell_run_again(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked())
    path = tmp_path / "runs" / "toy.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    watcher = toy.Quiet()
    toy.study(tmp_path, toy.asked(), watcher=watcher)
    assert "half-written last line" in watcher.lines[0]
    assert len(set(filed(tmp_path))) == len(filed(tmp_path)) == 6
    assert len(toy.evaluations(tmp_path / "cache")) == 7


def test_a_broken_line_is_named_and_nothing_is_run(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked())
    path = tmp_path / "runs" / "toy.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "{broken\n" + "".join(lines[1:]))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"toy\.jsonl:2: not JSON"):
        toy.study(tmp_path, toy.asked(seeds=5))
    assert path.read_bytes() == before


def test_the_records_say_what_was_run_where(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked())
    record = read_records(tmp_path / "runs" / "toy.jsonl")[0]
    assert record.environment["threads"] == 1
    assert record.profile == "quick"
    assert record.wall_seconds >= 0
