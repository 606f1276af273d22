"""Which files does a report of an ablation consist of?"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from harness.report.collapse_table import collapse_table
from harness.report.comparisons import matched_controls
from harness.report.costs import cost_table
from harness.report.factor_figures import break_even_curve, interaction
from harness.report.factor_tables import anova_table, break_even_table
from harness.report.figures import budget, forest, shares
from harness.report.footer import commits_of
from harness.report.outcomes import World, worlds
from harness.report.render import Table, to_csv, to_latex, to_markdown
from harness.report.scaling import scaling_table
from harness.report.scaling_figures import scaling_curve
from harness.report.side_tables import (
    control_table,
    difference_table,
    level_table,
)
from harness.report.style import save, styled
from harness.report.tables import main_table
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, read_records


def write_tables(ablation: Ablation, results: Path) -> list[Path]:
    """Make `results/tables/NAME.{md,tex,csv}` (and NAME.anova.*) from the runs; the same bytes.

    Without records nothing is written.
    """
    records = read_records(results / "runs" / f"{ablation.name}.jsonl")
    found = [(ablation.name, tables(ablation, records))]
    found.append((f"{ablation.name}.anova", anova_tables(ablation, records)))
    paths = []
    for name, made in found:
        if not made:
            continue
        paths += write_formats(made, ablation.question, results / "tables" / name)
    return paths


def write_formats(made: Sequence[Table], title: str, stem: Path) -> list[Path]:
    """Make `stem`.md, .tex and .csv of one set of tables."""
    contents = {"md": to_markdown(made, title), "tex": to_latex(made, title), "csv": to_csv(made)}
    return [
        write_whole(stem.with_name(f"{stem.name}.{suffix}"), content)
        for suffix, content in contents.items()
    ]


def require_one_commit(ablation: Ablation, results: Path) -> None:
    """ValueError naming the world whose records come from several commits, or from a dirty one."""
    for world in worlds(ablation, read_records(results / "runs" / f"{ablation.name}.jsonl")):
        commits = commits_of(world)
        if len(commits) > 1 or "dirty" in commits[0]:
            raise ValueError(
                f"{ablation.name}, {world.name}: --strict allows the records of one clean commit, "
                f"got {', '.join(commits)}"
            )


def tables(ablation: Ablation, records: Sequence[TrialRecord]) -> list[Table]:
    """Every table of every world that has records, in reading order."""
    found = []
    for world in worlds(ablation, records):
        found.append(main_table(ablation, world))
        if set(matched_controls(world)) - {world.section.reference}:
            found.append(control_table(ablation, world))
        if "break_even" in ablation.figures:
            found.append(break_even_table(ablation, world))
        if "shares" in ablation.figures:
            found.append(collapse_table(ablation, world))
        if ablation.costs:
            found.append(cost_table(ablation, world))
        if "scaling" in ablation.figures:
            found.append(scaling_table(ablation, world))
        found += [level_table(ablation, world), difference_table(ablation, world)]
    return found


def anova_tables(ablation: Ablation, records: Sequence[TrialRecord]) -> list[Table]:
    """One ANOVA per world, where the ablation asks for its interactions."""
    if "interaction" not in ablation.figures:
        return []
    return [anova_table(ablation, world) for world in worlds(ablation, records)]


def write_whole(path: Path, content: str) -> Path:
    """Replace `path` whole: a reader never sees half a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(content, encoding="utf-8")
    partial.replace(path)
    return path


FIGURES: Mapping[str, Callable[[Ablation, World], Figure]] = {
    "forest": forest,
    "budget": budget,
    "shares": shares,
    "break_even": break_even_curve,
    "interaction": interaction,
    "scaling": scaling_curve,
}


def figure_stem(ablation: Ablation, world: str, figure: str, results: Path) -> Path:
    """Where a figure lies, without its suffix."""
    return results / "figures" / f"{ablation.name}-{world}-{figure}"


def write_figures(ablation: Ablation, results: Path) -> list[Path]:
    """Make `results/figures/NAME-WORLD-FIGURE.{svg,png}` from the runs; the same bytes each time.

    Raises ValueError for a figure that `FIGURES` does not name.
    """
    unknown = [name for name in ablation.figures if name not in FIGURES]
    if unknown:
        raise ValueError(f"figures must be among {sorted(FIGURES)}, got {unknown[0]!r}")
    records = read_records(results / "runs" / f"{ablation.name}.jsonl")
    paths = []
    with styled():
        for world in worlds(ablation, records):
            for name in ablation.figures:
                stem = figure_stem(ablation, world.name, name, results)
                paths += save(FIGURES[name](ablation, world), stem)
    return paths


def write_report(ablation: Ablation, results: Path) -> list[Path]:
    """Tables and figures of one ablation; the paths written."""
    return write_tables(ablation, results) + write_figures(ablation, results)
