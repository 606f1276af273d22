import stat
import sys
from pathlib import Path

import pytest

from harness.study.launch import run_study
from harness.study.pool import CRASH_LIMIT, FolderUnusable, WorkersFailed
from harness.study.results import Results
from harness.study.slurm import SlurmPool
from harness.study.worker import UNUSABLE
from tests.study import toy

pytest.importorskip("submitit")

GOLDEN = """#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=1
#SBATCH --error=JOBS/%j_0_log.err
#SBATCH --job-name=opd-worker
#SBATCH --mem=4G
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=JOBS/%j_0_log.out
#SBATCH --partition=long
#SBATCH --signal=USR2@90
#SBATCH --time=60
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output JOBS/%j_%t_log.out --error JOBS/%j_%t_log.err PYTHON -u -m submitit.core._submit JOBS
"""  # noqa: E501 - as it is


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that seems to be part of a cluster."""
    program = tmp_path / "bin" / "srun"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "results"


def test_what_is_handed_to_sbatch(slurm: Path) -> None:
    results = Results(root=slurm)
    options = {"partition": "long", "time": "60"}
    text = SlurmPool(results=results, runner=toy.RUNNER, options=options).sbatch_text()
    shown = text.replace(str(results.jobs.absolute()), "JOBS").replace(sys.executable, "PYTHON")
    assert shown == GOLDEN


def test_an_option_that_is_none_is_refused(slurm: Path) -> None:
    with pytest.raises(ValueError, match=r"--launcher slurm: .*partitoin"):
        SlurmPool(results=Results(root=slurm), runner="", options={"partitoin": "long"})


def test_a_machine_without_slurm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"--launcher slurm: .*srun"):
        SlurmPool(results=Results(root=tmp_path), runner="")


def test_jobs_work_for_a_study(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    pool = SlurmPool(results=results, runner=toy.RUNNER, cluster="local", options={"time": "5"})
    assert run_study([toy.asked()], results, toy.Quiet(), pool=pool, workers=1) == []
    for job in pool._jobs:  # cancelled
        job._process.wait()
    assert len((tmp_path / "runs" / "toy.jsonl").read_text().splitlines()) == 6
    assert list(results.jobs.iterdir())


class Job:
    """A job that has ended."""

    job_id = "7"

    def __init__(self, result: int = 0, error: Exception | None = None) -> None:
        self._result, self._error = result, error

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> int:
        return self._result

    def stderr(self) -> str:
        return "no space\n"


def test_jobs_that_keep_ending_are_given_up_with_their_last_words(tmp_path: Path) -> None:
    pool = SlurmPool(results=Results(root=tmp_path), runner="", cluster="local")
    for _ in range(2 * CRASH_LIMIT):
        pool._count(Job(error=RuntimeError("preempted")))
        pool.progressed()
    for _ in range(CRASH_LIMIT - 1):
        pool._count(Job(error=RuntimeError("no module")))
    with pytest.raises(WorkersFailed, match=r"jobs keep ending \(7\): no module"):
        pool._count(Job(error=RuntimeError("no module")))


def test_a_folder_that_a_job_cannot_use_is_said_at_once(tmp_path: Path) -> None:
    pool = SlurmPool(results=Results(root=tmp_path), runner="", cluster="local")
    with pytest.raises(FolderUnusable, match="no space"):
        pool._count(Job(result=UNUSABLE))
