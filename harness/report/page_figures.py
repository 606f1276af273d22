"""Which figures does the page show of a world, and how does each become part of the page?"""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from harness.report.collapse import collapse_step, teacher_shares
from harness.report.outcomes import World
from harness.report.style import save, styled
from harness.report.write import FIGURES, figure_stem
from harness.study.ablation import Ablation

CAPTIONS: Mapping[str, str] = {
    "forest": "Differences from the control: every seed a dot, the mean with its 95 % interval",
    "budget": "Learning curves against FLOPs spent: thin lines are seeds, thick ones their mean",
    "shares": "Share of the rollouts that each teacher gets, update by update; dotted: collapse",
    "break_even": "The difference from SFT against the measured strength of the specialists",
    "interaction": "How the factors act together: a line per level of one, the other across",
    "scaling": "Quality, and the cost of an update, against the number of teachers",
}
DIGITS = re.compile(r"-?\d+\.\d{3,}")
COORDINATES = re.compile(r'\b(?:d|x|y|points)="[^"]*"|translate\([^)]*\)')
PATH = re.compile(r'(?<= d=")[^"]*')
AS_IT_IS = " <>'=/:;,()-+?!@$*[]{}|^~"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure inside the page: its caption, and an address that holds all of it."""

    name: str
    caption: str
    address: Markup


def pictures(ablation: Ablation, world: World, results: Path) -> tuple[Picture, ...]:
    """The declared figures; differences; curves where measured; shares where routing varies.

    A figure that `results/figures` lacks, or that is older than the runs, is drawn here and not
    filed.
    """
    routed = any(path in ("method", "method.scheduler") for path in ablation.varies)
    curved = world.section.arms[world.section.baseline].evaluation.curve_points > 0
    more = [name for name, wanted in (("budget", curved), ("shares", routed)) if wanted]
    asked = ("forest", *more, *ablation.figures)
    return tuple(
        Picture(
            name=name,
            caption=f"{world.name}. {CAPTIONS[name]}{_collapses(world, name)}.",
            address=data_uri(_drawing(ablation, world, name, results)),
        )
        for name in dict.fromkeys(asked)
    )


def _drawing(ablation: Ablation, world: World, name: str, results: Path) -> str:
    stem = figure_stem(ablation, world.name, name, results)
    path, runs = stem.with_name(f"{stem.name}.svg"), results / "runs" / f"{ablation.name}.jsonl"
    if path.exists() and path.stat().st_mtime_ns >= runs.stat().st_mtime_ns:
        return path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, styled():
        drawn = save(FIGURES[name](ablation, world), Path(folder) / name)
        return next(p for p in drawn if p.suffix == ".svg").read_text(encoding="utf-8")


def _collapses(world: World, name: str) -> str:
    """`; greedy: one teacher takes all in 7 of 10 seeds, from update 23 (median)`."""
    told = ""
    for arm in world.arms() if name == "shares" else ():
        runs = [run for run in world.records[arm].values() if teacher_shares(run)]
        steps = [step for run in runs if (step := collapse_step(run)) is not None]
        if steps:
            told += (
                f"; {arm}: one teacher takes all in {len(steps)} of {len(runs)} seeds, "
                f"from update {median(steps):g} (median)"
            )
    return told


def data_uri(svg: str) -> Markup:
    """The picture inside its own address: ids of one figure cannot meet those of another."""
    address = "data:image/svg+xml," + quote(compact(svg), safe=AS_IT_IS)
    return Markup(address)  # no quote, ampersand or non-ASCII is left in it


def compact(svg: str) -> str:
    """The same picture in fewer bytes: coordinates to a hundredth of a point, no comments."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    svg = COORDINATES.sub(lambda found: DIGITS.sub(_rounded, found[0]), svg)
    svg = PATH.sub(lambda found: re.sub(r"\s*([A-Za-z])\s*", r"\1", found[0]), svg)
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda found: found[0] if found[1] in used else "", svg)
    return re.sub(r"\s+", " ", svg).replace("> <", "><")


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")
