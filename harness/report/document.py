"""How do all tables of a results folder read as one paper? A LaTeX document that includes them."""

from pathlib import Path

from harness.report.write import write_whole

PREAMBLE = r"""\documentclass[a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{amsmath,textcomp,booktabs,siunitx,adjustbox}
\begin{document}
"""
DOCUMENT = "all"


def write_document(results: Path) -> Path | None:
    """Make `results/tables/all.tex` of every table there; None where there is none.

    The tables stand in it whole: the one file is all that a reader has to compile. The headline
    comes first, the rest by name. Pages are cleared between files, since LaTeX holds few floats.
    """
    folder = results / "tables"
    found = [path for path in folder.glob("*.tex") if path.stem != DOCUMENT]
    if not found:
        return None
    found.sort(key=lambda path: (path.stem != "headline", path.stem))
    parts = [path.read_text(encoding="utf-8") + "\\clearpage\n" for path in found]
    return write_whole(
        folder / f"{DOCUMENT}.tex", PREAMBLE + "\n".join(parts) + "\\end{document}\n"
    )
