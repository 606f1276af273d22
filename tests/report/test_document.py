import re
from pathlib import Path

import pytest

from harness.report.document import write_document
from harness.report.write import write_tables
from harness.trial.record import append_records
from tests.report.synthetic import BASE, NASTY, ablation, factorial_ablation, records


def check_latex(source: str) -> list[str]:
    """Refuses unbalanced braces or environments; returns the environments in order."""
    source = re.sub(r"(?m)(?<!\\)%.*$", "", source)
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", source):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    opened: list[str] = []
    seen: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([^}]*)\}", source):
        if kind == "begin":
            opened.append(name)
            seen.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    return seen


@pytest.mark.parametrize("seeds", [1, 2, 7])
def test_every_table_is_in_one_whole_document(tmp_path: Path, seeds: int) -> None:
    for made in (ablation({NASTY: BASE}), factorial_ablation()):
        diverged = {NASTY: range(seeds)}
        append_records(
            tmp_path / "runs" / f"{made.name}.jsonl",
            records(made, {}, seeds=seeds, diverged=diverged),
        )
        write_tables(made, tmp_path)
    path = write_document(tmp_path)
    assert path == tmp_path / "tables" / "all.tex"
    source = path.read_text()
    parts = [p.read_text() for p in path.parent.glob("*.tex") if p != path]
    assert all(part in source for part in parts)
    seen = check_latex(source)
    assert seen[0] == "document"
    assert seen.count("tabular") == sum(part.count(r"\begin{tabular}") for part in parts) > 5
    assert source.startswith(r"\documentclass")
    assert source.endswith("\\end{document}\n")
    assert source.isascii()
    before = path.read_bytes()
    write_document(tmp_path)
    assert path.read_bytes() == before


def test_without_tables_there_is_no_document(tmp_path: Path) -> None:
    assert write_document(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
