"""How do all figures look, and how are they saved to the same bytes every time?"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PALETTE: list[tuple[float, float, float]] = sns.color_palette("colorblind")
BLUE, ORANGE, GREEN, VERMILION = PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[3]
INK, MUTED, FAINT = "#222222", "#7a7a7a", "#d9d9d9"
BAND = "#eef3e6"
PIXELS_PER_INCH = 160

STYLE: dict[str, Any] = {
    "text.parse_math": False,  # an arm may be called $x$
    "svg.hashsalt": "opd-bench",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "grid.color": "#e8e8e8",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def styled() -> Iterator[None]:
    """Everything drawn and saved inside has the project's look; nothing outside is touched."""
    look: dict[Any, Any] = {**sns.axes_style("whitegrid"), **STYLE}
    with mpl.rc_context(look):
        yield


def blank(width: float, height: float) -> Figure:
    """An empty figure, inches; labels are fitted in when it is saved."""
    return Figure(figsize=(width, height), layout="constrained")


def line_styles(names: list[str]) -> dict[str, dict[str, Any]]:
    """Colour and dash of every name: ten colours, then the same ones dashed, then dotted."""
    dashes = ("-", "--", ":", "-.")
    return {
        name: {
            "color": PALETTE[i % len(PALETTE)],
            "linestyle": dashes[i // len(PALETTE) % len(dashes)],
        }
        for i, name in enumerate(names)
    }


def note(axes: Axes, text: str) -> None:
    """A sentence in the middle of an empty plot."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def save(figure: Figure, stem: Path) -> list[Path]:
    """`stem`.svg and `stem`.png: no date, no program version, fixed ids."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
    }
    for suffix, entries in metadata.items():
        path = stem.with_name(f"{stem.name}.{suffix}")
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        figure.savefig(partial, format=suffix, dpi=PIXELS_PER_INCH, metadata=entries)
        figure.set_layout_engine("none")  # fitted once: it takes as long as drawing does
        partial.replace(path)
        paths.append(path)
    return paths
