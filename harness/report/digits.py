"""With how many digits is a number shown?"""

import math

from harness.report.render import Cell, Number, Part, Value
from harness.report.stats import Interval


def decimals(error: float) -> int:
    """Decimals that show two significant digits of a standard error; 4 where there is none."""
    if not (math.isfinite(error) and error > 0):
        return 4
    return max(0, 1 - math.floor(math.log10(error)))


def number(value: float, places: int, *, sign: bool = False) -> Number:
    """`value` with `places` decimals, in powers of ten where that would be too long; no -0."""
    if places > 8 or abs(value) >= 1e6:
        text = f"{value:{'+' if sign else ''}.2e}"
    else:
        text = f"{value:{'+' if sign else ''}.{places}f}"
    return Number(text if float(text) or "e" in text else text.lstrip("+-"))


def probability(p: float) -> Number | str:
    """A p value: three decimals, never 0.000."""
    return "<0.001" if p < 0.001 else Number(f"{p:.3f}")


def stars(p: float | None) -> str:
    """* at .05, ** at .01, *** at .001."""
    return "" if p is None else "*" * sum(p <= level for level in (0.05, 0.01, 0.001))


def bounded(interval: Interval, error: float, *, sign: bool = False) -> tuple[Part, ...]:
    """`estimate [low, high]`; the estimate alone where there are no bounds."""
    places = decimals(error)
    if not math.isfinite(interval.high - interval.low):
        return (number(interval.estimate, places, sign=sign),)
    low, high = (number(bound, places, sign=sign) for bound in (interval.low, interval.high))
    return (number(interval.estimate, places, sign=sign), " [", low, ", ", high, "]")


def bounds(prefix: str, interval: Interval | None) -> dict[str, Value]:
    """CSV columns of an interval; empty where there is none."""
    if interval is None:
        return {prefix: None, f"{prefix}_low": None, f"{prefix}_high": None}
    low, high = (b if math.isfinite(b) else None for b in (interval.low, interval.high))
    return {prefix: interval.estimate, f"{prefix}_low": low, f"{prefix}_high": high}


def text(*parts: Part, **values: Value) -> Cell:
    """A cell of parts with its CSV values."""
    return Cell(parts=parts, values=values)
