"""Does the page work in a real browser: quiet, offline, sortable, and no wider than a phone?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.report.page import write_page
from harness.trial.record import append_records
from tests.report.chromium import PROGRAM, Browser, Scheme, chromium
from tests.report.synthetic import BASE, NASTY, ablation, gap_ablation, records, varied

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs the program chromium")

PHONE = 390
TOO_WIDE = """
[...document.querySelectorAll("body *")].filter(e => {
  for (let at = e.parentElement; at; at = at.parentElement)
    if (getComputedStyle(at).overflowX === "auto") return false;
  return e.getBoundingClientRect().right > innerWidth + 1;
}).map(e => e.outerHTML.slice(0, 80))
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true; })"
DEAD_LINKS = """
[...document.links].filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1))))
  .map(a => a.href)
"""
PICTURES = """
Promise.all([...document.images].map(i => { i.loading = "eager"; return i.decode(); }))
  .then(() => [...document.images].map(i => i.naturalWidth))
"""


def column(table: str, index: int) -> str:
    return (
        f"[...document.querySelectorAll('{table} tbody tr')].map(r => r.cells[{index}].innerText)"
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ablations, one with an arm of an odd name, beside published results."""
    here, there = (tmp_path_factory.mktemp(name) for name in ("here", "there"))
    arms = ablation({**varied(3), NASTY: BASE} | {"reverse KL": varied(4)["JSD(0.2)"]})
    for results, effects in ((here, {"forward KL": 0.05}), (there, {})):
        for made in (arms, gap_ablation()):
            path = results / "runs" / f"{made.name}.jsonl"
            append_records(path, records(made, effects, seeds=6))
    return write_page([arms, gap_ablation()], {arms.name: "Q?\n\nWhy.  It is.\n"}, here, there)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_quiet_and_asks_for_nothing(
    browser: Browser, page: Path, width: int, scheme: Scheme
) -> None:
    browser.show(page, width=width, scheme=scheme)
    widths = browser.ask(PICTURES)
    assert len(widths) == 7
    assert min(widths) > 100
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]


@pytest.mark.parametrize("width", [1280, PHONE])
def test_nothing_is_wider_than_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.show(page, width=width)
    browser.ask(OPEN_ALL)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") == width
    assert browser.ask(TOO_WIDE) == []


def test_light_and_dark_differ_and_both_can_be_read(browser: Browser, page: Path) -> None:
    ink = "getComputedStyle(document.body).color"
    paper = "getComputedStyle(document.body).backgroundColor"
    found = {}
    for scheme in ("light", "dark"):
        browser.show(page, scheme=scheme)
        found[scheme] = (browser.ask(ink), browser.ask(paper))
    assert found == {
        "light": ("rgb(29, 31, 33)", "rgb(255, 255, 255)"),
        "dark": ("rgb(230, 230, 230)", "rgb(22, 24, 26)"),
    }
    assert "invert" in browser.ask("getComputedStyle(document.images[0]).filter")


def test_links_lead_somewhere_and_open_what_is_folded(browser: Browser, page: Path) -> None:
    browser.show(page)
    assert browser.ask("document.links.length") > 8
    assert browser.ask(DEAD_LINKS) == []
    folded = "document.getElementById('kl_direction-all').open"
    assert browser.ask(folded) is False
    browser.ask("location.hash = '#kl_direction-all'")
    browser.ask("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert browser.ask(folded) is True


def test_a_column_sorts_by_its_numbers_up_down_and_back(browser: Browser, page: Path) -> None:
    browser.show(page)
    table, head = "#kl_direction > figure:nth-of-type(1) table", "thead th:nth-child(3)"
    press = f"document.querySelector('{table} {head}')"
    before = browser.ask(column(table, 2))
    assert before[0].startswith("reference")
    browser.ask(f"{press}.click()")
    up = [cell for cell in browser.ask(column(table, 2)) if cell[0] in "+\u2212"]
    values = [float(cell.split()[0].replace("\u2212", "-").rstrip("*")) for cell in up]
    assert len(values) == len(before) - 1
    assert values == sorted(values)
    assert browser.ask(f"{press}.getAttribute('aria-sort')") == "ascending"
    key = "new KeyboardEvent('keydown', {key: 'Enter'})"
    browser.ask(f"{press}.dispatchEvent({key})")
    down = browser.ask(column(table, 2))
    assert down[:-1] == up[::-1]
    assert down[-1] == before[0]  # a cell without a number stays last
    browser.ask(f"{press}.click()")
    assert browser.ask(column(table, 2)) == before
    assert browser.ask(f"{press}.getAttribute('aria-sort')") is None


def test_every_table_sorts_by_every_column_and_loses_no_row(browser: Browser, page: Path) -> None:
    browser.show(page)
    rows = "[...document.querySelectorAll('tbody')].map(b => [...b.rows].map(r => r.innerText))"
    before = browser.ask(rows)
    browser.ask("document.querySelectorAll('thead th').forEach(head => head.click())")
    after = browser.ask(rows)
    assert after != before
    assert [sorted(body) for body in after] == [sorted(body) for body in before]
    assert browser.complaints == []


def test_text_sorts_by_the_numbers_within_it(browser: Browser, page: Path) -> None:
    browser.show(page)
    table = "#specialist_gap > figure:nth-of-type(1) table"
    browser.ask(f"document.querySelector('{table} thead th').click()")
    arms = browser.ask(column(table, 0))
    gaps = [float(arm.split()[2]) for arm in arms if arm.endswith("(data)") and "OPD" in arm]
    assert gaps == sorted(gaps)


def test_a_complaint_is_heard(browser: Browser, tmp_path: Path) -> None:
    loud = tmp_path / "loud.html"
    loud.write_text("<!doctype html><script>missing()</script>")
    browser.show(loud)
    assert "missing is not defined" in browser.complaints[0]
