"""How does the error of a bf16 gradient grow as the student gets close to its teacher?"""

from pathlib import Path
from typing import Any

from matplotlib.ticker import NullFormatter

from harness.report.style import PALETTE, blank, save, styled

STYLES = ("o-", "s-", "x:")  # ours and ours, portable lie on one another
LIMITS = {"1 %": 0.01, "0.3 %": 0.003}


def error_figure(rows: list[dict[str, Any]], stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png: both gradients' relative error against the KL, in nats."""
    with styled():
        figure = blank(7.4, 3.5)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, gradient in zip(panels, ("hidden", "head"), strict=True):
            names = dict.fromkeys(row["variant"] for row in rows)
            for colour, style, name in zip(PALETTE, STYLES, names, strict=False):
                points = sorted((r["kl_nats"], r[gradient]) for r in rows if r["variant"] == name)
                axes.plot(*zip(*points, strict=True), style, color=colour, label=name, markersize=4)
            for label, limit in LIMITS.items():
                axes.axhline(limit, color="0.6", linewidth=0.8, linestyle=":")
                axes.annotate(label, (1, limit), xycoords=("axes fraction", "data"),
                              ha="right", va="bottom", fontsize=7, color="0.4")  # fmt: skip
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_formatter(lambda nats, _: f"{nats:g}")
            axes.yaxis.set_major_formatter(lambda error, _: f"{100 * error:g} %")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_title(
                f"gradient of the {gradient} {'states' if gradient == 'hidden' else ''}".strip()
            )
            axes.invert_xaxis()
        panels[0].set_ylabel("relative error against float64")
        panels[0].legend(fontsize=8)
        figure.supxlabel("KL(student || teacher), nats per token: convergence is to the right")
        return save(figure, stem)
