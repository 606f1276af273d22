import csv
import io
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from harness.report.render import Cell, Number, Table, to_csv, to_html, to_latex, to_markdown
from tests.report.synthetic import NASTY

NAMES = [NASTY, "1e5", "*a* _b_ **c**", "[link](x)", "<b>&amp;</b>", "a|b`c`", "~~x~~ $1$ -0"]


def table(*names: str) -> Table:
    rows = tuple(
        (
            Cell(parts=(name,), bold=i == 0, values={"arm": name}),
            Cell(parts=(Number("-0.10"), " [", Number("-0.2"), "]**"), values={"x": -0.1}),
        )
        for i, name in enumerate(names)
    )
    return Table(
        name="main", world="markov", caption=f"Caption {NASTY}", columns=("arm", "x [95 %]"),
        rows=rows, notes=(f"* note {NASTY}",),
    )  # fmt: skip


class Text(HTMLParser):
    """The text of every table cell of an HTML page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("td", "th"):
            self.inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


def test_markdown_shows_names_as_they_are() -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    page = parser.render(to_markdown([table(*NAMES)], NASTY))
    assert Text(page).cells[2::2] == NAMES
    assert "\u22120.10 [\u22120.2]**" in Text(page).cells


def test_html_shows_names_as_they_are() -> None:
    assert Text(to_html(table(*NAMES))).cells[2::2] == NAMES


def test_csv_holds_names_and_values_as_they_are() -> None:
    other = Table(name="side", world="text", caption="", columns=("a",), rows=((Cell(
        values={"y": None}),),))  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(to_csv([table(*NAMES), other]))))
    assert [row["arm"] for row in rows[:-1]] == NAMES
    assert rows[0] == {"table": "main", "world": "markov", "arm": NASTY, "x": "-0.1", "y": ""}


def braces_balance(latex: str) -> bool:
    depth = 0
    for i, character in enumerate(latex):
        if character in "{}" and (i == 0 or latex[i - 1] != "\\"):
            depth += 1 if character == "{" else -1
            if depth < 0:
                return False
    return depth == 0


def test_latex_escapes_every_special_character() -> None:
    text = to_latex([table(*NAMES)], "q")
    assert braces_balance(text)
    expected = (
        r"kl\_rev\_50\%\&\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
        r"\textbar{}\$x\$"
    )
    assert rf"\textbf{{{expected}}} & \num{{-0.10}} {{[}}\num{{-0.2}}]{{*}}{{*}} \\" in text
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert [row.replace(r"\&", "").count("&") for row in body] == [1] * len(NAMES)


def test_latex_row_never_starts_with_what_a_line_break_would_take_as_its_argument() -> None:
    text = to_latex([table("x", "[y]", "*z")], "q")
    starts = [line[0] for line in text.split(r"\midrule")[1].strip().splitlines()]
    assert "[" not in starts
    assert "*" not in starts


def test_a_table_without_rows_renders() -> None:
    for render in (to_markdown, to_latex):
        assert "Caption" in render([table()], "q")
    assert to_csv([table()]) == "table,world\n"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="rows must have 2 cells, got 1"):
        Table(name="t", world="w", caption="", columns=("a", "b"), rows=((Cell(),),))
