"""What can be asked of the benchmark from a shell? The command `opd`.

Imports are inside the commands: `opd --help` answers without loading torch.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import cli_report, cli_study
from harness.cli_common import LOCAL, RUNNER, Storage, Where, pairs, refusals
from harness.cli_report import chosen

if TYPE_CHECKING:
    from harness.study.ablation import Profile

app = typer.Typer(
    help="Controlled ablations of on-policy distillation: run them, and read what they decide.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.add_typer(cli_study.app)
app.add_typer(cli_report.app)


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Ablations, or `all`.")],
    profile: Annotated[str, typer.Option(help="smoke (seconds), quick, or paper.")] = "quick",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each. Default: cores.")
    ] = None,
    results: Where = LOCAL,
    storage: Storage = None,
    launcher: Annotated[str, typer.Option(help="Who starts workers: local or slurm.")] = "local",
    slurm: Annotated[
        list[str] | None, typer.Option(help="`option=value` for sbatch, as `partition=long`.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="`path=value`: put into every arm that has the path."),
    ] = None,
    arms: Annotated[
        list[str] | None, typer.Option("--arm", help="Only this arm, and what it is compared with.")
    ] = None,
    runner: Annotated[str, typer.Option(hidden=True)] = RUNNER,
) -> None:
    """Run what RESULTS lacks of these ablations, then write their tables and figures.

    Stop it whenever you like: the same command goes on from there.

    `opd run all --profile smoke`

    `opd run kl_direction scheduler --workers 2`

    `opd run kl_direction --set domains.0.path=my_texts/ --results results/mine`

    `opd run all --storage postgresql://me@db/opd --launcher slurm --slurm partition=long`
    """
    from harness.console import Manner, watch
    from harness.report.headline import write_headline
    from harness.study.request import check_domains, requests
    from harness.study.results import Results

    with refusals():
        how = Manner(
            workers=workers or os.cpu_count() or 1,
            runner=runner,
            storage=storage,
            launcher=launcher,
            slurm=pairs("--slurm", slurm or ()),
        )
        asked = requests(chosen(names), profile_named(profile), settings or (), arms or ())
        check_domains(asked)
        code = watch(asked, Results(root=results), how)
        for path in write_headline(chosen(None), results):
            typer.echo(path)
    raise typer.Exit(code)


def profile_named(name: str) -> "Profile":
    """The profile of that name; ValueError for one that is not there."""
    from harness.study.ablation import PROFILES
    from harness.study.suggest import did_you_mean

    known = {str(key): found for key, found in PROFILES.items()}
    if name not in known:
        hint = did_you_mean(name, known)
        raise ValueError(f"no profile {name!r}{hint}; there are: {', '.join(known)}")
    return known[name]


@app.command()
def aa(
    name: Annotated[str, typer.Argument(help="An ablation.")],
    seeds: Annotated[int, typer.Option(min=6, help="Pairs; twice as many seeds are run.")] = 10,
    profile: Annotated[str, typer.Option(help="smoke, quick or paper.")] = "quick",
    workers: Annotated[int | None, typer.Option(min=1, help="Default: cores.")] = None,
    results: Annotated[Path, typer.Option(help="A folder of its own.")] = Path("results/aa"),
) -> None:
    """Run the reference arm of an ablation against itself: how often would it seem to differ?

    `opd aa kl_direction --seeds 10`
    """
    from harness.console import Manner, watch
    from harness.report.aa import false_alarms
    from harness.report.outcomes import worlds
    from harness.study.request import requests
    from harness.study.results import Results
    from harness.trial.record import read_records

    with refusals():
        (ablation,) = chosen([name])
        doubled = replace(profile_named(profile), seeds=2 * seeds)
        references = sorted({section.reference for section in ablation.worlds.values()})
        how = Manner(workers=workers or os.cpu_count() or 1, runner=RUNNER)
        asked = requests([ablation], doubled, (), references)
        code = watch(asked, Results(root=results), how)
        for world in worlds(ablation, read_records(results / "runs" / f"{name}.jsonl")):
            typer.echo(false_alarms(world).sentence())
    raise typer.Exit(code)


@app.command(name="list")
def list_ablations() -> None:
    """The ablations, and what each asks."""
    with refusals():
        found = chosen(None)
    width = max(len(ablation.name) for ablation in found)
    for ablation in found:
        typer.echo(f"{ablation.name:{width}}  {ablation.question}")


@app.command()
def doctor(results: Where = LOCAL) -> None:
    """What this machine offers, and whether RESULTS can be written to; builds the C++ kernels."""
    import opd_kernels
    from harness.study.results import Results
    from harness.trial.environment import environment

    for key, value in (environment() | opd_kernels.doctor()).items():
        typer.echo(f"{key}: {value}")
    with refusals():
        Results(root=results).prepare()
        typer.echo(f"results: {results} can be written to")
        typer.echo(f"ablations: {', '.join(ablation.name for ablation in chosen(None))}")


if __name__ == "__main__":
    app()
