"""What do all commands share: how they end, and where things lie?"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

FAILED, REFUSED = 1, 2
LOCAL = Path("results/local")
RUNNER = "harness.trial.run:run_trial"

Where = Annotated[Path, typer.Option("--results", help="Results folder.")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Where the queue lives: `postgresql://…`, or `grpc://HOST:PORT` (Optuna's proxy in "
        "front of it). Default: a journal file in RESULTS.",
    ),
]


@contextmanager
def refusals() -> Iterator[None]:
    """Bad input ends in one line on stderr and exit code 2, workers that cannot run in 1."""
    from harness.study.pool import FolderUnusable, WorkersFailed
    from harness.study.storage import StorageLost

    try:
        yield
    except (ValueError, FolderUnusable) as error:
        end(str(error), REFUSED)
    except OSError as error:
        end(f"{error.filename or 'results'}: {error.strerror}", REFUSED)
    except (WorkersFailed, StorageLost) as error:
        end(str(error), FAILED)


def end(line: str, code: int) -> NoReturn:
    """Say why, and end."""
    typer.echo(f"opd: {line}", err=True)
    raise typer.Exit(code)


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a dictionary; ValueError for one that is none."""
    found = dict(text.split("=", 1) for text in texts if "=" in text)
    if len(found) < len(texts):
        raise ValueError(f"{option} must be option=value, each once, got {', '.join(texts)}")
    return found
