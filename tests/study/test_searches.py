"""Searches over choices and numbers at once."""

import dataclasses
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from ablations.design_search import ABLATION, SEARCH, SEARCHED
from harness.report.factor_tables import factorial_values
from harness.report.outcomes import worlds
from harness.study.ablation import PROFILES, Ablation, Profile, Range
from harness.study.explore import Found, Search, replay
from harness.study.launch import read_plan
from harness.study.plan import Cell
from harness.study.request import Request
from harness.study.results import Results
from harness.study.runs import Known, Runs, RunsFile
from harness.study.schedule import Schedule
from harness.study.space import grid
from harness.trial.config import changed_fields
from harness.trial.record import read_records
from tests.study import toy

DIVERGENCE, SCHEDULER, GAP = "method.divergence", "method.scheduler", "specialist.gap_nats"
SPACE: dict[str, Range] = {
    toy.RATE: (5e-4, 8e-3),
    DIVERGENCE: ("reverse_kl", "forward_kl", "jsd(0.5)"),
    SCHEDULER: ("round_robin", "by_domain"),
    GAP: ("0.1", "0.2", "0.3"),
}
NOWHERE = RunsFile(results=Results(root=Path("nowhere")), name="explore")


def search(**changes: object) -> Search:
    made = Search(
        world="toy",
        profile="quick",
        representative=toy.config(),
        parameters=SPACE,
        trials=40,
        seeds=range(1000, 1002),
        metric="nats",
        higher_is_better=False,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def outcome(cell: Cell) -> Known:
    method = cell.config["method"]
    nats = abs(math.log(method["optimization"]["learning_rate"] / 2e-3)) + 0.01 * (cell.seed % 2)
    nats += method["divergence"] != "jsd(0.5)"
    nats += method["scheduler"] != "by_domain"
    nats += 0.3 - cell.config["specialist"]["gap_nats"]
    return known(nats)


def known(nats: float) -> Known:
    return Known(
        file=NOWHERE,
        offset=0,
        status="finished",
        macro={"nats": nats},
        wall_seconds=1.0,
        profile="quick",
    )


def run_through(asked: Search, workers: int) -> tuple[Found, set[str]]:
    """The end of a search of which `workers` cells are finished at a time, in any order."""
    results: dict[str, Known] = {}
    order = random.Random(workers)
    while (found := replay(asked, results.get)).values is None:
        cells = order.sample(found.cells, min(workers, len(found.cells)))
        assert cells
        for cell in cells:
            assert cell.digest not in results
            results[cell.digest] = outcome(cell)
    return found, set(results)


def test_a_search_finds_the_choices_and_the_number() -> None:
    found, _ = run_through(search(), 2)
    assert found.values is not None
    assert {**found.values, toy.RATE: 0} == {
        toy.RATE: 0,
        DIVERGENCE: "jsd(0.5)",
        SCHEDULER: "by_domain",
        GAP: "0.3",
    }
    assert 1e-3 < float(found.values[toy.RATE]) < 4e-3


def test_the_number_and_order_of_workers_change_nothing() -> None:
    assert run_through(search(), 1) == run_through(search(), 3) == run_through(search(), 99)


def test_choices_occur_equally_often_in_the_grid() -> None:
    columns = {path: [row[path] for row in grid(SPACE, 12)] for path in SPACE}
    assert set(Counter(columns[DIVERGENCE]).values()) == {4}
    assert set(Counter(columns[SCHEDULER]).values()) == {6}
    assert len(set(columns[toy.RATE])) == 12


def test_ties_go_to_the_choice_named_first() -> None:
    asked = search(parameters={SCHEDULER: ("round_robin", "by_domain")}, trials=2)
    results: dict[str, Known] = {}
    while (found := replay(asked, results.get)).values is None:
        results |= {cell.digest: known(1.0) for cell in found.cells}
    assert found.values == {SCHEDULER: "round_robin"}


def test_what_a_configuration_refuses_together_is_never_asked_for() -> None:
    space: dict[str, Range] = {"student.width": ("16", "18", "32"), "student.heads": ("2", "4")}
    widths = set()
    results: dict[str, Known] = {}
    asked = search(parameters=space, trials=12)
    while (found := replay(asked, results.get)).values is None:
        for cell in found.cells:
            student = cell.config["student"]
            assert (student["width"], student["heads"]) != (18, 4)
            widths.add(student["width"])
            results[cell.digest] = known(1.0)
    assert widths == {16, 18, 32}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (("by_domain",), "choices of method.scheduler must be two or more"),
        (("random", "random"), "each once"),
        (("by_domain", "by_luck"), "method.scheduler: scheduler must be one of .*'by_luck'"),
    ],
)
def test_choices_that_are_none_are_refused(choices: Range, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(parameters={SCHEDULER: choices})


def searching(family: str, ranges: dict[str, Range]) -> Ablation:
    made = toy.ablation(tuned=True)
    tuning = dataclasses.replace(made.tuning, searches={family: ranges})
    return dataclasses.replace(made, tuning=tuning, varies=("method.steps", SCHEDULER))


def test_a_search_must_belong_to_an_arm_and_stay_inside_what_varies() -> None:
    with pytest.raises(ValueError, match=r"searches must name families among .* got 'arm 3'"):
        searching("arm 3", {SCHEDULER: ("random", "by_domain")})
    with pytest.raises(ValueError, match=r"'arm 2' searches 'specialist.gap_nats'"):
        searching("arm 2", {GAP: ("0.1", "0.2")})


def test_what_was_found_is_confirmed_and_said(tmp_path: Path) -> None:
    ranges: dict[str, Range] = {toy.RATE: (5e-4, 8e-3), SCHEDULER: ("random", "by_domain")}
    profile = Profile(name="quick", seeds=2, tuning_trials=1, tuning_seeds=1, search_trials=9)
    wanted = toy.request(searching("arm 2", ranges), profile)
    assert toy.study(tmp_path, wanted) == []
    assert len(read_records(tmp_path / "runs" / "explore.jsonl")) == 1 + 9
    found = read_plan(Results(root=tmp_path).plans / "toy.json")["tuned"]["toy/arm 2"]
    records = read_records(tmp_path / "runs" / "toy.jsonl")
    assert {r.config["method"]["scheduler"] for r in records if r.arm == "arm 2"} == {
        found[SCHEDULER]
    }
    assert {r.config["method"]["scheduler"] for r in records if r.arm == "arm 1"} == {"by_domain"}


def test_the_searched_design_is_outside_the_factorial_and_starts_unlike_its_arms() -> None:
    arms = ABLATION.worlds["markov"].arms
    assert set(arms) - set(ABLATION.factors) == {SEARCHED}
    assert changed_fields(arms[SEARCHED], arms[ABLATION.worlds["markov"].baseline]) == {GAP}


@pytest.mark.parametrize("profile", PROFILES.values())
def test_the_design_search_can_be_planned(profile: Profile, tmp_path: Path) -> None:
    schedule = Schedule(Request(ablation=ABLATION, profile=profile), Runs(Results(root=tmp_path)))
    searches = [f.search for f in schedule._families if SEARCHED in f.arms]
    assert [s.trials for s in searches] == [profile.search_trials]
    assert list(searches[0].parameters) == list(SEARCH)
    assert replay(searches[0], lambda digest: None).cells


def test_an_arm_without_factors_is_left_out_of_the_factorial(tmp_path: Path) -> None:
    toy.study(tmp_path, toy.asked(toy.ablation((1, 2, 3))))
    factors = {"arm 1": {"steps": "1"}, "arm 2": {"steps": "2"}}
    made = dataclasses.replace(toy.ablation((1, 2, 3)), factors=factors)
    records = read_records(tmp_path / "runs" / "toy.jsonl")
    arms, values = factorial_values(made, worlds(made, records)[0])
    assert arms == ["arm 1", "arm 2"]
    assert values.shape == (3, 2)
