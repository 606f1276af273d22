import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.report.page import write_page
from harness.report.write import write_figures
from harness.trial.record import append_records
from tests.report.synthetic import BASE, NASTY, ablation, records

ARMS = {"reverse KL": BASE}


class Balance(HTMLParser):
    """Refuses a closing tag that closes nothing."""

    VOID = frozenset({"meta", "link", "img", "br", "input", "hr"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(results: Path, seeds: int = 10, profile: str = "quick") -> str:
    made, other = ablation({NASTY: BASE}), ablation(ARMS, name="exp11")
    append_records(results / "runs" / f"{made.name}.jsonl",
                   records(made, {}, seeds=seeds, profile=profile))  # fmt: skip
    write_figures(made, results)
    return write_page([made, other], {made.name: "Why.  <b>"}, results).read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(tmp_path_factory.mktemp("results"))


def test_everything_is_on_it_and_escaped(whole: str) -> None:
    Balance(whole)
    assert "Why.  &lt;b&gt;" in whole
    assert "kl_rev_50%&amp;#{}~^\\|$x$" in whole
    assert "Not run: exp11." in whole
    assert whole.count("data:image/svg+xml;base64,") == 2
    assert "make ablate-kl_direction" in whole
    assert "false by the source" in whole


def test_it_asks_nothing_of_a_network(whole: str) -> None:
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", whole) == []


def test_links_lead_somewhere(whole: str) -> None:
    targets = set(re.findall(r'id="([^"]+)"', whole))
    assert set(re.findall(r'href="#([^"]+)"', whole)) <= targets


def test_smoke_runs_are_called_what_they_are(tmp_path: Path) -> None:
    assert "they show nothing" in page(tmp_path, seeds=2, profile="smoke")


def test_an_empty_folder_has_a_page(tmp_path: Path) -> None:
    text = write_page([ablation(ARMS)], {}, tmp_path).read_text()
    assert "Not run: kl_direction." in text
