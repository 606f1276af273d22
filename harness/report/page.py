"""How does everything in a results folder read on one page?"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.report.claims import Judged, judge, load_contradictions
from harness.report.render import to_html
from harness.report.verdicts import Verdict, control_verdicts, verdicts
from harness.report.write import anova_tables, figure_stem, tables, write_whole
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, read_records

HEADLINES_WITHOUT_CHOICE = 3


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the page shows of one ablation."""

    ablation: Ablation
    text: str
    verdicts: tuple[Verdict, ...]
    headlines: tuple[Verdict, ...]
    tables: tuple[Markup, ...]
    figures: tuple[tuple[str, str], ...]


def write_page(ablations: Sequence[Ablation], sections: Mapping[str, str], results: Path) -> Path:
    """Make `results/report.html` from the runs and the figures drawn of them.

    `sections` maps an ablation's name to its docstring. The page holds all it shows and asks
    nothing of a network. Ablations without records are named as not run.
    """
    records = {a.name: read_records(results / "runs" / f"{a.name}.jsonl") for a in ablations}
    parts = [
        _part(ablation, sections.get(ablation.name, ""), records[ablation.name], results)
        for ablation in ablations
        if records[ablation.name]
    ]
    judged = judge({a.name: a for a in ablations}, records)
    page = _template().render(
        parts=parts,
        missing=[a.name for a in ablations if not records[a.name]],
        claims=judged,
        contradictions=load_contradictions(),
        outcome=_outcome,
    )
    return write_whole(results / "report.html", page)


def _outcome(judged: Judged) -> str:
    return judged.outcome or ("tested in the suite" if judged.claim.ablation == "unit test"
                              else "not run yet")  # fmt: skip


def _part(ablation: Ablation, text: str, records: Sequence[TrialRecord], results: Path) -> Part:
    found = tuple(verdicts(ablation, records))
    chosen = tuple(verdict for verdict in found if verdict.headline)
    made = tables(ablation, records) + anova_tables(ablation, records)
    figures = [
        path
        for world in ablation.worlds
        for name in ablation.figures
        if (path := Path(f"{figure_stem(ablation, world, name, results)}.svg")).exists()
    ]
    return Part(
        ablation=ablation,
        text=text.strip(),
        verdicts=found + tuple(control_verdicts(ablation, records)),
        headlines=chosen or found[:HEADLINES_WITHOUT_CHOICE],
        tables=tuple(Markup(to_html(table)) for table in made),
        figures=tuple((path.stem, _data_uri(path)) for path in figures),
    )


def _data_uri(path: Path) -> str:
    """The picture inside its own address: ids of one figure cannot meet those of another."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    return environment.get_template("page.html.jinja")
