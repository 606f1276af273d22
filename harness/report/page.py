"""How does everything in a results folder read on one page?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.report.claims import Judged, judge, load_contradictions
from harness.report.factor_tables import break_even_sentences
from harness.report.outcomes import World, worlds
from harness.report.page_budgets import budget_table
from harness.report.page_figures import Picture, pictures
from harness.report.page_reference import EXPLAINED, Cells, Pair, beside, cells
from harness.report.page_text import paragraphs
from harness.report.render import Table, to_html
from harness.report.verdicts import Verdict, every_verdict
from harness.report.write import anova_tables, tables, write_whole
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, read_records

HEADLINES_WITHOUT_CHOICE = 3
IN_FULL = ("main", "anova", "break_even")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the page shows of one world: pictures, tables that decide, and those beside them."""

    world: World
    pictures: tuple[Picture, ...]
    deciding: tuple[Markup, ...]
    beside: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the page shows of one ablation.

    `crossings` are sentences on break-even gaps; `pairs` and `shared` are empty without a
    reference to compare with.
    """

    ablation: Ablation
    paragraphs: tuple[tuple[str, Markup], ...]
    verdicts: tuple[Verdict, ...]
    headlines: tuple[Verdict, ...]
    crossings: tuple[str, ...]
    places: tuple[Place, ...]
    pairs: tuple[Pair, ...]
    shared: Cells

    @property
    def profile(self) -> str:
        """The profile of the runs that count."""
        return self.places[0].world.profile

    def summary(self) -> str:
        """`2 better, 1 worse`: the headline verdicts, counted."""
        return _counted([verdict.verdict for verdict in self.headlines])

    def agreements(self) -> str:
        """`9 reproduced, 1 outside`: how the contrasts stand to the published ones."""
        return _counted([pair.agreement for pair in self.pairs])


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items())


def write_page(
    ablations: Sequence[Ablation],
    sections: Mapping[str, str],
    results: Path,
    reference: Path | None = None,
) -> Path:
    """Make `results/report.html` from the runs, and from the figures where they are drawn.

    `sections` maps an ablation's name to its docstring; `reference` is the folder of published
    results to set beside these. The page holds all it shows and asks nothing of a network.
    Ablations without records are named as not run. Raises ValueError for a reference without runs.
    """
    if reference is not None and not (reference / "runs").is_dir():
        raise ValueError(f"reference must be a folder with runs/, got {str(reference)!r}")
    records = {a.name: read_records(results / "runs" / f"{a.name}.jsonl") for a in ablations}
    compared = reference is not None and reference.resolve() != results.resolve()
    parts = []
    for ablation in (a for a in ablations if records[a.name]):
        path = reference / "runs" / f"{ablation.name}.jsonl" if reference and compared else None
        published = read_records(path) if path else []
        text = sections.get(ablation.name, "")
        parts.append(_part(ablation, text, records[ablation.name], published, results))
    judged = judge({a.name: a for a in ablations}, records)
    page = _template().render(
        parts=parts,
        missing=[a.name for a in ablations if not records[a.name]],
        smoke=[part.ablation.name for part in parts if part.profile == "smoke"],
        compared=compared,
        explained=EXPLAINED,
        claims=judged,
        outcomes=Counter(map(_outcome, judged)),
        contradictions=load_contradictions(),
        outcome=_outcome,
    )
    return write_whole(results / "report.html", page)


def _outcome(judged: Judged) -> str:
    return judged.outcome or ("tested in the suite" if judged.claim.ablation == "unit test"
                              else "not run yet")  # fmt: skip


def _part(
    ablation: Ablation,
    text: str,
    records: Sequence[TrialRecord],
    published: Sequence[TrialRecord],
    results: Path,
) -> Part:
    found = every_verdict(ablation, records)
    present = worlds(ablation, records)
    crossings = break_even_sentences(ablation, present)
    made = tables(ablation, records) + anova_tables(ablation, records)
    return Part(
        ablation=ablation,
        paragraphs=paragraphs(text),
        verdicts=found,
        headlines=_headlines(ablation, found, few=0 if crossings else HEADLINES_WITHOUT_CHOICE),
        crossings=crossings,
        places=tuple(_place(ablation, world, made, results) for world in present),
        pairs=beside(found, every_verdict(ablation, published)),
        shared=cells(records, published),
    )


def _headlines(ablation: Ablation, found: Sequence[Verdict], *, few: int) -> tuple[Verdict, ...]:
    """Those the ablation names, against its reference, and the reference against every control.

    The first `few` of an ablation that names none.
    """
    chosen = []
    for verdict in (v for v in found if v.headline):
        section = ablation.worlds[verdict.world]
        own = section.pairs.get(verdict.arm, section.reference)
        if verdict.control == own or verdict.arm == section.reference:
            chosen.append(verdict)
    return tuple(chosen) or tuple(found[:few])


def _place(ablation: Ablation, world: World, made: Sequence[Table], results: Path) -> Place:
    own = [table for table in made if table.world == world.name]
    aside = [table for table in own if table.name not in IN_FULL]
    return Place(
        world=world,
        pictures=pictures(ablation, world, results),
        deciding=tuple(_html(table) for table in own if table.name in IN_FULL),
        beside=tuple(_html(table) for table in (*aside, budget_table(ablation, world))),
    )


def _html(table: Table) -> Markup:
    return Markup(to_html(table))  # it escapes every cell


def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    return environment.get_template("page.html.jinja")
