from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.domains import Markov
from harness.report.outcomes import World, worlds
from harness.report.scaling import curves, scaling, scaling_table, seed_fits
from harness.report.scaling_figures import worst_domain
from harness.report.style import styled
from harness.report.tables import main_table
from harness.report.write import FIGURES, tables
from harness.study.ablation import Ablation
from harness.training.config import Distill
from harness.trial.record import TrialRecord
from tests.report.synthetic import BASE, OPTIMIZATION, ablation, records

METHOD = Distill(steps=100, batch_sequences=480, optimization=OPTIMIZATION)
COUNTS = (1, 2, 4, 8, 12, 20, 32)
Cost = Callable[[int], float]


def power(count: int) -> float:
    return float(0.01 * count**1.03)


def exponential(count: int) -> float:
    return float(0.01 * np.exp(0.3 * count))


def teacher_count() -> Ablation:
    arms, factors = {}, {}
    for budget, steps in (("fixed", 100), ("proportional", 101)):
        for count in COUNTS:
            domains = tuple(Markov(name=f"D{i}", source_seed=i) for i in range(count))
            method = replace(METHOD, steps=steps)
            arms[f"N={count}, {budget}"] = replace(
                BASE, domains=domains, method=method, base=replace(BASE.base, batch_sequences=480)
            )
            factors[f"N={count}, {budget}"] = {"teachers": str(count), "budget": budget}
    made = ablation({"N=1, fixed": arms["N=1, fixed"]}, controls={}, reference="N=1, fixed")
    section = replace(made.worlds["markov"], arms=arms, reference="N=2, fixed")
    return replace(
        made,
        name="teacher_count",
        varies=("domains", "method"),
        worlds={"markov": section},
        figures=("forest", "scaling"),
        costs=("step_seconds",),
        factors=factors,
    )


def with_costs(
    made: Ablation, found: list[TrialRecord], cost: Cost, noise: float = 0.0
) -> list[TrialRecord]:
    generator = np.random.default_rng(5)
    return [
        replace(r, facts={
            "step_seconds": cost(int(made.factors[r.arm]["teachers"]))
            * float(np.exp(noise * generator.normal())),
            "step_flops": cost(int(made.factors[r.arm]["teachers"])) * 1e9,
        })
        for r in found
    ]  # fmt: skip


def world(cost: Cost, noise: float = 0.0) -> tuple[Ablation, World]:
    made = teacher_count()
    return made, worlds(made, with_costs(made, records(made, {}), cost, noise))[0]


def test_a_known_power_is_found_and_preferred() -> None:
    made, found = world(power)
    fit = scaling(found, curves(made, found)["fixed"], "step_seconds")
    assert fit is not None
    assert fit.exponent.estimate == pytest.approx(1.03)
    assert (fit.closest, fit.seeds) == ((10, 0, 0), 10)
    assert fit.growth is not None
    assert fit.growth.estimate == pytest.approx(16**1.03)
    assert fit.growth_counts == (2, 32)


def test_noise_gets_an_interval_around_the_power() -> None:
    made, found = world(power, noise=0.05)
    fit = scaling(found, curves(made, found)["fixed"], "step_seconds")
    assert fit is not None
    assert fit.exponent.low < 1.03 < fit.exponent.high
    assert fit.exponent.high - fit.exponent.low < 0.1


def test_exponential_costs_prefer_the_exponential() -> None:
    made, found = world(exponential)
    fit = scaling(found, curves(made, found)["proportional"], "step_seconds")
    assert fit is not None
    assert fit.closest == (0, 0, 10)


def test_a_constant_and_a_cost_per_teacher_are_neither() -> None:
    """1 + N/3 is nearer to exp(bN) than to a power: of those two alone the wrong one would win."""
    made, found = world(lambda count: 1 + count / 3, noise=0.01)
    fit = scaling(found, curves(made, found)["fixed"], "step_seconds")
    assert fit is not None
    assert fit.closest == (0, 10, 0)


def test_proportional_cost_is_a_power_though_a_line_fits_as_well() -> None:
    made, found = world(lambda count: 0.1 * count)
    fit = scaling(found, curves(made, found)["fixed"], "step_seconds")
    assert fit is not None
    assert fit.closest == (10, 0, 0)


def test_a_straight_line_that_is_not_positive_fits_infinitely_badly() -> None:
    counts = np.array([11.0, 16.0, 18.0, 28.0, 30.0])
    _, residuals = seed_fits(counts, np.exp(np.array([[-2.0, -2.0, -5.0, 2.0, 2.0]])))
    assert residuals[0, 1] == np.inf


def test_slope_is_least_squares_and_scale_does_not_matter() -> None:
    counts, costs = np.array([1.0, 2.0, 8.0]), np.array([[1.0, 3.0, 7.0], [2.0, 3.0, 30.0]])
    slopes, residuals = seed_fits(counts, costs)
    for seed, row in enumerate(costs):
        slope, offset = np.polyfit(np.log(counts), np.log(row), 1)
        rest = np.log(row) - offset - slope * np.log(counts)
        assert slopes[seed] == pytest.approx(slope)
        assert residuals[seed, 0] == pytest.approx(rest @ rest)
    assert seed_fits(counts, costs * 2.0**-600)[0] == pytest.approx(slopes)


def test_two_numbers_of_teachers_prefer_no_form() -> None:
    made, found = world(power, noise=0.1)
    line = {n: arm for n, arm in curves(made, found)["fixed"].items() if n in (2, 4)}
    fit = scaling(found, line, "step_seconds")
    assert fit is not None
    assert fit.closest == (0, 0, 0)


def test_table_tells_both_budgets_and_arms_pair_by_their_macro() -> None:
    made, found = world(power)
    cells = [[cell.values for cell in row] for row in scaling_table(made, found).rows]
    assert [row[0]["budget"] for row in cells] == ["fixed"] * 2 + ["proportional"] * 2
    assert found.domains("cross_entropy_nats") == ["macro"]
    assert len(main_table(made, found).rows) == 2 * len(COUNTS)
    assert {"costs", "scaling"} <= {t.name for t in tables(made, with_costs(
        made, records(made, {}, seeds=1), power))}  # fmt: skip


def test_an_arm_of_both_budgets_is_on_both_lines() -> None:
    made, found = world(power)
    factors = {a: f for a, f in made.factors.items() if a != "N=1, proportional"}
    factors["N=1, fixed"] = {"teachers": "1", "budget": "both"}
    lines = curves(replace(made, factors=factors), found)
    assert lines["proportional"][1] == lines["fixed"][1] == "N=1, fixed"


def test_worst_domain_is_the_largest_loss() -> None:
    _, found = world(power)
    record = found.records["N=4, fixed"][0]
    values = [v for k, v in record.metrics["cross_entropy_nats"].items() if k != "macro"]
    assert worst_domain(found, "N=4, fixed")[0] == max(v for v in values if v is not None)


@pytest.mark.parametrize("seeds", [1, 2, 10])
def test_figure_is_drawn(seeds: int) -> None:
    made = teacher_count()
    lost = {"N=32, fixed": range(10)}
    found = with_costs(made, records(made, {}, seeds=seeds, diverged=lost), power)
    with styled():
        for arranged in (*worlds(made, found), *worlds(made, records(made, {}, seeds=seeds))):
            FIGURES["scaling"](made, arranged).draw_without_rendering()


def test_refusals() -> None:
    made, found = world(power)
    first = {"teachers": "many", "budget": "fixed"}
    with pytest.raises(ValueError, match="whole number from 1, got 'many'"):
        curves(replace(made, factors={**made.factors, "N=1, fixed": first}), found)
    with pytest.raises(ValueError, match="must have one arm with 2 teachers"):
        curves(replace(made, factors={**made.factors, "N=1, fixed": made.factors["N=2, fixed"]}),
               found)  # fmt: skip
    with pytest.raises(ValueError, match="at least 2 different"):
        seed_fits(np.array([2.0, 2.0]), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"must be positive, got 0\.0"):
        seed_fits(np.array([1.0, 2.0]), np.zeros((2, 2)))
