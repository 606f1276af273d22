from dataclasses import replace
from pathlib import Path

import pytest

from harness.study.results import Results, whole_lines, write_whole
from harness.study.runs import Runs, RunsFile
from harness.trial.record import TrialRecord


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Results(root=tmp_path)
    made.prepare()
    return made


def record(seed: int = 0, arm: str = "a", digest: str | None = None) -> TrialRecord:
    return TrialRecord(
        ablation="toy",
        world="w",
        arm=arm,
        seed=seed,
        profile="quick",
        digest=digest or f"{arm}{seed}",
        status="finished",
        metrics={"nats": {"macro": 1.5}},
        curve={},
        budget={},
        config={},
        environment={},
        wall_seconds=1.0,
    )


def test_a_filing_is_written_once_by_however_many(results: Results) -> None:
    one, two = (RunsFile(results=results, name="toy") for _ in range(2))
    assert one.append([record(0), record(1)]) == 2
    assert two.append([record(1), record(2)]) == 1
    assert one.append([record(2)]) == 0
    assert len(one.path.read_text().splitlines()) == 3


def test_another_digest_is_another_filing(results: Results) -> None:
    file = RunsFile(results=results, name="toy")
    assert file.append([record(), record(digest="other")]) == 2


def test_refresh_reads_what_was_added_and_no_half_line(results: Results) -> None:
    file, writer = (RunsFile(results=results, name="toy") for _ in range(2))
    writer.append([record(0)])
    assert file.refresh() == 1
    writer.append([record(1)])
    with writer.path.open("a") as raw:
        raw.write(record(2).line()[:30])
    assert file.refresh() == 1
    assert file.refresh() == 0
    assert {seed for _, _, seed, _ in file.filed} == {0, 1}


def test_a_record_is_found_again_by_where_it_stands(results: Results) -> None:
    file = RunsFile(results=results, name="toy")
    file.append([record(seed) for seed in range(3)])
    assert file.record(file.known["a1"].offset) == record(1)


@pytest.mark.parametrize("missing", [1, 40])
def test_a_last_line_is_completed_or_cut(results: Results, missing: int) -> None:
    file = RunsFile(results=results, name="toy")
    file.append([record(0), record(1)])
    file.path.write_bytes(file.path.read_bytes()[:-missing])
    report = Runs(results).mend()
    assert ["completed the" in line for line in report] == [missing == 1]
    assert RunsFile(results=results, name="toy").refresh() == (2 if missing == 1 else 1)


def test_a_line_is_cut_before_the_next_is_written(results: Results) -> None:
    file = RunsFile(results=results, name="toy")
    file.append([record(0)])
    with file.path.open("a") as raw:
        raw.write('{"half')
    assert file.append([record(1)]) == 1
    assert RunsFile(results=results, name="toy").refresh() == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{broken\n", "not JSON"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b"[1]\n", "expected an object"),
        (b'{"schema": 0}\n', "schema must be 1"),
    ],
)
def test_a_broken_line_is_named(results: Results, line: bytes, words: str) -> None:
    file = RunsFile(results=results, name="toy")
    file.append([record(0)])
    with file.path.open("ab") as raw:
        raw.write(line)
    with pytest.raises(ValueError, match=rf"toy\.jsonl:2: {words}"):
        Runs(results).refresh()


def test_tuning_results_are_no_results(results: Results) -> None:
    runs = Runs(results)
    runs.file("explore").append([record(0)])
    assert runs.known("a0") is None
    assert runs.explored("a0") is not None


def test_the_newest_line_of_a_shared_digest_counts(results: Results) -> None:
    runs = Runs(results)
    runs.file("one").append([record(0), replace(record(0), arm="b")])
    known = runs.known("a0")
    assert known
    assert known.file.record(known.offset).arm == "b"


def test_whole_files_are_replaced_and_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_whole(path, "one")
    write_whole(path, "two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "whole"), [("", 0), ("a", 0), ("a\n", 2), ("a\nb", 2), ("a\n" + "b" * 200_000, 2)]
)
def test_whole_lines(tmp_path: Path, text: str, whole: int) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    assert whole_lines(path) == whole
