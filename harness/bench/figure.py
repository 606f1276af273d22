"""How does the error of a bf16 gradient grow as the student gets close to its teacher?"""

from pathlib import Path
from typing import Any

from harness.report.style import PALETTE, blank, save, styled

LIMITS = {"1 %": 0.01, "0.3 %": 0.003}


def error_figure(rows: list[dict[str, Any]], stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png: both gradients' relative error against the KL, in nats."""
    with styled():
        figure = blank(7.4, 3.5)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, gradient in zip(panels, ("hidden", "head"), strict=True):
            for colour, name in zip(
                PALETTE, dict.fromkeys(r["variant"] for r in rows), strict=False
            ):
                points = sorted((r["kl_nats"], r[gradient]) for r in rows if r["variant"] == name)
                axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name, markersize=4)
            for label, limit in LIMITS.items():
                axes.axhline(limit, color="0.6", linewidth=0.8, linestyle=":")
                axes.annotate(label, (1, limit), xycoords=("axes fraction", "data"),
                              ha="right", va="bottom", fontsize=7, color="0.4")  # fmt: skip
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"gradient of the {gradient} {'states' if gradient == 'hidden' else ''}")
            axes.invert_xaxis()
        panels[0].set_ylabel("relative error against float64")
        panels[0].legend(fontsize=8)
        figure.supxlabel("KL(student || teacher), nats per token: convergence is to the right")
        return save(figure, stem)
