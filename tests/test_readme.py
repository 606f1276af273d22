"""Does the README quote what the committed runs say?"""

from pathlib import Path

import ablations
from harness.report.headline import headline_table
from harness.report.render import to_markdown

ROOT = Path(__file__).resolve().parents[1]


def test_the_headline_table_is_that_of_the_committed_runs() -> None:
    table = headline_table(list(ablations.discover().values()), ROOT / "results" / "reference")
    rows = [line for line in to_markdown([table], "").splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert "\n".join(rows) in (ROOT / "README.md").read_text()


def test_what_the_readme_links_to_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert missing == []
