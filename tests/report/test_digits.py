"""Are numbers shown with as many digits as they deserve?"""

from harness.report.digits import decimals, number, probability
from harness.report.render import Number


def test_p_is_never_printed_as_zero() -> None:
    assert probability(1e-9) == "<0.001"
    assert probability(0.0004) == "<0.001"
    assert probability(0.0016) == Number("0.002")


def test_digits_follow_the_standard_error() -> None:
    assert [decimals(error) for error in (0.0123, 0.5, 25.0, 0.0)] == [3, 2, 0, 4]
    assert number(-0.00001, 3) == Number("0.000")
    assert number(1.23e-200, 201) == Number("1.23e-200")
