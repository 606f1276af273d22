"""How are the base model and the specialists made that all arms of a seed share?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.domains.base import Split, stream
from harness.models.tiny import TinyPolicy, TinyShape
from harness.training.budget import Ledger
from harness.training.sft import Progress, train_sft
from harness.trial.cache import Facts, Shared, shared_model
from harness.trial.config import TrialConfig, normal_form
from harness.trial.evaluate import evaluate, held_out
from harness.trial.trajectory import Trajectory


def base_model(config: TrialConfig, seed: int, cache: Path) -> TinyPolicy:
    """The model that every arm starts from: SFT on all domains in equal shares."""
    form = {
        "role": "base",
        "domains": normal_form(config.pretrained_on),
        "student": normal_form(config.student),
        "training": normal_form(config.base),
        "seed": seed,
    }

    def train(model: TinyPolicy) -> Facts:
        ledger = Ledger()
        generator = stream(seed, "base demonstrations")
        train_sft(model, config.pretrained_on, config.base, generator, ledger, lambda *_: False)
        return {"flops": ledger.flops, "parameters": model.flop_parameters}

    return shared_model(cache, form, lambda: blank(config, config.student, seed), train).model


def specialist(config: TrialConfig, index: int, base: TinyPolicy, seed: int, cache: Path) -> Shared:
    """The teacher of one domain, and its facts: `gap_nats`, `gap_reached`, `steps`, `flops`.

    Stops on the tuning split; the gap it is reported with is measured on the evaluation split, and
    so is all else it reaches there: `teacher.METRIC`.
    """
    domain, making = config.domains[index], config.specialist
    shape = replace(config.student, width=making.width or config.student.width)
    form = {
        "role": "specialist",
        "domains": normal_form(config.pretrained_on),
        "domain": domain.name,
        "student": normal_form(config.student),
        "base": normal_form(config.base),
        "specialist": normal_form(making),
        "seed": seed,
    }

    def start() -> TinyPolicy:
        return base.copy() if making.width is None else blank(config, shape, seed)

    def train(model: TinyPolicy) -> Facts:
        ledger = Ledger()
        facts: Facts = {"steps": 0, "gap_reached": int(making.gap_nats is None)}

        def cross_entropy(policy: TinyPolicy, split: Split) -> float:
            sequences = making.gap_sequences
            values = held_out(policy, domain, sequences=sequences, split=split, seed=seed)
            return values["cross_entropy_nats"]

        before = cross_entropy(base, "tuning")

        def observe(step: int, _: dict[str, float]) -> bool:
            facts["steps"] = step
            due = step % making.check_every_steps == 0 or step == making.training.steps
            if making.gap_nats is None or not due:
                return False
            gap = before - cross_entropy(model, "tuning")
            facts["gap_reached"] = int(gap >= making.gap_nats)
            return gap >= making.gap_nats

        generator = stream(seed, f"specialist demonstrations/{domain.name}")

        def go_on(progress: Progress | None) -> Progress:
            # Training from the start would have checked here too, against the larger gap.
            if progress is not None and observe(progress.steps, {}):
                ledger.flops = progress.flops
                return progress
            return train_sft(
                model, [domain], making.training, generator, ledger, observe,
                split="specialist", progress=progress,
            )  # fmt: skip

        Trajectory.of(cache, form, making).extend(model, making, go_on)
        reached = evaluate(
            [model],
            [domain],
            [model],
            sequences=making.gap_sequences,
            split="evaluation",
            seed=seed,
        )
        strength = {
            f"teacher.{name}": value
            for name, values in reached.items()
            if (value := values["macro"]) is not None
        }
        gap = cross_entropy(base, "evaluation") - strength["teacher.cross_entropy_nats"]
        return {**facts, **strength, "gap_nats": gap, "flops": ledger.flops}

    return shared_model(cache, form, start, train)


def blank(config: TrialConfig, shape: TinyShape, seed: int) -> TinyPolicy:
    """An untrained model for the configuration's vocabulary and sequence length."""
    return TinyPolicy(
        shape,
        vocabulary_size=config.domains[0].vocabulary_size,
        sequence_tokens=config.domains[0].sequence_tokens,
        generator=stream(seed, f"initialisation/{shape.width}"),
    )


def teacher_facts(made: Sequence[Facts]) -> dict[str, float | None]:
    """The teachers' measured strength: whether all reached their target, steps, means of the rest.

    What each reaches is measured on its own domain.
    """
    means = [name for name in made[0] if name == "gap_nats" or name.startswith("teacher.")]
    return {
        **{name: sum(facts[name] for facts in made) / len(made) for name in means},
        "gap_reached": min(facts["gap_reached"] for facts in made),
        "teacher_steps": sum(facts["steps"] for facts in made),
    }
