"""What should wait between a teacher's forward pass and the loss?

Why.      DeepSeek-V4 caches last-layer states and rebuilds the logits through the head, rollouts in
          the order of their teachers, so that one head is in memory at a time (5.2.2).  It gives no
          figures: not the bytes saved, not what rounding the states costs, not what the order does.
Varies.   `method.caching`: hidden states, logits or nothing kept; float32 or bfloat16; rollouts in
          the order of their teachers or as a mixed stream brings them; the next head fetched ahead.
          24 updates.  Tuned: one learning rate for all, on the baseline.  On `text` alone, whose
          vocabulary of bytes is eight times as wide as the states; on `markov` the two are equal.
Measure.  As in kl_direction, and per update: bytes written and read, loads of bodies and heads,
          heads and bytes resident at once, processor seconds, and the largest error of a token's
          divergence.  Logits pass through an identity for a head, so that one code serves all:
          their seconds count one product too many.
Expect.   The losses are equal to rounding for every float32 arm, and bfloat16 is equivalent.  On
          text logits take eight times the bytes of states; bfloat16 halves either, with an error
          near 0.01 nats.  Sorted: two loads of a head per update, unsorted 32.  Recomputing costs
          nothing here, as a teacher chosen by its label is run once in any case.
Cost.     (8 arms + 1) x 10 seeds, about 1.5 s each, and 24 tuning runs.
"""

from dataclasses import replace

from ablations.baseline import MARGIN_NATS, TEXT, TUNING, distillation, sft_control
from harness.study.ablation import Ablation, Section
from harness.teachers.store import Caching

WAYS = {
    "hidden float32": Caching(),
    "hidden float32, unsorted": Caching(sort_by_teacher=False),
    "hidden float32, prefetched": Caching(prefetch=True),
    "hidden bfloat16": Caching(dtype="bfloat16"),
    "logits float32": Caching(content="logits"),
    "logits bfloat16": Caching(content="logits", dtype="bfloat16"),
    "recomputed": Caching(content="nothing"),
    "recomputed, unsorted": Caching(content="nothing", sort_by_teacher=False),
}
BASELINE = "hidden float32"
METHOD = replace(distillation(TEXT), steps=24)
WORLD = replace(TEXT, method=METHOD)

ABLATION = Ablation(
    name="teacher_cache",
    question="What should wait between a teacher's forward pass and the loss?",
    varies=("method.caching",),
    tuning=replace(TUNING, families=dict.fromkeys(WAYS, BASELINE)),
    worlds={
        "text": Section(
            arms={
                name: replace(WORLD, method=replace(METHOD, caching=caching))
                for name, caching in WAYS.items()
            },
            controls={"SFT (tokens)": sft_control(WORLD, "tokens")},
            reference=BASELINE,
            baseline=BASELINE,
            metric="cross_entropy_nats",
            margin=MARGIN_NATS,
        ),
    },
    costs=(
        "store.bytes_written",
        "store.bytes_read",
        "store.body_loads",
        "store.head_loads",
        "store.peak_resident_heads",
        "store.peak_bytes",
        "store.cache_error_nats",
        "step_seconds",
    ),
)
