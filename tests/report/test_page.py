import os
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.report.page import write_page
from harness.report.page_figures import compact
from harness.report.page_reference import Cells, beside, cells
from harness.report.page_text import paragraphs
from harness.report.verdicts import Verdict, verdicts
from harness.report.write import write_figures
from harness.trial.record import append_records
from tests.report.synthetic import (
    BASE,
    NASTY,
    ablation,
    factorial_ablation,
    gap_ablation,
    records,
    varied,
)

ARMS = {"reverse KL": BASE}
SECTION = """What is asked?

Why.      Nobody <b>knows</b>;
          `a_field` is why.
Expect.   Equal, to
          0.02 nats.
"""


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
    return write_page([made, other], {made.name: SECTION}, results).read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(tmp_path_factory.mktemp("results"))


def test_every_part_is_on_it_and_escaped(whole: str) -> None:
    Balance(whole)
    assert "kl_rev_50%&amp;#{}~^\\|$x$" in whole
    for part in (
        "Which divergence should a student minimise on its own samples?",
        '<dd class="expect">Equal, to 0.02 nats.</dd>',
        "Nobody &lt;b&gt;knows&lt;/b&gt;; <code>a_field</code> is why.",
        "against SFT (flops) (markov): inconclusive",
        "paired difference from SFT (flops); positive = better.",
        "every seed a dot",
        "Learning curves",
        "one teacher takes all in 10 of 10 seeds",
        "what one run spent",
        "How to refute this",
        "make ablate-kl_direction PROFILE=quick",
        "Not run: exp11.",
        "false by the source",
    ):
        assert part in whole, part


def test_no_curves_are_shown_where_none_are_measured(tmp_path: Path) -> None:
    uncurved = replace(BASE, evaluation=replace(BASE.evaluation, curve_points=0))
    made = replace(ablation({NASTY: uncurved}), figures=("forest",))
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}))
    written = write_page([made], {made.name: SECTION}, tmp_path).read_text()
    assert "every seed a dot" in written
    assert "Learning curves" not in written


def test_figures_are_drawn_where_they_lie_in_no_folder(whole: str, tmp_path: Path) -> None:
    assert whole.count("data:image/svg+xml,") == 3
    made = ablation({NASTY: BASE})
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}))
    assert len(write_figures(made, tmp_path)) == 4
    assert write_page([made, ablation(ARMS, name="exp11")], {made.name: SECTION}, tmp_path,
                      ).read_text() == whole  # fmt: skip


def test_a_figure_older_than_the_runs_is_drawn_again(whole: str, tmp_path: Path) -> None:
    stale = tmp_path / "figures" / "kl_direction-markov-forest.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    os.utime(stale, (0, 0))
    assert page(tmp_path) == whole
    assert stale.read_text() == "<svg/>"


def test_pictures_are_whole_images(whole: str) -> None:
    for address in re.findall(r'src="data:image/svg\+xml,([^"]*)"', whole):
        assert ElementTree.fromstring(unquote(address)).tag.endswith("svg")


def test_a_picture_loses_digits_and_comments_only() -> None:
    drawn = '<svg>\n <!-- x -->\n <g id="a"/> <path id="b" d="M 1.23456 2\nL 3 -4.00001 \nz\n"/>'
    drawn += '<use href="#b" transform="translate(7.125 0) scale(0.015625)"/></svg>'
    assert compact(drawn) == (
        '<svg><g/><path id="b" d="M1.23 2L3 -4z"/>'
        '<use href="#b" transform="translate(7.12 0) scale(0.015625)"/></svg>'
    )


def test_it_asks_nothing_of_a_network(whole: str) -> None:
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", whole) == []
    assert "@import" not in whole


def test_links_lead_somewhere(whole: str) -> None:
    names = re.findall(r'\sid="([^"]+)"', re.sub(r'src="[^"]*"', "", whole))
    assert len(names) == len(set(names))
    assert {unescape(n) for n in re.findall(r'href="#([^"]+)"', whole)} <= set(names)


def test_it_is_the_same_bytes_when_made_again(tmp_path: Path) -> None:
    made = gap_ablation()
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}, seeds=3))
    first, again = (write_page([made], {}, tmp_path).read_bytes() for _ in range(2))
    assert first == again
    assert b"gap by data:" in first


def test_a_factorial_shows_its_routing(tmp_path: Path) -> None:
    made = factorial_ablation()
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", records(made, {}, seeds=2))
    text = write_page([made], {}, tmp_path).read_text()
    assert "Share of the rollouts" in text
    assert "How the factors act together" in text


def test_smoke_runs_are_called_what_they_are(tmp_path: Path) -> None:
    assert "they show nothing" in page(tmp_path, seeds=2, profile="smoke")


@pytest.mark.parametrize("diverged", [{}, {NASTY: range(1)}])
def test_one_seed_and_an_arm_that_diverged_have_a_page(
    tmp_path: Path, diverged: dict[str, range]
) -> None:
    made = ablation({NASTY: BASE})
    found = records(made, {}, seeds=1, diverged=diverged)
    append_records(tmp_path / "runs" / f"{made.name}.jsonl", found)
    text = write_page([made], {}, tmp_path).read_text()
    Balance(text)
    assert not re.search(r"\bnan\b", re.sub(r'src="[^"]*"', "", text))


def test_an_empty_folder_has_a_page(tmp_path: Path) -> None:
    text = write_page([ablation(ARMS)], {}, tmp_path).read_text()
    assert "Not run: kl_direction." in text


def test_a_docstring_without_headings_is_one_paragraph() -> None:
    assert paragraphs("Question?\n\nA text\nof two lines.\n") == (("", "A text of two lines."),)
    assert paragraphs("Question?") == ()
    assert [heading for heading, _ in paragraphs(SECTION)] == ["Why", "Expect"]


def found(effect: float, profile: str = "quick", seeds: int = 10) -> list[Verdict]:
    made = ablation(varied(2))
    return verdicts(made, records(made, {"forward KL": effect}, profile=profile, seeds=seeds))


def test_results_stand_beside_the_published_ones() -> None:
    published = found(0.0)
    agreements = {
        effect: [pair.agreement for pair in beside(found(effect), published)]
        for effect in (0.0, 0.3)
    }
    assert agreements == {0.0: ["reproduced"] * 2, 0.3: ["reproduced", "outside"]}
    smoke = beside(found(0.0, "smoke"), published)
    assert {pair.agreement for pair in smoke} == {"not compared"}
    one_seed = beside(found(0.3, seeds=1), published)
    assert {pair.agreement for pair in one_seed} == {"not compared"}
    assert beside([], published) == ()


def test_cells_are_compared_by_digest_and_bits() -> None:
    made = ablation(varied(2))
    ours = records(made, {})
    theirs = [*ours[:4], *(replace(run, metrics={}) for run in ours[4:7])]
    assert cells(ours, theirs) == Cells(shared=7, identical=4)
    assert cells(ours, ours) == Cells(shared=50, identical=50)


def test_the_page_says_what_was_reproduced(tmp_path: Path) -> None:
    made = ablation(ARMS)
    for name in ("here", "published"):
        append_records(tmp_path / name / "runs" / "kl_direction.jsonl", records(made, {}))
    here, published = tmp_path / "here", tmp_path / "published"
    text = write_page([made], {}, here, published).read_text()
    Balance(text)
    assert "Against the published results" in text
    assert "40 cells run in both, 40 gave the same bits" in text.replace("\n", " ")
    assert "Against" not in write_page([made], {}, here, here).read_text()


def test_a_reference_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reference must be a folder with runs/"):
        write_page([ablation(ARMS)], {}, tmp_path, tmp_path)


def test_the_command_names_the_page(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", "--results", str(tmp_path)])
    assert done.exit_code == 0
    assert done.output.strip() == str(tmp_path / "report.html")
    refused = CliRunner().invoke(
        app, ["report", "--results", str(tmp_path), "--reference", str(tmp_path)]
    )
    assert refused.exit_code == 2
    assert "reference must be" in refused.output
