"""Are an ablation's table files all there, clean, and the same bytes again?"""

import re
from pathlib import Path

from harness.report.write import write_tables
from harness.trial.record import append_records
from tests.report.synthetic import ablation, factorial_ablation, records, varied


def test_files_are_the_same_bytes_again(tmp_path: Path) -> None:
    made = factorial_ablation()
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}))
    paths = write_tables(made, tmp_path)
    assert sorted(path.name for path in paths) == sorted(
        f"design_search{part}.{kind}" for part in ("", ".anova") for kind in ("md", "tex", "csv")
    )
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_tables(made, tmp_path)] == first
    for content in first:
        assert not re.search(rb"\b(nan|NaN|inf)\b", content)


def test_no_records_write_no_files(tmp_path: Path) -> None:
    assert write_tables(ablation(varied(2)), tmp_path) == []
