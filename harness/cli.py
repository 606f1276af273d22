"""What can be asked of the benchmark from a shell? The command `opd`.

Imports are inside the commands: `opd --help` answers without loading torch.
"""

import importlib
import json
import os
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.study.ablation import Ablation
    from harness.study.plan import Request
    from harness.study.queue import Failure
    from harness.study.schedule import Schedule

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
LOCAL = Path("results/local")

app = typer.Typer(
    help="Controlled ablations of on-policy distillation: run them, and read what they decide.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Names = Annotated[list[str] | None, typer.Argument(help="Ablations, or `all`.")]
Where = Annotated[Path, typer.Option("--results", help="Results folder.")]


@contextmanager
def refusals() -> Iterator[None]:
    """Bad input ends in one line on stderr and exit code 2."""
    from harness.study.pool import WorkersFailed

    try:
        yield
    except (ValueError, WorkersFailed) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or 'results'}: {error.strerror}")


def refuse(line: str) -> None:
    """Say why, and end."""
    typer.echo(f"opd: {line}", err=True)
    raise typer.Exit(REFUSED)


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
def run(
    names: Annotated[list[str], typer.Argument(help="Ablations, or `all`.")],
    profile: Annotated[str, typer.Option(help="smoke (seconds), quick, or paper.")] = "quick",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each. Default: cores.")
    ] = None,
    results: Where = LOCAL,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="`path=value`: put into every arm that has the path."),
    ] = None,
    arms: Annotated[
        list[str] | None, typer.Option("--arm", help="Only this arm, and what it is compared with.")
    ] = None,
    runner: Annotated[str, typer.Option(hidden=True)] = "harness.trial.run:run_trial",
) -> None:
    """Run what RESULTS lacks of these ablations, then write their tables and figures.

    Stop it whenever you like: the same command goes on from there.

    `opd run all --profile smoke`

    `opd run kl_direction scheduler --workers 2`

    `opd run kl_direction --set domains.0.path=my_texts/ --results results/mine`
    """
    with refusals():
        requests = [_request(a, profile, settings, arms) for a in chosen(names)]
        failures = _study(requests, results, workers or os.cpu_count() or 1, runner)
    for failure in failures:
        cell = failure.cell
        where = f"{cell.ablation}/{cell.world}/{cell.arm}, seed {cell.seed}"
        typer.echo(f"opd: {where}: failed {failure.attempts} times\n{failure.error}", err=True)
    if failures:
        raise typer.Exit(FAILED)


def _request(
    ablation: "Ablation", profile: str, settings: list[str] | None, arms: list[str] | None
) -> "Request":
    from harness.study.ablation import PROFILES
    from harness.study.plan import check_domains, request
    from harness.study.suggest import did_you_mean

    known = {str(name): found for name, found in PROFILES.items()}
    if profile not in known:
        hint = did_you_mean(profile, known)
        raise ValueError(f"no profile {profile!r}{hint}; there are: {', '.join(known)}")
    made = request(ablation, known[profile], settings or (), arms or ())
    check_domains(made)
    return made


def _study(
    requests: "Sequence[Request]", results: Path, workers: int, runner: str
) -> "list[Failure]":
    """Run, watched on the console; an interrupt says how to go on.

    A report that cannot be made ends the command with exit code 1, after all cells are done.
    """
    from rich.console import Console

    from harness.study.launch import run_study
    from harness.study.pool import LocalPool
    from harness.study.progress import ConsoleWatcher
    from harness.study.results import Results

    def report(schedule: "Schedule") -> list[str]:
        try:
            return _report(schedule.request.ablation, results)
        except Exception as error:  # its cells are safe, and the other ablations are to go on
            unreported.append(error)
            return traceback.format_exception(error)

    unreported: list[Exception] = []
    watcher = ConsoleWatcher(console=Console(), on_finished=report)
    folder = Results(root=results)
    pool = LocalPool(results=folder, runner=runner)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failures = run_study(requests, folder, watcher, pool=pool, workers=workers)
    except KeyboardInterrupt:
        watcher.end()
        typer.echo("opd: stopped; nothing is lost: the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        watcher.end()
    if unreported and not failures:
        raise typer.Exit(FAILED)
    return failures


def _report(ablation: "Ablation", results: Path) -> list[str]:
    """Write the report of one ablation; what it decides, and where it lies."""
    from harness.report.verdicts import verdicts
    from harness.report.write import write_report
    from harness.trial.record import read_records

    paths = write_report(ablation, results)
    records = read_records(results / "runs" / f"{ablation.name}.jsonl")
    said = [verdict.sentence() for verdict in verdicts(ablation, records)]
    return [f"{ablation.name}: {ablation.question}", *said, *map(str, paths)]


@app.command(name="list")
def list_ablations() -> None:
    """The ablations, and what each asks."""
    with refusals():
        found = chosen(None)
    width = max(len(ablation.name) for ablation in found)
    for ablation in found:
        typer.echo(f"{ablation.name:{width}}  {ablation.question}")


@app.command()
def status(
    results: Where = LOCAL,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """How far RESULTS is: cells done and planned per ablation, and what is running."""
    from harness.study.results import Results
    from harness.study.status import status as look

    with refusals():
        found = look(Results(root=results))
    if as_json:
        typer.echo(json.dumps(found, indent=1, sort_keys=True))
        return
    for entry in found["ablations"]:
        tuning = f", {entry['arms_being_tuned']} arms to tune" if entry["arms_being_tuned"] else ""
        typer.echo(
            f"{entry['name']} ({entry['profile']}): {entry['done']} of {entry['planned']} cells, "
            f"{entry['diverged']} diverged{tuning}"
        )
    queue = found["queue"]
    typer.echo(f"queue: {queue['running']} running, {queue['waiting']} waiting")
    for failure in queue["failures"]:
        where = "/".join((failure["ablation"], failure["world"], failure["arm"]))
        typer.echo(f"failed: {where}, seed {failure['seed']}: {failure['error']}")


@app.command()
def tables(names: Names = None, results: Where = LOCAL) -> None:
    """Make the tables again from the runs: the same bytes."""
    from harness.report.write import write_tables

    with refusals():
        for ablation in chosen(names):
            for path in write_tables(ablation, results):
                typer.echo(path)


@app.command()
def figures(names: Names = None, results: Where = LOCAL) -> None:
    """Draw the figures again from the runs."""
    from harness.report.write import write_figures

    with refusals():
        for ablation in chosen(names):
            for path in write_figures(ablation, results):
                typer.echo(path)


@app.command()
def doctor(results: Where = LOCAL) -> None:
    """What this machine offers, and whether RESULTS can be written to."""
    from harness.study.results import Results
    from harness.trial.environment import environment

    for key, value in environment().items():
        typer.echo(f"{key}: {value}")
    with refusals():
        Results(root=results).prepare()
        typer.echo(f"results: {results} can be written to")
        typer.echo(f"ablations: {', '.join(ablation.name for ablation in chosen(None))}")


if __name__ == "__main__":
    app()
