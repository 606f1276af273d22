"""When is a collapse one, and from which update on?"""

from harness.teachers.collapse import Collapse, collapse_facts, find_collapse

STEPS = list(range(1, 61))


def test_a_collapse_starts_where_its_stretch_does() -> None:
    shares = [[0.5] * 30 + [1.0] * 30, [0.5] * 30 + [0.0] * 30]
    assert find_collapse(STEPS, shares) == Collapse(step=31, teacher=0)


def test_twenty_updates_make_one_and_nineteen_do_not() -> None:
    for length, found in ((19, None), (20, Collapse(step=11, teacher=1))):
        share = [0.5] * 10 + [0.96] * length + [0.5] * (50 - length)
        assert find_collapse(STEPS, [[1 - s for s in share], share]) == found


def test_exactly_ninety_five_percent_is_not_over_it() -> None:
    assert find_collapse(STEPS, [[0.95] * 60, [0.05] * 60]) is None


def test_one_teacher_after_the_other_is_no_collapse() -> None:
    first = ([1.0] * 15 + [0.0] * 15) * 2
    assert find_collapse(STEPS, [first, [1 - s for s in first]]) is None


def test_the_first_of_two_counts() -> None:
    late = [0.0] * 25 + [1.0] * 35
    early = [1.0] * 25 + [0.0] * 35
    assert find_collapse(STEPS, [late, early]) == Collapse(step=1, teacher=1)


def test_facts_of_a_curve() -> None:
    curve = {"step": STEPS, "share.a": [0.0] * 60, "share.b": [1.0] * 60}
    assert collapse_facts(curve) == {"collapse_step": 1, "collapsed_teacher": 1}
    even = {"step": STEPS, "share.a": [0.5] * 60, "share.b": [0.5] * 60}
    assert collapse_facts(even) == {"collapse_step": None, "collapsed_teacher": None}
    assert collapse_facts({"step": STEPS, "loss_nats": [1.0] * 60}) == {}
    assert collapse_facts({}) == {}
    assert collapse_facts({"step": STEPS, "share.a": [1.0] * 60}) == {}
