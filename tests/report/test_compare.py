import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.report.compare import Compared, as_json, compare_results, in_words
from harness.trial.record import TrialRecord, append_records
from tests.report.synthetic import BASE, NASTY, ablation, records, varied

MADE = ablation(varied(2))


def compared(tmp_path: Path, first: list[TrialRecord], second: list[TrialRecord]) -> Compared:
    for name, found in (("first", first), ("second", second)):
        append_records(tmp_path / name / "runs" / "kl_direction.jsonl", found)
    return compare_results([MADE], tmp_path / "first", tmp_path / "second")


def test_a_folder_reproduces_itself(tmp_path: Path) -> None:
    found = records(MADE, {})
    result = compared(tmp_path, found, found)
    (count,) = result.cells
    assert (count.both, count.same_digest, count.same_metrics) == (50, 50, 50)
    assert (count.only_first, count.only_second, count.largest_difference) == (0, 0, 0.0)
    assert {pair.agreement for pair in result.pairs} == {"reproduced"}
    keys = [(p.here.arm, p.here.control) for p in result.pairs]
    assert len(keys) == len(set(keys)) > 2
    assert f"{len(keys)} of {len(keys)} verdicts agree; 0 stand" in in_words(result)


def test_what_differs_is_told(tmp_path: Path) -> None:
    ours, theirs = records(MADE, {}), records(MADE, {"forward KL": 0.3})[:-1]
    theirs[0] = replace(theirs[0], digest="other")
    result = compared(tmp_path, ours, theirs)
    (count,) = result.cells
    assert (count.both, count.same_digest, count.same_metrics) == (49, 48, 40)
    assert count.only_first == 1
    assert count.largest_difference == pytest.approx(0.3)
    by_arm = {v["arm"]: v for v in as_json(result)["verdicts"] if v["control"] == "SFT (flops)"}
    assert by_arm["forward KL"]["agreement"] == "outside"
    assert by_arm["forward KL"]["second"]["verdict"] == "better"
    assert by_arm["forward KL"]["agree"] is False
    assert by_arm["reverse KL"]["agree"] is True


@pytest.mark.parametrize("seeds", [1, 3])
def test_odd_names_one_seed_and_arms_that_diverged(tmp_path: Path, seeds: int) -> None:
    made = ablation({NASTY: BASE})
    found = records(made, {}, seeds=seeds, diverged={NASTY: range(seeds)})
    for name in ("first", "second"):
        append_records(tmp_path / name / "runs" / "kl_direction.jsonl", found)
    result = compare_results([made], tmp_path / "first", tmp_path / "second")
    json.dumps(as_json(result), allow_nan=False)
    assert NASTY in in_words(result)
    assert {p.agreement for p in result.pairs if p.here.arm == NASTY} == {"not compared"}


def test_an_arm_of_one_folder_only_is_named(tmp_path: Path) -> None:
    found = records(MADE, {})
    result = compared(tmp_path, found, [run for run in found if run.arm != "forward KL"])
    assert {verdict.arm for verdict in result.unpaired} == {"forward KL"}


def test_folders_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="results must be a folder with runs/"):
        compare_results([MADE], tmp_path, tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="runs of one ablation in common"):
        compare_results([MADE], tmp_path, tmp_path)
