import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.study import progress
from harness.study.progress import ConsoleWatcher, Standing, cost_line, duration
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from tests.study import toy


def standing(done: int, measured: bool = True) -> Standing:
    return Standing(name="toy", done=done, total=10, seconds_left=30.0, measured=measured)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89.0, "89 s"), (90.0, "2 min"), (3600.0, "60 min"), (11_100.0, "3 h 05 min")],
)
def test_durations_are_as_exact_as_an_estimate(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_cost_is_stated_with_how_it_is_known() -> None:
    assert cost_line([standing(4)], 2) == "at most 6 cells to run (4 done), 2 at a time: 30 s"
    assert cost_line([standing(4, measured=False)], 2).endswith("30 s, a first guess")
    assert cost_line([standing(10)], 2) == "everything is done already: nothing to run"


def schedule() -> Schedule:
    return Schedule(toy.asked(), Runs(Results(root=Path("nowhere"))))


def watcher(*, terminal: bool) -> tuple[ConsoleWatcher, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    return ConsoleWatcher(console=console, on_finished=lambda done: ["the report"]), out


def test_plain_lines_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    watch, out = watcher(terminal=False)
    watch.begin([schedule()], 2)
    watch.update([schedule()])
    watch.update([schedule()])  # nothing new, nothing said
    watch.finished(schedule())
    watch.end()
    assert out.getvalue().splitlines() == [
        "at most 6 cells to run (0 done), 2 at a time: 8 s, a first guess",
        "toy 0/6; 8 s left",
        "the report",
    ]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    watch, out = watcher(terminal=True)
    watch.begin([schedule()], 2)
    watch.update([schedule()])
    watch.end()
    assert "0/6" in out.getvalue()
    assert "8 s left" in out.getvalue()


def test_names_are_printed_as_they_are() -> None:
    watch, out = watcher(terminal=False)
    watch.say("arm [red]x[/red] $ 50 %")
    assert out.getvalue() == "arm [red]x[/red] $ 50 %\n"
