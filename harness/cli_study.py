"""How does a shell look at a study, join one, or make its queue again?"""

import json
from typing import Annotated

import typer

from harness.cli_common import LOCAL, RUNNER, Storage, Where, refusals

app = typer.Typer()


@app.command()
def worker(
    storage: Storage = None,
    results: Where = LOCAL,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds with nothing left to do, after which it ends.")
    ] = 60.0,
    runner: Annotated[str, typer.Option(hidden=True)] = RUNNER,
) -> None:
    """Work for an `opd run` on this or another host: joins at any time, ends when all is done.

    It writes to RESULTS where that is the folder of the run; elsewhere it keeps only base models
    and specialists there, and its records travel through the storage.

    `opd worker --storage postgresql://me@db/opd`
    """
    from harness.study.results import Results
    from harness.study.storage import check_storage
    from harness.study.worker import run_worker

    with refusals():
        check_storage(storage, 2)  # the run has one of its own
        if storage is None and not results.is_dir():
            raise ValueError(f"results folder must exist, got {str(results)!r}; or give --storage")
        Results(root=results).prepare()
        code = run_worker(results, runner, None, storage, wait)
    raise typer.Exit(code)


@app.command()
def reindex(results: Where = LOCAL, storage: Storage = None) -> None:
    """Make the queue again from the runs in RESULTS: every record a finished entry.

    Then `opd status` and optuna-dashboard show them. Let no `opd run` or `opd worker` go on
    meanwhile.
    """
    from harness.study.reindex import reindex as make_again
    from harness.study.results import Results

    with refusals():
        typer.echo(f"{make_again(Results(root=results), storage)} records in the queue")


@app.command()
def status(
    results: Where = LOCAL,
    storage: Storage = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """How far RESULTS is: cells done and planned per ablation, who works at what, time left."""
    from harness.study.results import Results
    from harness.study.status import lines
    from harness.study.status import status as look

    with refusals():
        found = look(Results(root=results), storage)
    typer.echo(json.dumps(found, indent=1, sort_keys=True) if as_json else "\n".join(lines(found)))
