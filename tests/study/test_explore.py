import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.study.explore import Found, Search, replay
from harness.study.results import Results
from harness.study.runs import Known, RunsFile
from harness.study.space import grid
from harness.trial.record import Status
from tests.study import toy

RANGE = (5e-4, 8e-3)
NOWHERE = RunsFile(results=Results(root=Path("nowhere")), name="explore")


def search(trials: int = 5, seeds: int = 2, higher: bool = False) -> Search:
    return Search(
        world="toy",
        profile="quick",
        representative=toy.config(),
        parameters={toy.RATE: RANGE},
        trials=trials,
        seeds=range(1000, 1000 + seeds),
        metric="nats",
        higher_is_better=higher,
    )


def known(value: float | None, status: Status = "finished") -> Known:
    return Known(
        file=NOWHERE,
        offset=0,
        status=status,
        macro={"nats": value},
        wall_seconds=1.0,
        profile="quick",
    )


def run_through(
    asked: Search, outcome: Callable[[float, int], Known]
) -> tuple[Found, list[list[tuple[float, int]]]]:
    """The end of a search, and what it asked for round by round."""
    results: dict[str, Known] = {}
    rounds: list[list[tuple[float, int]]] = []
    while (found := replay(asked, results.get)).values is None:
        assert found.cells
        rounds.append([])
        for cell in found.cells:
            rate = cell.config["method"]["optimization"]["learning_rate"]
            assert cell.config["evaluation"]["curve_points"] == 0
            assert cell.digest not in results
            results[cell.digest] = outcome(rate, cell.seed)
            rounds[-1].append((rate, cell.seed))
    return found, rounds


def bowl(rate: float, seed: int) -> Known:
    return known(math.log(rate / 2.1e-3) ** 2 + 0.001 * seed)


@pytest.mark.parametrize(
    ("points", "expected"),
    [(1, [0.002]), (2, [0.0005, 0.008]), (3, [0.0005, 0.002, 0.008])],
)
def test_the_grid_has_equal_ratios(points: int, expected: list[float]) -> None:
    assert [values["p"] for values in grid({"p": RANGE}, points)] == expected


def test_two_parameters_take_every_level_once() -> None:
    points = grid({"p": (1.0, 16.0), "q": (1.0, 16.0)}, 5)
    assert [values["p"] for values in points] == [1, 2, 4, 8, 16]
    assert sorted(values["q"] for values in points) == [1, 2, 4, 8, 16]
    assert [values["q"] for values in points] != [1, 2, 4, 8, 16]


def test_the_grid_is_asked_for_at_once_and_the_worse_half_of_it_only_once() -> None:
    found, rounds = run_through(search(), bowl)
    assert [len(asked) for asked in rounds] == [5, 3]
    assert {seed for _, seed in rounds[0]} == {1000}
    assert found.values == {toy.RATE: 0.002}


def test_after_the_grid_the_sampler_goes_on_in_batches_and_always_the_same_way() -> None:
    found, rounds = run_through(search(trials=12), bowl)
    assert (found, rounds) == run_through(search(trials=12), bowl)
    fresh = [sum(seed == 1000 for _, seed in asked) for asked in rounds[2:]]
    assert [count for count in fresh if count] == [4, 2]
    rates = {rate for asked in rounds for rate, _ in asked}
    assert len(rates) == 12
    assert all(RANGE[0] <= rate <= RANGE[1] for rate in rates)


def test_nothing_is_asked_twice_when_a_search_grows() -> None:
    _, small = run_through(search(trials=6), bowl)
    _, large = run_through(search(trials=8), bowl)
    assert large[:2] == small


def test_a_diverged_trial_is_worst_whatever_its_value() -> None:
    def outcome(rate: float, seed: int) -> Known:
        return known(-100.0, "diverged") if rate > 3e-3 else known(1.0 - rate)

    assert run_through(search(), outcome)[0].values == {toy.RATE: 0.002}


@pytest.mark.parametrize("value", [None, 0.0])
def test_where_all_diverge_the_smallest_rate_is_taken(value: float | None) -> None:
    found, _ = run_through(search(), lambda rate, seed: known(value, "diverged"))
    assert found.values == {toy.RATE: 5e-4}


def test_ties_go_to_the_smaller_rate() -> None:
    assert run_through(search(), lambda rate, seed: known(1.0))[0].values == {toy.RATE: 5e-4}


def test_the_better_side_may_be_up() -> None:
    found, _ = run_through(search(higher=True), lambda rate, seed: known(rate))
    assert found.values == {toy.RATE: 8e-3}


def test_the_mean_over_seeds_decides() -> None:
    def outcome(rate: float, seed: int) -> Known:
        lucky = {0.002: 0.0, 0.001: 0.1}.get(rate, 1.0)
        return known(lucky if seed == 1000 else {0.002: 1.0, 0.001: 0.1}.get(rate, 2.0))

    assert run_through(search(), outcome)[0].values == {toy.RATE: 0.001}


def test_one_trial_takes_the_middle_and_no_parameters_no_trial() -> None:
    found, rounds = run_through(search(trials=1, seeds=1), bowl)
    assert found.values == {toy.RATE: 0.002}
    assert len(rounds) == 1
    nothing = dataclasses.replace(search(), parameters={})
    assert replay(nothing, lambda digest: None) == Found(values={})


def test_the_key_of_a_search_over_numbers_stays_what_it_was() -> None:
    """Results that were filed under it must be found again."""
    assert search().key == "1b55d225571127d7"


def test_equal_searches_have_one_key_and_others_another() -> None:
    assert search().key == dataclasses.replace(search(), world="elsewhere").key
    assert search().key != search(trials=6).key
    assert search().key != dataclasses.replace(search(), metric="other").key


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tuning range of method.* 0 < low < high"):
        dataclasses.replace(search(), parameters={toy.RATE: (0.0, 1.0)})
