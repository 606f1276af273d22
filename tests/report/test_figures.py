from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.text import Text

from harness.report.outcomes import worlds
from harness.report.style import styled
from harness.report.write import FIGURES, write_figures, write_report
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, append_records
from tests.report.synthetic import (
    BASE,
    NASTY,
    ablation,
    factorial_ablation,
    gap_ablation,
    records,
    varied,
)

ALL = tuple(FIGURES)
LOST = {name: range(10) for name in ("reverse KL", "forward KL", "SFT (flops)")}
NOTHING: Mapping[str, range] = {}


def draw(made: Ablation, found: list[TrialRecord]) -> int:
    """Lay out every figure of every world, without a file; returns how many."""
    with styled():
        drawn = [FIGURES[name](made, world) for world in worlds(made, found)
                 for name in made.figures]  # fmt: skip
        for figure in drawn:
            figure.draw_without_rendering()
    return len(drawn)


@pytest.mark.parametrize(
    ("seeds", "diverged"), [(10, NOTHING), (10, LOST), (1, NOTHING), (2, {"reverse KL": range(1)})]
)
def test_every_figure_survives(seeds: int, diverged: Mapping[str, range]) -> None:
    made = replace(ablation(varied(2)), figures=ALL)
    assert draw(made, records(made, {}, seeds=seeds, diverged=diverged)) == len(ALL)


def test_one_arm_with_every_character() -> None:
    alone = ablation({NASTY: BASE}, controls={}, reference=NASTY, baseline=NASTY)
    made = replace(alone, figures=ALL, factors={NASTY: {"$a_%$": "$b$"}})
    assert draw(made, records(made, {}))


def test_a_world_in_which_all_diverged_or_no_seed_is_common_is_drawn() -> None:
    made = replace(ablation(varied(2)), figures=ALL)
    found = records(made, {})
    assert draw(made, [replace(r, status="diverged", metrics={}, curve={}) for r in found])
    assert draw(made, [r for r in found if (r.seed < 5) == (r.arm == "forward KL")])
    assert draw(made, [r for r in found if r.arm != "SFT (flops)"])


def test_no_word_of_a_forest_is_cut_off() -> None:
    named = ["by domain | reverse KL | no anchor", "by domain | sampled token | anchor 0.5"]
    arms = dict(zip(named, varied(2).values(), strict=True))
    made = ablation(arms, reference=named[0])
    found = records(made, {})
    with styled():
        figure = FIGURES["forest"](made, worlds(made, found)[0])
        figure.draw_without_rendering()
        words = [t for t in figure.findobj(Text) if isinstance(t, Text) and t.get_text()]
        for word in words:
            box = word.get_window_extent()
            assert 0 <= box.x0 <= box.x1 <= figure.bbox.x1, word.get_text()
    assert any("right = better" in word.get_text() for word in words)


def test_runs_without_curves_are_drawn() -> None:
    made = replace(ablation(varied(2)), figures=ALL)
    found = [replace(r, curve={}, facts={}) for r in records(made, {})]
    assert draw(made, found)


@pytest.mark.parametrize("make", [gap_ablation, factorial_ablation])
def test_factor_figures_survive_divergence(make: type) -> None:
    made = make()
    first = next(iter(made.worlds["markov"].arms))
    assert draw(made, records(made, {}, diverged={first: range(9)}))


def test_the_same_bytes_again(tmp_path: Path) -> None:
    made = replace(ablation(varied(3)), figures=("forest", "budget"))
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}))
    paths = write_figures(made, tmp_path)
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_figures(made, tmp_path)] == first
    assert b"Matplotlib v" not in first[0]


def test_the_order_in_which_cells_ended_does_not_show(tmp_path: Path) -> None:
    made = replace(ablation(varied(3)), figures=("forest", "budget", "shares"))
    found = records(made, {})
    written = []
    for folder, order in (("one", found), ("other", found[::-1])):
        append_records(tmp_path / folder / "runs" / f"{made.name}.jsonl", order)
        paths = write_report(made, tmp_path / folder)
        written.append({path.name: path.read_bytes() for path in paths})
    assert written[0] == written[1]


def test_unknown_figure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"figures must be among .* got 'pie'"):
        write_figures(replace(ablation(varied(2)), figures=("pie",)), tmp_path)


def test_report_is_tables_and_figures(tmp_path: Path) -> None:
    made = ablation(varied(2))
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}))
    names = {path.suffix for path in write_report(made, tmp_path)}
    assert names == {".md", ".tex", ".csv", ".svg", ".png"}
