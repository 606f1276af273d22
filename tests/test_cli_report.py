import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ablations
from harness.cli import app
from harness.trial.record import append_records
from tests.report.synthetic import ablation, records, varied

MADE = ablation(varied(2))


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands find one synthetic study in place of the real ones."""
    found = {MADE.name: MADE}
    monkeypatch.setattr(ablations, "module_names", lambda: list(found))
    monkeypatch.setattr(ablations, "load", found.get)
    monkeypatch.setattr(ablations, "discover", lambda: found)


def opd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def folder(root: Path, effect: float = 0.0) -> Path:
    append_records(root / "runs" / f"{MADE.name}.jsonl", records(MADE, {"forward KL": effect}))
    return root


def test_compare_tells_people_and_programs(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "a"), folder(tmp_path / "b", 0.3)
    told = opd("compare", first, second)
    assert told.exit_code == 0, told.output
    assert "forward KL against SFT (flops)" in told.output
    assert "differ" in told.output
    found = json.loads(opd("compare", first, second, "--json").output)
    assert found["cells"][0]["both"] == 50
    assert {entry["agreement"] for entry in found["verdicts"]} == {"reproduced", "outside"}


def test_compare_of_what_is_not_there_is_2(tmp_path: Path) -> None:
    refused = opd("compare", folder(tmp_path / "a"), tmp_path / "nowhere")
    assert refused.exit_code == 2
    assert "results must be a folder with runs/" in refused.stderr


def test_strict_tables_refuse_mixed_and_dirty_commits(tmp_path: Path) -> None:
    root = folder(tmp_path)
    assert opd("tables", "--results", root, "--strict").exit_code == 0
    path = root / "runs" / f"{MADE.name}.jsonl"
    lines = path.read_text().splitlines()
    first = json.loads(lines[0])
    first["environment"] |= {"commit": "f" * 40, "dirty": None}
    path.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    assert opd("tables", "--results", root).exit_code == 0
    refused = opd("tables", "--results", root, "--strict")
    assert refused.exit_code == 2
    assert "--strict allows the records of one clean commit, got ffffffffffff, " in refused.output


def test_tables_name_the_document(tmp_path: Path) -> None:
    done = opd("tables", "--results", folder(tmp_path))
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "tables" / "all.tex") in done.output.splitlines()


@pytest.mark.parametrize("command", ["compare", "tables", "figures", "report"])
def test_every_command_explains_itself(command: str) -> None:
    assert opd(command, "--help").exit_code == 0
