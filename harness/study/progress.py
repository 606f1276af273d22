"""What does somebody see who waits for a study?"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from harness.study.schedule import Schedule

PLAIN_SECONDS, BAR_SECONDS = 15.0, 0.5


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`: as much as an estimate is worth."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far an ablation is."""

    name: str
    done: int
    total: int
    seconds_left: float
    measured: bool


def standing(schedule: Schedule, workers: int) -> Standing:
    """Cells done, and the time the rest takes at the median of the cells known so far."""
    done, total = schedule.counts()
    seconds, measured = schedule.seconds_per_cell()
    return Standing(
        name=schedule.request.ablation.name,
        done=done,
        total=total,
        seconds_left=(total - done) * seconds / workers,
        measured=measured,
    )


def cost_line(standings: Sequence[Standing], workers: int) -> str:
    """The price, before anything is started."""
    cells = sum(s.total - s.done for s in standings)
    if not cells:
        return "everything is done already: nothing to run"
    guess = "" if all(s.measured for s in standings if s.total > s.done) else ", a first guess"
    time_left = duration(sum(s.seconds_left for s in standings))
    done = sum(s.done for s in standings)
    return f"at most {cells} cells to run ({done} done), {workers} at a time: {time_left}{guess}"


@dataclass(kw_only=True)
class ConsoleWatcher:
    """Bars on a terminal, a plain line now and then elsewhere. `on_finished` makes the report."""

    console: Console
    on_finished: Callable[[Schedule], list[str]]
    workers: int = 1
    _bars: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _said_at: float = 0.0
    _said: str = ""

    def say(self, line: str) -> None:
        """A line that stays."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, schedules: Sequence[Schedule], workers: int) -> None:
        """Print the cost, then show the bars."""
        self.workers = workers
        standings = [standing(schedule, workers) for schedule in schedules]
        self.say(cost_line(standings, workers))
        self._said_at = time.monotonic()
        if self.console.is_terminal and any(s.done < s.total for s in standings):
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                console=self.console,
            )
            self._bars.start()
            for s in standings:
                self._tasks[s.name] = self._bars.add_task(s.name, total=s.total, left="")

    def update(self, schedules: Sequence[Schedule]) -> None:
        """Redraw, or write a line if the last one is old."""
        due = time.monotonic() - self._said_at
        if due < (PLAIN_SECONDS if self._bars is None else BAR_SECONDS):
            return
        self._said_at = time.monotonic()
        standings = [standing(schedule, self.workers) for schedule in schedules]
        if self._bars is None:
            self._plain_line(standings)
            return
        for s in standings:
            left = "" if s.done >= s.total else f"{duration(s.seconds_left)} left"
            self._bars.update(self._tasks[s.name], completed=s.done, total=s.total, left=left)

    def _plain_line(self, standings: Sequence[Standing]) -> None:
        parts = [f"{s.name} {s.done}/{s.total}" for s in standings if s.done < s.total]
        line = ", ".join(parts)
        if parts and line != self._said:
            self._said = line
            self.say(f"{line}; {duration(sum(s.seconds_left for s in standings))} left")

    def finished(self, schedule: Schedule) -> None:
        """Make the report of one ablation and print where it is."""
        for line in self.on_finished(schedule):
            self.say(line)

    def end(self) -> None:
        """Take the bars off the screen."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
