from pathlib import Path

import pytest

from harness.report.calibrate import CHECKS, Check, report

DOCUMENT = Path(__file__).parents[2] / "docs" / "statistics.md"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_rate_lies_in_its_range(check: Check) -> None:
    assert check.low <= check.rate() <= check.high


def test_document_names_every_check() -> None:
    text = DOCUMENT.read_text()
    assert [check.name for check in CHECKS if check.name not in text] == []


def test_report_has_a_row_per_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.calibrate.CHECKS", CHECKS[1:2])
    assert len(report().splitlines()) == 3
