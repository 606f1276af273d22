"""Which settings does a search choose from, and how does one get into a configuration?"""

import random
from collections.abc import Mapping

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from harness.study.ablation import Range
from harness.trial.config import TrialConfig, override_all

Value = float | str
Values = dict[str, Value]


def check_ranges(ranges: Mapping[str, Range], representative: TrialConfig) -> None:
    """Refuse what cannot be searched.

    Raises ValueError for numbers without 0 < low < high, for less than two choices or one given
    twice, and for a choice that does not fit the representative where all else stays as it is.
    """
    for path, bounds in ranges.items():
        if not _is_choice(bounds):
            low, high = bounds
            if not 0 < float(low) < float(high):
                raise ValueError(f"tuning range of {path} must have 0 < low < high: {low}, {high}")
            continue
        if len(set(bounds)) < max(2, len(bounds)):
            raise ValueError(f"choices of {path} must be two or more, each once, got {bounds}")
        for choice in bounds:
            with_values(representative, {path: choice})


def _is_choice(bounds: Range) -> bool:
    return isinstance(bounds[0], str)


def with_values(config: TrialConfig, values: Values) -> TrialConfig:
    """The configuration with tuned values put in; ValueError where they do not fit together."""
    texts = {path: v if isinstance(v, str) else repr(v) for path, v in values.items()}
    made: TrialConfig = override_all(config, texts)
    return made


def fits(config: TrialConfig, values: Values) -> bool:
    """Whether the configuration accepts the values together.

    Each fits alone (`check_ranges`), so a refusal is about the combination.
    """
    try:
        with_values(config, values)
    except ValueError:
        return False
    return True


def grid(ranges: Mapping[str, Range], points: int) -> list[Values]:
    """`points` settings: numbers on levels of equal ratio, ends included; choices in turn.

    Several parameters form a Latin square: each takes every level equally often, in a fixed
    shuffle. A single point has the middle of numbers.
    """
    columns = []
    for number, bounds in enumerate(ranges.values()):
        levels = _levels(bounds, points)
        if number:
            random.Random(number).shuffle(levels)
        columns.append(levels)
    return [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)]


def _levels(bounds: Range, points: int) -> list[Value]:
    if _is_choice(bounds):
        return [bounds[i % len(bounds)] for i in range(points)]
    low, high = map(float, bounds)
    places = [i / (points - 1) for i in range(points)] if points > 1 else [0.5]
    return [rounded(low * (high / low) ** place) for place in places]


def rounded(value: Value) -> Value:
    """Numbers to three digits: a learning rate that can be read, and typed again."""
    return value if isinstance(value, str) else float(f"{value:.3g}")


def distributions(ranges: Mapping[str, Range]) -> dict[str, BaseDistribution]:
    """The ranges as Optuna has them: numbers in logarithms, choices without order."""
    return {
        path: CategoricalDistribution(bounds)
        if _is_choice(bounds)
        else FloatDistribution(float(bounds[0]), float(bounds[1]), log=True)
        for path, bounds in ranges.items()
    }


def inside(value: Value, bounds: Range) -> Value:
    """The value in its range: rounding may lead out of it by the third digit."""
    if isinstance(value, str):
        return value
    low, high = map(float, bounds)
    return min(max(value, low), high)


def place(values: Values, ranges: Mapping[str, Range]) -> tuple[float, ...]:
    """What decides between equal scores: the smaller number, the choice named first."""
    return tuple(
        ranges[path].index(value) if isinstance(value, str) else value
        for path, value in values.items()
    )


def at_end(value: Value, bounds: Range) -> bool:
    """Whether a number lies at an end of its range, so that more may lie beyond."""
    return not isinstance(value, str) and value in bounds
