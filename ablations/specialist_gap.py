"""How strong must specialists be before distillation beats SFT on the same budget?

Why.      A lab saw no gain from specialists 0.24 nats ahead and concluded that distillation pays
          only above some strength.  That is a dose-response claim from one dose and one seed.
Varies.   `specialist.gap_nats` from 0.05 to 1.0, reached by more training on the domain's data, or
          by a teacher of twice the width trained from its own initialisation; each world three
          times, once for every way of matching SFT's budget.  The base is stopped early, so that
          SFT has something left to learn and every gap can be reached.  Tuned: learning rate, for
          gaps up to 0.1, 0.25 and from 0.5 on, on both sides of the comparison: pilot searches of
          every gap found one rate in each group (the wider teachers use that of the same gap).
Measure.  As in kl_direction, as the difference from SFT on the same budget; the abscissa is the
          gap as measured on held-out data, not the target.  Break-even is where the difference
          crosses zero, with its confidence set over seeds.
Expect.   The difference grows with the gap and crosses zero: near 0.4 nats against equal tokens on
          markov, a little higher against equal FLOPs, and not within reach on either world when the
          teachers' own training counts.  A wider teacher of the same gap is no better than a
          longer-trained one.  On text the crossings lie lower, as its demonstrations are fewer.
Cost.     2 worlds x (10 arms + 8 controls) x 10 seeds and 2 x 9 families x 6 rates x 2 seeds.
"""

from dataclasses import replace

from ablations.baseline import (
    MARGIN_NATS,
    MARKOV,
    SFT_CONTROLS,
    TEXT,
    TUNING,
    sft,
    sft_control,
    with_target,
)
from harness.study.ablation import Ablation, Section
from harness.training.config import Match
from harness.trial.config import TrialConfig

GAPS_NATS = (0.05, 0.1, 0.25, 0.5, 1.0)
WIDER = 2
END_TO_END = "SFT (end to end, gap {:g})"


def name(gap_nats: float, source: str) -> str:
    """An arm's name."""
    return f"OPD gap {gap_nats:g} ({source})"


def with_gap(base: TrialConfig, gap_nats: float, source: str) -> TrialConfig:
    """`base` with teachers of that strength.

    A small gap is passed within ten updates of an early base, so there every update is checked.
    """
    making = replace(
        with_target(base, gap_nats),
        width=None if source == "data" else WIDER * base.student.width,
        check_every_steps=1 if gap_nats <= 0.25 else base.specialist.check_every_steps,
    )
    return replace(base, specialist=making)


def controls(base: TrialConfig, match: Match) -> dict[str, tuple[TrialConfig, list[str]]]:
    """Every control of one way of matching, and the arms it is the control of.

    Trained tokens are the same for all arms; FLOPs depend on the teacher's width; what the teachers
    cost depends on the arm, and for the wider ones is out of proportion, so those are left out.
    """
    arms = {source: [name(gap, source) for gap in GAPS_NATS] for source in ("data", "width")}
    label = SFT_CONTROLS[match]
    if match == "tokens":
        return {label: (sft_control(base, match), arms["data"] + arms["width"])}
    if match == "flops":
        making = replace(base.specialist, width=WIDER * base.student.width)
        wide = replace(base, specialist=making)
        return {
            label: (sft_control(base, match), arms["data"]),
            "SFT (flops, wide teacher)": (sft_control(wide, match), arms["width"]),
        }
    return {
        END_TO_END.format(gap): (
            sft_control(with_gap(base, gap, "data"), match),
            [name(gap, "data")],
        )
        for gap in GAPS_NATS
    }


def section(base: TrialConfig, metric: str, match: Match) -> Section:
    """The arms of one world, each paired with the SFT of its own budget."""
    early = replace(base, base=sft(30, 5e-3), specialist=with_target(base, 0.25))
    paired = controls(early, match)
    pairs = {arm: control for control, (_, arms) in paired.items() for arm in arms}
    every = {
        name(gap, source): with_gap(early, gap, source)
        for source in ("data", "width")
        for gap in GAPS_NATS
    }
    return Section(
        arms={arm: config for arm, config in every.items() if arm in pairs},
        controls={control: config for control, (config, _) in paired.items()},
        reference=next(iter(paired)),
        baseline=name(0.25, "data"),
        metric=metric,
        margin=MARGIN_NATS,
        pairs=pairs,
    )


GROUPS = {0.05: "up to 0.1", 0.1: "up to 0.1", 0.25: "0.25", 0.5: "from 0.5", 1.0: "from 0.5"}
FAMILIES = {
    **{
        name(gap, source): f"OPD {GROUPS[gap]}" for source in ("data", "width") for gap in GAPS_NATS
    },
    **{END_TO_END.format(gap): f"SFT (end to end) {GROUPS[gap]}" for gap in GAPS_NATS},
}

ABLATION = Ablation(
    name="specialist_gap",
    question="How strong must specialists be before distillation beats SFT on the same budget?",
    varies=("specialist.gap_nats", "specialist.width", "specialist.check_every_steps"),
    tuning=replace(TUNING, families=FAMILIES),
    worlds={
        f"{world}-{match.replace('_', '-')}": section(base, metric, match)
        for world, base, metric in (
            ("markov", MARKOV, "symmetric_kl_nats"),
            ("text", TEXT, "cross_entropy_nats"),
        )
        for match in SFT_CONTROLS
    },
    figures=("forest", "break_even"),
    factors={
        name(gap, source): {"source": source, "gap": f"{gap:g}"}
        for source in ("data", "width")
        for gap in GAPS_NATS
    },
)
