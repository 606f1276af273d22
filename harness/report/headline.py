"""What is the short answer to every question? One table over all ablations, for the README."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.report.digits import bounded, bounds, number, probability, stars, text
from harness.report.factor_tables import break_even_sentences
from harness.report.labels import BUDGET_TITLES, DAGGER
from harness.report.outcomes import BUDGETS, worlds
from harness.report.render import Cell, Table
from harness.report.tables import half_width
from harness.report.verdicts import Verdict, control_verdicts, verdicts
from harness.report.write import write_formats
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, read_records

TITLE = "What the core ablations decide"


def write_headline(ablations: Sequence[Ablation], results: Path) -> list[Path]:
    """Make `results/tables/headline.{md,tex,csv}` from the runs; nothing without records."""
    table = headline_table(ablations, results)
    if not table.rows:
        return []
    stem = results / "tables" / "headline"
    return write_formats([table], TITLE, stem)


def headline_table(ablations: Sequence[Ablation], results: Path) -> Table:
    """The headline contrasts, a reference that is one against every SFT, the break-even gaps."""
    rows: list[tuple[Cell, ...]] = []
    notes = [
        "Difference: mean over paired seeds on the primary metric, nats, positive = better, with "
        "its 95 % t interval. p is adjusted within the family of the ablation's own table. MDE: "
        "the difference found with 80 % power. Budget ratio: to the control of the contrast.",
    ]
    for ablation in ablations:
        records = read_records(results / "runs" / f"{ablation.name}.jsonl")
        rows += [_row(verdict) for verdict in _chosen(ablation, records)]
        crossings = break_even_sentences(ablation, worlds(ablation, records))
        notes += [f"{ablation.name}, {sentence}." for sentence in crossings]
        if any(record.profile == "smoke" for record in records):
            notes.append(f"{ablation.name}: a smoke run, which shows nothing.")
    return Table(
        name="headline",
        world="all",
        caption="The headline contrasts of every ablation.",
        columns=(
            "ablation",
            "world",
            "contrast",
            "n",
            "difference [95 % interval]",
            "adjusted p",
            "MDE",
            *(f"budget ratio, {BUDGET_TITLES[kind]}" for kind in BUDGETS),
            "verdict",
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _chosen(ablation: Ablation, records: Sequence[TrialRecord]) -> Iterator[Verdict]:
    for verdict in verdicts(ablation, records):
        if verdict.headline:
            yield verdict
    for verdict in control_verdicts(ablation, records):
        if verdict.headline and verdict.arm == ablation.worlds[verdict.world].reference:
            yield verdict


def _row(verdict: Verdict) -> tuple[Cell, ...]:
    difference, p = verdict.difference, verdict.adjusted_p
    mark = DAGGER if verdict.off_budget else ""
    shown = (
        bounded(difference, half_width(difference), sign=True) if difference else ("none finished",)
    )
    return (
        text(verdict.ablation, ablation=verdict.ablation),
        text(verdict.world, world=verdict.world),
        text(
            f"{verdict.arm}{mark} against {verdict.control}",
            arm=verdict.arm,
            control=verdict.control,
        ),
        text(number(verdict.seeds, 0), n=verdict.seeds),
        Cell(parts=(*shown, stars(p)), values=bounds("difference", difference)),
        Cell(parts=(probability(p),) if p is not None else (), values={"adjusted_p": p}),
        Cell(
            parts=(number(verdict.detectable, 3),) if verdict.detectable is not None else (),
            values={"mde": verdict.detectable},
        ),
        *(
            Cell(
                parts=(number(ratio, 2),) if (ratio := verdict.budget_ratio.get(kind)) else (),
                values={f"budget_ratio_{kind}": ratio},
            )
            for kind in BUDGETS
        ),
        text(verdict.verdict, verdict=verdict.verdict),
    )
