"""Which teacher should score which rollout?

Why.      A lab's experiment routed every rollout to its likeliest teacher and saw one teacher take
          all of them by step 60; blind rotation cured that, yet lost to SFT.  A vendor reports
          21 % from input-dependent weights.  Neither tried the label of the prompt, which is what
          DeepSeek-V4 routes by (5.1.2), and neither had a second seed.
Varies.   `method.scheduler`, the whole menu (equation 29 read literally is `uniform sum`), in five
          worlds: sources easy or hard to tell apart (independent, or sharing 80 % of their
          conditionals), with or without a domain tag in the prompt; and text.  Tuned: learning
          rate, once per world on by_domain, so that schedulers differ in routing alone.
Measure.  As in kl_direction; beside it the share of each teacher over steps, its entropy, and the
          agreement with the label.
Expect.   Tagged: by_domain ahead of round_robin and random by 0.05 nats or more; greedy and soft
          equal to by_domain where sources are easy to tell apart.  Untagged or hard: greedy sends
          whole seeds to one teacher and loses; soft in between.  round_robin never ahead.  (Added
          with these arms, before their run: balanced equals by_domain where labels can be read off
          the rollouts, and round_robin where they cannot; a temperature of 8 lies between soft and
          uniform; uniform_sum, whose target is the teachers' geometric mean, is the worst tagged.)
Cost.     5 worlds x 11 arms x 10 seeds + 48 tuning runs each, about 2 s a cell.
"""

from collections.abc import Mapping
from dataclasses import replace

from ablations.baseline import MARGIN_NATS, MARKOV, TEXT, TUNING, distillation, sft_controls
from harness.domains import Markov
from harness.study.ablation import Ablation, Section
from harness.trial.config import TrialConfig

SCHEDULERS: Mapping[str, str] = {
    "by domain": "by_domain",
    "round robin": "round_robin",
    "random": "random",
    "greedy likelihood": "greedy_likelihood",
    "balanced likelihood": "balanced_likelihood",
    "soft likelihood": "soft_likelihood",
    "soft likelihood, T = 8": "soft_likelihood(8)",
    "uniform sum": "uniform_sum",
}


def markov(*, tagged: bool, overlap: float) -> TrialConfig:
    """The markov world with or without a tag, its sources independent or overlapping."""
    domains = tuple(
        replace(domain, overlap=overlap, tag=domain.tag if tagged else None)
        for domain in MARKOV.domains
        if isinstance(domain, Markov)
    )
    return replace(MARKOV, domains=domains)


def section(base: TrialConfig, metric: str) -> Section:
    """The arms of one world."""
    method = distillation(base)
    return Section(
        arms={
            name: replace(base, method=replace(method, scheduler=scheduler))
            for name, scheduler in SCHEDULERS.items()
        },
        controls=sft_controls(base),
        reference="by domain",
        baseline="by domain",
        metric=metric,
        margin=MARGIN_NATS,
        headline=("round robin", "greedy likelihood"),
    )


ABLATION = Ablation(
    name="scheduler",
    question="Which teacher should score which rollout?",
    varies=("method.scheduler",),
    tuning=replace(TUNING, families=dict.fromkeys(SCHEDULERS, "by domain")),
    worlds={
        "markov": section(markov(tagged=True, overlap=0.0), "symmetric_kl_nats"),
        "markov-hard": section(markov(tagged=True, overlap=0.8), "symmetric_kl_nats"),
        "markov-untagged": section(markov(tagged=False, overlap=0.0), "symmetric_kl_nats"),
        "markov-untagged-hard": section(markov(tagged=False, overlap=0.8), "symmetric_kl_nats"),
        "text": section(TEXT, "cross_entropy_nats"),
    },
    figures=("forest", "budget", "shares"),
)
