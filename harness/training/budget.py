"""What has been spent, and how many SFT steps does the same budget buy?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from harness.teachers.scheduler import parse_scheduler
from harness.training.config import Distill, Fuse, MatchedSft


@dataclass(kw_only=True)
class Ledger:
    """Counts of one run. FLOPs per token: 2 per parameter forward, 6 training (`flop_parameters`).

    `trained_tokens` are those a loss was taken on; FLOPs are counted on every processed position,
    prompts too. `teacher_flops` is what making the teachers cost, before this run.
    """

    trained_tokens: int = 0
    generated_tokens: int = 0
    scored_tokens: int = 0
    flops: int = 0
    teacher_flops: int = 0
    seconds: float = 0.0

    def train(self, parameters: int, positions: int, tokens: int) -> None:
        """A forward and backward pass over `positions`, with a loss on `tokens` of them."""
        self.trained_tokens += tokens
        self.flops += 6 * parameters * positions

    def generate(self, parameters: int, positions: int, tokens: int) -> None:
        """Sampling: `positions` with the prompts, of which `tokens` were drawn."""
        self.generated_tokens += tokens
        self.flops += 2 * parameters * positions

    def score(self, parameters: int, positions: int) -> None:
        """A teacher's forward pass."""
        self.scored_tokens += positions
        self.flops += 2 * parameters * positions

    def add(self, other: "Ledger", times: int) -> None:
        """What `other` counts of a run, so many times."""
        self.trained_tokens += times * other.trained_tokens
        self.generated_tokens += times * other.generated_tokens
        self.scored_tokens += times * other.scored_tokens
        self.flops += times * other.flops

    def as_record(self) -> dict[str, float]:
        """The counts by name."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a cost estimate needs to know of models and rows."""

    student_parameters: int
    teacher_parameters: Sequence[int]
    prompt_tokens: int
    sequence_tokens: int


def distill_step_cost(method: Distill, sizes: Sizes) -> Ledger:
    """Planned cost of one step with completions of full length."""
    ledger = Ledger()
    rows = method.batch_sequences
    completion = rows * (sizes.sequence_tokens - sizes.prompt_tokens)
    positions = rows * (sizes.sequence_tokens - 1)
    if method.prefix == "student":
        ledger.generate(sizes.student_parameters, positions, completion)
    teachers = len(sizes.teacher_parameters)
    passes = teachers if parse_scheduler(method.scheduler).asks_everyone else 1
    for parameters in sizes.teacher_parameters:
        if method.prefix == "teacher":
            ledger.generate(parameters, positions // teachers, completion // teachers)
        ledger.score(parameters, passes * positions // teachers)
    ledger.train(sizes.student_parameters, positions, completion)
    if method.anchor_weight > 0:
        ledger.train(sizes.student_parameters, positions, completion)
    return ledger


def planned_cost(method: Distill, sizes: Sizes) -> Ledger:
    """Planned cost of all steps, of both stages of a `Fuse`."""
    total = Ledger()
    if not isinstance(method, Fuse):
        total.add(distill_step_cost(method, sizes), times=method.steps)
        return total
    for group in method.groups:
        own = [sizes.teacher_parameters[index] for index in group]
        total.add(planned_cost(method.first, replace(sizes, teacher_parameters=own)), times=1)
    fused = [sizes.student_parameters] * len(sizes.teacher_parameters)
    total.add(planned_cost(method.second, replace(sizes, teacher_parameters=fused)), times=1)
    return total


def matched_sft_steps(method: MatchedSft, sizes: Sizes, teacher_flops: int) -> int:
    """Steps of SFT that cost what `method.reference` costs, at least 1."""
    planned = planned_cost(method.reference, sizes)
    sft = Ledger()
    rows = method.batch_sequences
    sft.train(
        sizes.student_parameters,
        rows * (sizes.sequence_tokens - 1),
        rows * (sizes.sequence_tokens - sizes.prompt_tokens),
    )
    spent: Mapping[str, float] = {
        "tokens": planned.trained_tokens / sft.trained_tokens,
        "flops": planned.flops / sft.flops,
        "end_to_end": (planned.flops + teacher_flops) / sft.flops,
    }
    return max(1, round(spent[method.match]))
