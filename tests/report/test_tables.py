from dataclasses import replace
from pathlib import Path

import pytest

from harness.report.factor_tables import break_even_table
from harness.report.outcomes import worlds
from harness.report.render import Cell, Number, Table, to_csv, to_markdown
from harness.report.side_tables import control_table
from harness.report.tables import main_table
from harness.report.write import tables
from harness.training.config import Keep
from harness.trial.record import TrialRecord
from tests.report.synthetic import BASE as CONFIG
from tests.report.synthetic import (
    ENVIRONMENT,
    NASTY,
    ablation,
    gap_ablation,
    records,
    varied,
)

GOLDEN = Path(__file__).parent / "golden"
EFFECTS = {"reverse KL": 0.03, "forward KL": 0.0, "JSD(0.1)": -0.02}


def shown(cell: Cell) -> str:
    return "".join(part.digits if isinstance(part, Number) else part for part in cell.parts)


def rows(table: Table) -> dict[str, dict[str, str]]:
    """Cell texts by arm and column."""
    return {
        shown(row[0]): {c: shown(cell) for c, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    }


def main(found: list[TrialRecord], **changes: object) -> Table:
    made = ablation(varied(3), **changes)
    (world,) = worlds(made, found)
    return main_table(made, world)


def study(**options: object) -> list[TrialRecord]:
    return records(ablation(varied(3)), EFFECTS, **options)  # type: ignore[arg-type]


def test_golden(request: pytest.FixtureRequest) -> None:
    """The files in golden/ are read by people; remake them by deleting them."""
    made = tables(ablation(varied(3)), study(diverged={"JSD(0.1)": range(2)}))
    for suffix, text in (("md", to_markdown(made, "Q?")), ("csv", to_csv(made))):
        path = GOLDEN / f"kl_direction.{suffix}"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            pytest.fail(f"{path.name} was missing and has been written: read it, commit it")
        assert text == path.read_text()


def test_reference_first_then_controls_then_arms() -> None:
    assert list(rows(main(study()))) == [
        "SFT (flops)", "SFT (tokens)", "SFT (end_to_end)", "reverse KL", "forward KL", "JSD(0.1)",
    ]  # fmt: skip


def test_verdicts_and_stars_and_bold() -> None:
    table = main(study())
    found = rows(table)
    assert found["reverse KL"]["verdict"] == "better"
    assert found["JSD(0.1)"]["verdict"] == "worse"
    assert found["reverse KL"]["difference [95 % interval]"].endswith("]**")
    assert [shown(row[0]) for row in table.rows if row[0].bold] == ["reverse KL"]


def test_sign_follows_the_metric() -> None:
    better = main(study(), higher_is_better=False)
    worse = main(study(), higher_is_better=True)
    assert rows(better)["reverse KL"]["verdict"] == "better"
    assert rows(worse)["reverse KL"]["verdict"] == "worse"


def test_five_seeds_give_no_star_and_no_verdict() -> None:
    table = main(study(seeds=5))
    for row in rows(table).values():
        assert "*" not in row["difference [95 % interval]"]
        assert row["adjusted p"] == ""
        assert row["verdict"] in ("", "control", "inconclusive")
    assert not any(row[0].bold for row in table.rows)
    assert any("5 seeds or fewer" in note for note in table.notes)


def test_identical_values_give_no_p_and_a_warning() -> None:
    found = study()
    same = {r.seed: r.metrics for r in found if r.arm == "SFT (flops)"}
    found = [replace(r, metrics=same[r.seed]) if r.arm == "forward KL" else r for r in found]
    table = main(found)
    assert rows(table)["forward KL"]["adjusted p"] == "identical on all 10 seeds"
    assert rows(table)["forward KL"]["verdict"] == "inconclusive"
    assert any("no effect on the difference of forward KL" in note for note in table.notes)


def test_a_constant_shift_gives_no_p() -> None:
    table = main(study(noise=0.0))
    assert rows(table)["reverse KL"]["adjusted p"] == "identical on all 10 seeds"


def test_divergence_is_an_outcome() -> None:
    table = main(study(diverged={"reverse KL": range(10), "forward KL": range(1)}))
    lost, partly = rows(table)["reverse KL"], rows(table)["forward KL"]
    assert lost["n"] == "0/10"
    assert lost["verdict"] == "worse"
    assert lost["difference [95 % interval]"] == "no pair of finished seeds"
    assert lost["div"] == "10/10 [0.69, 1.00]"
    assert partly["difference [95 % interval]"].endswith(" conditional")


def test_a_diverged_control_makes_no_arm_worse() -> None:
    table = main(study(diverged={"SFT (flops)": range(10)}))
    assert rows(table)["JSD(0.1)"]["verdict"] == "better"


def test_the_cause_makes_a_run_diverged_never_the_value() -> None:
    found = study()
    metrics = {"cross_entropy_nats": {"macro": None, "A": None, "B": None}}
    found[0] = replace(found[0], metrics=metrics)
    with pytest.raises(ValueError, match="a finished run has no 'cross_entropy_nats'"):
        main(found)


def test_a_seed_is_never_dropped_from_one_arm_only() -> None:
    found = [r for r in study() if not (r.arm == "reverse KL" and r.seed == 9)]
    table = main(found)
    assert table.notes[0].startswith("9 paired seeds (0 to 8) of 10 planned")


def test_an_arm_without_records_changes_nothing_else() -> None:
    found = study()
    grown = ablation(varied(4))
    assert main_table(grown, *worlds(grown, found)) == main(found)


def test_budgets_off_by_two_percent_are_marked() -> None:
    found = [
        replace(r, budget=r.budget | {"flops": 1.03e10}) if r.arm == "forward KL" else r
        for r in study()
    ]
    table = main(found)
    assert "forward KL\u2020" in rows(table)
    assert rows(table)["reverse KL"]["budget ratio, end to end"] == "1.50"
    assert rows(table)["reverse KL"]["budget ratio, FLOPs"] == "1.00"
    assert rows(table)["SFT (end_to_end)"]["budget ratio, end to end"] == "1.00"
    assert rows(table)["SFT (tokens)"]["budget ratio, FLOPs"] == "0.60"


def test_the_share_of_the_gap_to_the_specialists() -> None:
    oracle = replace(CONFIG, method=Keep(model="specialists"))
    made = ablation({"reverse KL": CONFIG, "specialists": oracle})
    found = records(made, {"reverse KL": 0.1, "specialists": 0.2}, noise=1e-4)
    (world,) = worlds(made, found)
    notes = main_table(made, world).notes
    assert "Closed of the gap from the control to the specialists: reverse KL 50%." in notes


def test_mixed_and_dirty_commits_are_named() -> None:
    found = study()
    found[0] = replace(found[0], environment=ENVIRONMENT | {"commit": "f" * 40, "dirty": "abc"})
    note = main(found).notes[-1]
    assert "ffffffffffff (dirty abc), 0123456789ab; MIXED COMMITS" in note


def test_smoke_runs_say_that_they_show_nothing() -> None:
    for table in tables(ablation(varied(3)), study(seeds=2, profile="smoke")):
        assert table.caption.startswith("Smoke profile: training cut short, this shows nothing.")


def test_the_largest_profile_counts() -> None:
    found = study(seeds=2, profile="smoke") + study()
    (world,) = worlds(ablation(varied(3)), found)
    assert (world.profile, len(world.seeds)) == ("quick", 10)


def test_the_newest_configuration_counts() -> None:
    old = [replace(r, config=r.config | {"evaluation": {}}) for r in study(seeds=10)]
    (world,) = worlds(ablation(varied(3)), old + study(seeds=6))
    assert world.seeds == tuple(range(6))


@pytest.mark.parametrize("seeds", [1, 2, 10])
def test_one_arm_one_domain_renders(seeds: int) -> None:
    config = replace(CONFIG, domains=CONFIG.domains[:1])
    alone = ablation({NASTY: config}, controls={}, reference=NASTY, baseline=NASTY)
    made = tables(alone, records(alone, {}, seeds=seeds))
    assert "kl\\_rev" in to_markdown(made, "Q?")


def test_scale_changes_no_verdict() -> None:
    tiny = main(study(scale=2.0**-600), margin=0.005 * 2.0**-600)
    one = main(study())
    for arm, row in rows(one).items():
        for column in ("verdict", "adjusted p", "d_z (seeds ahead)"):
            assert rows(tiny)[arm][column] == row[column]


def test_every_matched_control_stands_side_by_side() -> None:
    made = ablation(varied(3))
    table = control_table(made, *worlds(made, study()))
    assert table.columns == ("arm", "SFT (tokens)", "SFT (flops)", "SFT (end_to_end)")
    assert all("better" in rows(table)["reverse KL"][c] for c in table.columns[1:])


def test_paired_arms_stand_against_their_own_controls() -> None:
    gap = gap_ablation()
    effects = {arm: 0.03 if "1.0" in arm else 0.0 for arm in gap.worlds["markov"].arms}
    (world,) = worlds(gap, records(gap, effects))
    assert rows(main_table(gap, world))["OPD gap 1.0 (data)"]["verdict"] == "better"
    curve = break_even_table(gap, world)
    assert [shown(row[0]) for row in curve.rows] == ["data", "width"]


@pytest.mark.parametrize("absent", ["SFT (flops)", "reverse KL", "SFT (tokens)"])
def test_a_study_half_run_renders(absent: str) -> None:
    made = ablation(varied(3))
    found = [r for r in study() if r.arm != absent]
    assert absent not in to_markdown(tables(made, found)[:1], "Q?").split("| arm")[1].split("|:")[0]


def test_arms_without_a_common_seed_render() -> None:
    made = ablation(varied(3))
    found = [r for r in study() if (r.seed < 5) == (r.arm == "forward KL")]
    assert "0 paired seeds of 10 planned" in to_markdown(tables(made, found), "Q?")


def test_a_world_in_which_all_diverged_renders() -> None:
    lost = [replace(r, status="diverged", metrics={}, curve={}) for r in study()]
    text = to_markdown(tables(ablation(varied(3)), lost), "Q?")
    assert "no pair of finished seeds" in text
    assert "all diverged" in text
