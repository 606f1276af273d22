"""Ablations and records as a study would leave them, made up from a generator."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from harness.domains import Markov
from harness.models.tiny import TinyShape
from harness.study.ablation import Ablation, Section, Tuning
from harness.training.config import Distill, MatchedSft, Optimization, Sft
from harness.trial.config import Evaluation, Specialist, TrialConfig, normal_form
from harness.trial.record import TrialRecord

OPTIMIZATION = Optimization(learning_rate=0.001)
BASE = TrialConfig(
    domains=(Markov(name="A"), Markov(name="B", source_seed=1)),
    student=TinyShape(),
    base=Sft(steps=10, batch_sequences=4, optimization=OPTIMIZATION),
    specialist=Specialist(
        gap_nats=0.25, training=Sft(steps=10, batch_sequences=4, optimization=OPTIMIZATION)
    ),
    method=Distill(steps=100, batch_sequences=16, optimization=OPTIMIZATION),
    evaluation=Evaluation(),
)
CONTROLS = {
    f"SFT ({match})": replace(
        BASE,
        method=MatchedSft(
            reference=BASE.method, match=match, batch_sequences=16, optimization=OPTIMIZATION
        ),
    )
    for match in ("tokens", "flops", "end_to_end")
}
ENVIRONMENT = {"commit": "0123456789abcdef", "dirty": None, "cpu": "a CPU", "threads": 1,
               "torch": "2.13.0"}  # fmt: skip
NASTY = r"kl_rev_50%&#{}~^\|$x$"


normal = cache(normal_form)  # the type checks of a test run make it slow


def ablation(
    arms: Mapping[str, TrialConfig], *, name: str = "kl_direction", **changes: object
) -> Ablation:
    """One world, `markov`, with the three matched controls; `changes` go to the section."""
    section = Section(
        arms=arms,
        controls=CONTROLS,
        reference="SFT (flops)",
        baseline=next(iter(arms)),
        metric="cross_entropy_nats",
    )
    return Ablation(
        name=name,
        question="Which divergence should a student minimise on its own samples?",
        varies=("method", "specialist"),
        tuning=Tuning(parameters={}),
        worlds={"markov": replace(section, **changes)},  # type: ignore[arg-type]
    )


def varied(count: int) -> dict[str, TrialConfig]:
    """`count` arms that differ by their divergence; the first is BASE."""
    names = ["reverse KL", "forward KL", *(f"JSD({k / 10})" for k in range(1, 20))][:count]
    changed = {
        name: replace(BASE, method=replace(BASE.method, divergence=f"jsd({(i + 1) / 99})"))
        for i, name in enumerate(names)
    }
    return {**changed, names[0]: BASE}


def records(
    ablation: Ablation,
    effects: Mapping[str, float],
    *,
    seeds: int = 10,
    profile: str = "quick",
    noise: float = 0.01,
    diverged: Mapping[str, range] = {},
    scale: float = 1.0,
) -> list[TrialRecord]:
    """Cross-entropy 2 + seed effect - the arm's effect (positive = better) + noise, per domain."""
    generator = np.random.default_rng(7)
    shared = 0.05 * generator.normal(size=seeds)
    found = []
    for world, section in ablation.worlds.items():
        for arm, config in section.cells().items():
            for seed in range(seeds):
                macro = 2 + shared[seed] - effects.get(arm, 0.0)
                values = scale * (macro + noise * generator.normal(size=len(config.domains)))
                found.append(
                    _record(ablation.name, world, arm, config, seed, profile, values,
                            diverged=seed in diverged.get(arm, ()))
                )  # fmt: skip
    return found


def _record(
    name: str,
    world: str,
    arm: str,
    config: TrialConfig,
    seed: int,
    profile: str,
    values: np.ndarray,
    *,
    diverged: bool,
) -> TrialRecord:
    domains = [domain.name for domain in config.domains]

    def per_domain(table: np.ndarray) -> dict[str, float | None]:
        pairs = dict(zip(domains, map(float, table), strict=True))
        return {"macro": float(table.mean()), **pairs}

    is_sft = isinstance(config.method, MatchedSft)
    match = config.method.match if isinstance(config.method, MatchedSft) else None
    flops = {"tokens": 6e9, "flops": 1e10, "end_to_end": 1.5e10, None: 1e10}[match]
    metrics = {
        "cross_entropy_nats": per_domain(values),
        "source_reverse_kl_nats": per_domain(values / 10),
        "student_entropy_nats": per_domain(values - 0.1),
        "source_log_probability_nats": per_domain(-values),
    }
    steps = np.linspace(0, 100, 5)
    curve = values.mean() + 0.3 * values.mean() * np.exp(-steps / 25)
    updates = np.arange(1, 101)
    share = 0.5 + 0.5 * (1 if seed % 2 else -1) * np.minimum(updates / 75, 1)
    return TrialRecord(
        ablation=name,
        world=world,
        arm=arm,
        seed=seed,
        profile=profile,
        digest=f"{arm}/{seed}",
        status="diverged" if diverged else "finished",
        metrics=metrics,
        curve={
            "evaluation": {
                "step": steps.tolist(),
                "flops": (flops * steps / 100).tolist(),
                "cross_entropy_nats": curve.tolist(),
            },
            "training": {}
            if is_sft
            else {
                "step": updates.tolist(),
                "share.A": share.tolist(),
                "share.B": (1 - share).tolist(),
            },
        },
        budget={
            "trained_tokens": {None: 1e5, "tokens": 1e5}.get(match, flops / 1e5),
            "generated_tokens": 0.0 if is_sft else 1e5,
            "scored_tokens": 0.0 if is_sft else 1e5,
            "flops": flops,
            "teacher_flops": 5e9,
            "seconds": 1.0,
        },
        config=normal(config),
        environment=ENVIRONMENT,
        wall_seconds=1.0,
        cause="loss is nan" if diverged else None,
        facts={"gap_nats": config.specialist.gap_nats * (1 + 0.05 * np.sin(seed))},
    )


def gap_ablation() -> Ablation:
    """Five gaps from two sources, every arm with a control of its own."""
    arms, controls, pairs, factors = {}, {}, {}, {}
    for source, width in (("data", None), ("width", 64)):
        for gap in (0.05, 0.1, 0.25, 0.5, 1.0):
            arm, control = f"OPD gap {gap} ({source})", f"SFT gap {gap} ({source})"
            config = replace(BASE, specialist=replace(BASE.specialist, gap_nats=gap, width=width))
            matched = replace(CONTROLS["SFT (flops)"].method, reference=BASE.method)
            arms[arm], controls[control] = config, replace(config, method=matched)
            pairs[arm], factors[arm] = control, {"source": source, "gap": str(gap)}
    made = ablation(
        arms,
        name="specialist_gap",
        controls=controls,
        pairs=pairs,
        reference="SFT gap 0.25 (data)",
        baseline="OPD gap 0.25 (data)",
    )
    return replace(made, figures=("forest", "break_even"), factors=factors)


def factorial_ablation() -> Ablation:
    """A full factorial of two divergences, three supports and two gaps."""
    arms, factors = {}, {}
    for divergence in ("reverse_kl", "forward_kl"):
        for support in ("full", "top_k(4, student, tail)", "top_k(16, student, tail)"):
            for gap in (0.25, 0.5):
                arm = f"{divergence} {support} {gap}"
                method = replace(BASE.method, divergence=divergence, support=support)
                specialist = replace(BASE.specialist, gap_nats=gap)
                arms[arm] = replace(BASE, method=method, specialist=specialist)
                factors[arm] = {"divergence": divergence, "support": support.split(",")[0],
                                "gap": str(gap)}  # fmt: skip
    made = ablation(arms, name="design_search")
    return replace(made, figures=("forest", "interaction"), factors=factors)
