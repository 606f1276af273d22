"""What can be asked of a results folder: tables, figures, the page, two folders side by side?"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli_common import LOCAL, Where, refusals

if TYPE_CHECKING:
    from harness.study.ablation import Ablation

PUBLISHED = Path("results/reference")

app = typer.Typer()

Names = Annotated[list[str] | None, typer.Argument(help="Ablations, or `all`.")]


def chosen(names: Sequence[str] | None) -> "list[Ablation]":
    """The ablations of those names, all of them for `all`; ValueError for one that is not there."""
    from harness.study.suggest import did_you_mean

    package: Any = importlib.import_module("ablations")
    if not names or "all" in names:
        return list(package.discover().values())
    found: dict[str, Ablation] = {}
    for name in names:
        ablation = package.load(name) if name in package.module_names() else None
        if ablation is None:
            known = [*package.discover(), "all"]
            hint = did_you_mean(name, known)
            raise ValueError(f"no ablation {name!r}{hint}; there are: {', '.join(known)}")
        found[name] = ablation
    return list(found.values())


@app.command()
def tables(
    names: Names = None,
    results: Where = LOCAL,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse records of several commits, or of a dirty one.")
    ] = False,
) -> None:
    """Make the tables again from the runs, the headline and `all.tex` too: the same bytes."""
    from harness.report.document import write_document
    from harness.report.headline import write_headline
    from harness.report.importances import write_importances
    from harness.report.write import require_one_commit, write_tables

    with refusals():
        if strict:
            for ablation in chosen(names):
                require_one_commit(ablation, results)
        for ablation in chosen(names):
            for path in (*write_tables(ablation, results), *write_importances(ablation, results)):
                typer.echo(path)
        for path in write_headline(chosen(None), results):
            typer.echo(path)
        document = write_document(results)
        if document is not None:
            typer.echo(document)


@app.command()
def figures(names: Names = None, results: Where = LOCAL) -> None:
    """Draw the figures again from the runs."""
    from harness.report.write import write_figures

    with refusals():
        for ablation in chosen(names):
            for path in write_figures(ablation, results):
                typer.echo(path)


@app.command()
def report(
    results: Where = LOCAL,
    reference: Annotated[
        Path | None, typer.Option(help="Set this folder beside. Default: the published results.")
    ] = None,
) -> None:
    """Write one self-contained page, `report.html`, of everything in the results folder."""
    from harness.report.page import write_page

    with refusals():
        found = chosen(None)
        sections = {
            ablation.name: str(importlib.import_module(f"ablations.{ablation.name}").__doc__)
            for ablation in found
        }
        published = PUBLISHED if reference is None and PUBLISHED.is_dir() else reference
        typer.echo(write_page(found, sections, results, published))


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A results folder.")],
    second: Annotated[Path, typer.Argument(help="Another, as `results/reference`.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Did FIRST reproduce SECOND? Cell by cell, and verdict by verdict within the intervals.

    `opd compare results/local results/reference`
    """
    from harness.report.compare import as_json as plain
    from harness.report.compare import compare_results, in_words

    with refusals():
        found = compare_results(chosen(None), first, second)
        if as_json:
            typer.echo(json.dumps(plain(found), indent=1, sort_keys=True, allow_nan=False))
        else:
            typer.echo(in_words(found), nl=False)
