import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import console
from harness.cli import app
from harness.study.queue import Queue
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from harness.trial.record import read_records
from tests.study import toy


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds toy studies in place of the real ones."""
    import ablations

    made = {
        "toy": toy.ablation((1, 2)),
        "toy_raises": toy.ablation((20 * toy.RAISES, 2), name="toy_raises"),  # smoke: a 20th
    }
    monkeypatch.setattr(ablations, "module_names", lambda: list(made))
    monkeypatch.setattr(ablations, "load", made.get)
    monkeypatch.setattr(ablations, "discover", lambda: made)
    monkeypatch.setattr(console, "report", lambda ablation, results: [f"{ablation.name}: ok"])


REAL_POOL = console.LocalPool


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One test below puts the real ones back."""
    fork_workers(monkeypatch)


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that start at once."""
    monkeypatch.setattr(
        console, "LocalPool", lambda results, runner, storage: toy.Pool(results, storage)
    )


def opd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run(root: Path, *arguments: str) -> Result:
    common = ("--profile", "smoke", "--workers", "1", "--runner", toy.RUNNER)
    return opd("run", *arguments, *common, "--results", root)


def test_a_run_says_what_it_costs_and_ends_with_the_report_and_0(tmp_path: Path) -> None:
    done = run(tmp_path, "toy")
    assert done.exit_code == 0, done.output
    assert "at most 4 cells to run (0 done), 1 at a time: 4 s, a first guess" in done.output
    assert "toy: ok" in done.output
    assert len(read_records(tmp_path / "runs" / "toy.jsonl")) == 4
    again = run(tmp_path, "toy")
    assert "nothing to run" in again.output
    assert "toy: ok" in again.output


def test_a_trial_that_failed_for_good_ends_with_1_and_says_which_and_why(tmp_path: Path) -> None:
    done = run(tmp_path, "toy_raises", "toy")
    assert done.exit_code == 1
    assert "toy_raises/toy/arm 18020, seed 0: failed 3 times" in done.stderr
    assert "RuntimeError: attempt 3 of seed 0" in done.stderr
    assert "toy: ok" in done.output


def test_a_report_that_cannot_be_made_ends_with_1_after_the_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(ablation: object, results: Path) -> list[str]:
        raise KeyError("no such metric")

    monkeypatch.setattr(console, "report", broken)
    done = run(tmp_path, "toy")
    assert done.exit_code == 1
    assert "no such metric" in done.output
    assert len(read_records(tmp_path / "runs" / "toy.jsonl")) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tyo"], "no ablation 'tyo'; did you mean 'toy'?; there are: toy, toy_raises, all"),
        (["toy", "--arm", "arm 9"], "--arm arm 9: not there; did you mean 'arm"),
        (["toy", "--set", "student.widht=1"], "did you mean 'student.width'?"),
        (["toy", "--set", "student.width=x"], "student.width: expected int, got 'x'"),
        (["toy", "--set", "domains.0.path=/x"], "--set domains.0.path: not there"),
    ],
)
def test_bad_input_is_one_line_and_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("opd: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_profile_is_refused() -> None:
    done = opd("run", "toy", "--profile", "quik")
    assert done.exit_code == 2
    assert "no profile 'quik'; did you mean 'quick'?" in done.stderr


@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_a_number_of_workers_that_is_none_is_refused(workers: str) -> None:
    assert opd("run", "toy", "--workers", workers).exit_code == 2


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    done = run(tmp_path / "file", "toy")
    assert done.exit_code == 2
    assert "Not a directory" in done.stderr or "File exists" in done.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_a_results_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(descriptor: int) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(os, "fsync", read_only)
    done = run(tmp_path, "toy")
    assert done.exit_code == 2
    assert "Read-only file system" in done.stderr


def test_a_disk_that_is_full_loses_only_the_record_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LocalPool", REAL_POOL)
    Results(root=tmp_path).prepare()
    full = tmp_path / "runs" / "toy.jsonl"
    full.symlink_to("/dev/full")
    done = run(tmp_path, "toy")
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    full.unlink()
    fork_workers(monkeypatch)
    assert run(tmp_path, "toy").exit_code == 0
    assert len(read_records(full)) == 4


def test_a_broken_line_is_refused_with_its_number(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "other.jsonl").write_text("{broken\n")
    done = run(tmp_path, "toy")
    assert done.exit_code == 2
    assert "other.jsonl:1: not JSON" in done.stderr


def test_a_study_of_another_plan_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "queue.journal").write_text("my notes\nmore notes\n")
    done = run(tmp_path, "toy")
    assert done.exit_code == 2
    assert "queue.journal: not an Optuna journal" in done.stderr
    assert (tmp_path / "queue.journal").read_text() == "my notes\nmore notes\n"


def test_status_tells_people_and_programs(tmp_path: Path) -> None:
    run(tmp_path, "toy")
    assert "toy (smoke): 4 of 4 cells, 0 diverged" in opd("status", "--results", tmp_path).output
    found = json.loads(opd("status", "--json", "--results", tmp_path).output)
    assert found["ablations"][0]["done"] == 4
    nobody = {"failures": [], "workers": [], "lost": 0, "running": 0, "waiting": 0}
    assert found["queue"] == nobody | {"finished": 2}  # the arms come to one trial
    assert found["eta_seconds"] is None


def test_a_worker_joins_and_ends_when_nothing_is_left(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    results.prepare()
    Queue(results).enqueue(Schedule(toy.asked(), Runs(results)).wanted())
    options = ["--results", str(tmp_path), "--wait", "0.2", "--runner", toy.RUNNER]
    joined = subprocess.run(
        [sys.executable, "-m", "harness.cli", "worker", *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
    )
    assert (joined.returncode, joined.stderr) == (0, "")
    assert len(read_records(tmp_path / "runs" / "toy.jsonl")) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "toy", "--storage", "mysql://db"], "--storage must be postgresql"),
        (["run", "toy", "--storage", "sqlite:///q", "--workers", "2"], "give --workers 1"),
        (["run", "toy", "--launcher", "cloud"], "--launcher must be one of local, slurm"),
        (["run", "toy", "--slurm", "partition=x"], "--slurm is for --launcher slurm"),
        (["run", "toy", "--slurm", "partition"], "--slurm must be option=value"),
        (["worker", "--storage", "sqlite:///q"], "SQLite serves one worker"),
        (["worker", "--results", "nowhere"], "results folder must exist"),
        (["reindex", "--results", "nowhere"], "results folder must exist"),
    ],
)
def test_a_queue_that_cannot_be_used_is_one_line_and_2(arguments: list[str], words: str) -> None:
    done = opd(*arguments)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_reindex_shows_the_records_again(tmp_path: Path) -> None:
    run(tmp_path, "toy")
    assert "4 records in the queue" in opd("reindex", "--results", tmp_path).output
    found = json.loads(opd("status", "--json", "--results", tmp_path).output)
    assert found["queue"]["finished"] == 4


def test_status_of_nothing_is_refused(tmp_path: Path) -> None:
    done = opd("status", "--results", tmp_path / "nowhere")
    assert done.exit_code == 2
    assert "results folder must exist" in done.stderr


def test_list_names_every_question() -> None:
    assert "toy         Does it survive?" in opd("list").output


def test_doctor_shows_the_environment(tmp_path: Path) -> None:
    done = opd("doctor", "--results", tmp_path)
    assert done.exit_code == 0
    assert "torch: 2." in done.output
    assert "C++ kernels, float32: " in done.output
    assert "can be written to" in done.output


@pytest.mark.parametrize(
    "command", ["run", "worker", "reindex", "status", "list", "tables", "figures", "doctor"]
)
def test_every_command_explains_itself(command: str) -> None:
    assert opd(command, "--help").exit_code == 0
