"""A study whose cells take milliseconds, and workers that start at once."""

import dataclasses
import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self

from harness.domains import Markov
from harness.domains.base import Split
from harness.models.tiny import TinyShape
from harness.study.ablation import Ablation, Profile, Section, Tuning
from harness.study.launch import run_study
from harness.study.queue import Failure
from harness.study.request import Request, requests
from harness.study.results import Results
from harness.study.schedule import Schedule
from harness.study.worker import run_worker
from harness.training.config import Distill, Optimization, Sft
from harness.trial.config import Evaluation, Specialist, TrialConfig
from harness.trial.record import Outcome

RATE = "method.optimization.learning_rate"
BEST_RATE = 2e-3
RUNNER = "tests.study.toy:run"
FAST = Profile(name="quick", seeds=3, tuning_trials=5, tuning_seeds=2)


def config(steps: int = 1, milliseconds: int = 0) -> TrialConfig:
    """`base.steps` is how long the stand-in takes, `method.steps` tells arms apart."""
    optimization = Optimization(learning_rate=1e-3)
    return TrialConfig(
        domains=(Markov(name="a", source_seed=1), Markov(name="b", source_seed=2)),
        student=TinyShape(),
        base=Sft(steps=milliseconds, batch_sequences=2, optimization=optimization),
        specialist=Specialist(
            gap_nats=0.1, training=Sft(steps=1, batch_sequences=1, optimization=optimization)
        ),
        method=Distill(steps=steps, batch_sequences=2, optimization=optimization),
        evaluation=Evaluation(),
    )


def ablation(
    arms: Sequence[int] = (1, 2),
    *,
    name: str = "toy",
    tuned: bool = False,
    milliseconds: int = 0,
    families: dict[str, str] | None = None,
) -> Ablation:
    """One world, `toy`, with an arm `arm N` per entry of `arms`."""
    made = {f"arm {n}": config(n, milliseconds) for n in arms}
    first = f"arm {arms[0]}"
    section = Section(arms=made, controls={}, reference=first, baseline=first, metric="nats")
    return Ablation(
        name=name,
        question="Does it survive?",
        varies=("method.steps",),
        tuning=Tuning(parameters={RATE: (5e-4, 8e-3)} if tuned else {}, families=families or {}),
        worlds={"toy": section},
    )


def request(
    made: Ablation, profile: Profile = FAST, sets: Sequence[str] = (), arms: Sequence[str] = ()
) -> Request:
    """One ablation as a command would ask for it."""
    return requests([made], profile, sets, arms)[0]


def asked(made: Ablation | None = None, seeds: int = 3) -> Request:
    """A request under the fast profile with that many seeds."""
    return request(made or ablation(), dataclasses.replace(FAST, seeds=seeds))


RAISES, RAISES_ONCE, DIVERGES, KILLED = 901, 902, 903, 904


def run(config: TrialConfig, seed: int, cache: Path, *, held_out: Split) -> Outcome:
    """Notes that it ran, takes its time, and is best at one learning rate."""
    assert isinstance(config.method, Distill)
    kind, rate = config.method.steps, config.method.optimization.learning_rate
    started(cache, f"{kind} {seed} {rate} {held_out}")
    time.sleep(config.base.steps / 1000)
    attempts = Counter(evaluations(cache))[f"{kind} {seed} {rate} {held_out}"]
    if kind == RAISES or (kind == RAISES_ONCE and attempts == 1):
        raise RuntimeError(f"attempt {attempts} of seed {seed}")
    if kind == KILLED and attempts == 1:
        os.kill(os.getpid(), 9)
    nats = 2.0 + math.log(rate / BEST_RATE) ** 2 + 0.01 * seed
    diverged = kind == DIVERGES or rate > 7e-3
    return Outcome(
        status="diverged" if diverged else "finished",
        metrics={"nats": {"a": nats, "b": nats, "macro": nats}},
        curve={"evaluation": {"step": [0.0, 1.0]}, "training": {}},
        budget={"trained_tokens": 1.0, "flops": 1.0, "teacher_flops": 1.0},
        cause="NaN" if diverged else None,
    )


def started(cache: Path, line: str) -> None:
    """One line per evaluation, whole: short appends do not mix."""
    with (cache / "evaluations.txt").open("a") as file:
        file.write(line + "\n")


def evaluations(cache: Path) -> list[str]:
    """What was run so far, each as often as it was."""
    path = cache / "evaluations.txt"
    return path.read_text().splitlines() if path.exists() else []


class Quiet:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def begin(self, schedules: Sequence[Schedule], workers: int) -> None:
        pass

    def update(self, schedules: Sequence[Schedule]) -> None:
        pass

    def finished(self, schedule: Schedule) -> None:
        self.done.append(schedule.request.ablation.name)


FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.study.toy"])


class Pool:
    """Keeps workers alive as `LocalPool` does, but forked: none has to load torch.

    In a process that is forked itself, `nested` has the workers end with it.
    """

    def __init__(
        self, results: Results, storage: str | None = None, *, nested: bool = False
    ) -> None:
        self.results, self.storage = results, storage
        self.context: BaseContext = FORKSERVER
        self.parent: int | None = None
        if nested:
            self.context, self.parent = multiprocessing.get_context("fork"), os.getpid()
        self.workers: list[BaseProcess] = []

    def keep(self, count: int) -> None:
        self.workers = [worker for worker in self.workers if worker.is_alive()]
        while len(self.workers) < count:
            self.workers.append(self._start())

    def _start(self) -> BaseProcess:
        arguments = (self.results.root, RUNNER, self.parent, self.storage)
        process = self.context.Process(target=run_worker, args=arguments)  # type: ignore[attr-defined]
        assert isinstance(process, BaseProcess)
        process.start()
        return process

    def progressed(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.join()


def study(
    root: Path, *requests: Request, workers: int = 2, watcher: Quiet | None = None
) -> list[Failure]:
    """Run requests to the end with real worker processes."""
    results = Results(root=root)
    pool = Pool(results)
    return run_study(requests, results, watcher or Quiet(), pool=pool, workers=workers)
