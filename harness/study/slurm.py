"""How do jobs of a Slurm cluster work for a study?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.study.pool import CRASH_LIMIT, FolderUnusable, WorkersFailed
from harness.study.results import Results
from harness.study.worker import LOST, UNUSABLE, run_worker

IDLE_SECONDS = 600.0
DEFAULTS = {"job_name": "opd-worker", "cpus_per_task": "1", "mem": "4G", "time": "720"}


@dataclass(kw_only=True)
class SlurmPool:
    """One job per worker, submitted by submitit, replaced when it ends, cancelled at the end.

    `options` are those of sbatch, by their long names. A job whose time is nearly over gives its
    cell back. Raises ValueError where submitit or Slurm is not there, or an option is unknown.
    """

    results: Results
    runner: str
    storage: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = "slurm"
    _jobs: list[Any] = field(default_factory=list)
    _ended: int = 0

    def __post_init__(self) -> None:
        try:
            import submitit
        except ImportError:
            raise ValueError(
                "--launcher slurm: needs submitit: pip install 'opd-bench[slurm]'"
            ) from None
        try:
            self._executor = submitit.AutoExecutor(self.results.jobs, cluster=self.cluster)
            self._executor.update_parameters(
                **{f"slurm_{key.replace('-', '_')}": value for key, value in self._all_options()}
            )
        except (RuntimeError, NameError, TypeError) as error:
            raise ValueError(f"--launcher slurm: {error}") from None

    def _all_options(self) -> list[tuple[str, str]]:
        return list((DEFAULTS | dict(self.options)).items())

    def sbatch_text(self) -> str:
        """What is handed to sbatch for every job."""
        slurm: Any = self._executor._executor
        return str(slurm._make_submission_file_text(slurm._submitit_command_str, "job"))

    def keep(self, count: int) -> None:
        """See to it that `count` jobs wait or run.

        Raises WorkersFailed where they end by themselves again and again, FolderUnusable where one
        found that the results folder cannot be written to.
        """
        for job in [job for job in self._jobs if job.done()]:
            self._jobs.remove(job)
            self._count(job)
        while len(self._jobs) < count:
            self._jobs.append(
                self._executor.submit(
                    run_worker, self.results.root, self.runner, None, self.storage, IDLE_SECONDS
                )
            )

    def progressed(self) -> None:
        """A cell was finished: jobs that end are preempted or out of time, not broken."""
        self._ended = 0

    def _count(self, job: Any) -> None:
        error = job.exception()
        if error is None and job.result() == UNUSABLE:
            raise FolderUnusable(str(job.stderr()).strip())
        self._ended += error is not None or job.result() == LOST
        if self._ended >= CRASH_LIMIT:
            why = str(error) if error is not None else str(job.stderr()).strip()
            raise WorkersFailed(f"jobs keep ending ({job.job_id}): {why[-2000:]}")

    def __enter__(self) -> "SlurmPool":
        return self

    def __exit__(self, *exception: object) -> None:
        for job in self._jobs:
            job.cancel(check=False)
