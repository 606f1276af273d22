"""How does one table look in Markdown, LaTeX, CSV and HTML?

A cell is a row of parts, text or number; each format escapes and typesets parts in its own way.
The CSV holds the unrounded values behind the cells, one line per row of any table.
"""

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tabulate import tabulate

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Number:
    """Digits as they are to be shown, with an ASCII sign."""

    digits: str


Part = str | Number


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is shown, and the CSV columns that hold the values behind it."""

    parts: tuple[Part, ...] = ()
    bold: bool = False
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells under `columns`; the first column is text, the others are set to the right."""

    name: str
    world: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"rows must have {len(self.columns)} cells, got {len(row)}")


MINUS = "\u2212"
MARKDOWN = {
    **{character: "\\" + character for character in "\\`*_#~"},
    **{"|": "&#124;", "$": "&#36;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "},
}
LATEX = {
    **{character: "\\" + character for character in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: "{" + character + "}" for character in "*["},  # both mean something after a row
    "\u2020": r"\dag{}",
    "\u2264": r"\(\le\)",
    "\u00b1": r"\(\pm\)",
    "\u03c9": r"\(\omega\)",
    "\u00b2": r"\(^2\)",
    "\u00d7": r"\(\times\)",
    MINUS: r"\(-\)",
    "\n": " ",
}


def escape_markdown(text: str) -> str:
    """`text` so that a Markdown renderer (tables, strike-through, math) shows it as it is."""
    text = "".join(MARKDOWN.get(character, character) for character in text)
    return text.replace("](", "]\\(")  # a bracket is a link only before a parenthesis


def escape_latex(text: str) -> str:
    """`text` so that LaTeX prints it as it is."""
    return "".join(LATEX.get(character, character) for character in text)


def to_markdown(tables: Sequence[Table], title: str) -> str:
    """A document: one caption, pipe table and list of notes after the other."""
    blocks = [f"# {escape_markdown(title)}"]
    for table in tables:
        rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
        grid = tabulate(
            rows,
            [escape_markdown(column) for column in table.columns],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=("left", *["right"] * (len(table.columns) - 1)) if rows else None,
        )
        notes = "\n".join(f"- {escape_markdown(note)}" for note in table.notes)
        blocks += [f"**{escape_markdown(table.caption)}**", grid, *([notes] if notes else [])]
    return "\n\n".join(blocks) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = "".join(
        part.digits.replace("-", MINUS) if isinstance(part, Number) else escape_markdown(part)
        for part in cell.parts
    )
    return f"**{text}**" if cell.bold and text else text


def to_latex(tables: Sequence[Table], title: str) -> str:
    """Floats for a paper; the preamble needs booktabs, siunitx and adjustbox."""
    head = f"% {title}\n% \\usepackage{{booktabs,siunitx,adjustbox}}\n".replace("\n\n", "\n")
    return head + "\n".join(_latex_table(table) for table in tables)


def _latex_table(table: Table) -> str:
    columns = " & ".join(escape_latex(column) for column in table.columns)
    rows = [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    notes = [rf"{escape_latex(note)}\par" for note in table.notes]
    lines = [
        r"\begin{table*}",
        r"\centering\footnotesize",
        rf"\caption{{{escape_latex(table.caption)}}}",
        r"\begin{adjustbox}{max width=\textwidth}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"\toprule",
        rf"{columns} \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        *([r"\par\medskip\raggedright", *notes] if notes else []),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = "".join(
        rf"\num{{{part.digits}}}" if isinstance(part, Number) else escape_latex(part)
        for part in cell.parts
    )
    return rf"\textbf{{{text}}}" if cell.bold and text else text


def to_csv(tables: Sequence[Table]) -> str:
    """One line per row of every table; a column that a table lacks is empty there."""
    records: list[dict[str, Value]] = []
    for table in tables:
        for row in table.rows:
            record: dict[str, Value] = {"table": table.name, "world": table.world}
            for cell in row:
                record |= cell.values
            records.append(record)
    columns = list(dict.fromkeys(key for record in records for key in record))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns or ["table", "world"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def to_html(table: Table) -> str:
    """A `figure` fragment: caption, table, notes."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(_html_cell(cell, i) for i, cell in enumerate(row)) + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    return (
        f"<figure>\n<figcaption>{html.escape(table.caption)}</figcaption>\n"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        + (f"<ul>{notes}</ul>\n" if notes else "")
        + "</figure>\n"
    )


def _html_cell(cell: Cell, column: int) -> str:
    text = "".join(
        part.digits.replace("-", MINUS) if isinstance(part, Number) else html.escape(part)
        for part in cell.parts
    )
    text = f"<strong>{text}</strong>" if cell.bold and text else text
    return f'<th scope="row">{text}</th>' if column == 0 else f"<td>{text}</td>"
