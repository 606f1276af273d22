"""Which published claims hold in the small world?

The claims stand in claims.toml, the rule that decides each in claim_rules.py. A verdict about the
small world is a verdict about the small world.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.report.claim_rules import RULES
from harness.report.findings import Finding, Outcome
from harness.report.outcomes import worlds
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord

FILE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim: who makes it, its number, and what would test it.

    `ablation` names the section that decides, or is "source only" or "unit test"; `checked` is what
    the primary source says.
    """

    id: str
    documents: tuple[str, ...]
    claim: str
    number: str
    test: str
    statistic: str
    ablation: str
    checked: str

    def settled(self) -> Outcome | None:
        """The outcome that needs no run: what the source itself says."""
        if self.checked.startswith("false"):
            return "false by the source"
        return "source only" if self.ablation == "source only" else None


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Claims that cannot all hold."""

    id: str
    topic: str
    text: str
    claims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with what our runs found, world by world; no finding: not run yet."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome | None:
        """One word: the source's, or that of the worlds if they agree; None if not run yet."""
        settled = self.claim.settled()
        found = {finding.outcome for finding in self.findings}
        if settled or not found:
            return settled
        return found.pop() if len(found) == 1 else "not resolved at this scale"


def load_claims() -> tuple[Claim, ...]:
    """All claims, in order."""
    return tuple(Claim(**_tuples(entry)) for entry in _file()["claim"])


def load_contradictions() -> tuple[Contradiction, ...]:
    """All contradictions, in order."""
    return tuple(Contradiction(**_tuples(entry)) for entry in _file()["contradiction"])


def _file() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


def judge(
    ablations: Mapping[str, Ablation], records: Mapping[str, Sequence[TrialRecord]]
) -> tuple[Judged, ...]:
    """Every claim, judged by the records of the ablation that decides it.

    Smoke runs decide nothing.
    """
    return tuple(
        Judged(claim=claim, findings=_findings(claim, ablations, records))
        for claim in load_claims()
    )


def _findings(
    claim: Claim,
    ablations: Mapping[str, Ablation],
    records: Mapping[str, Sequence[TrialRecord]],
) -> tuple[Finding, ...]:
    ablation = ablations.get(claim.ablation)
    rule = RULES.get(claim.id)
    if ablation is None or rule is None:
        return ()
    arranged = worlds(ablation, records.get(claim.ablation, []))
    return tuple(
        finding
        for world in arranged
        if world.profile != "smoke"
        for finding in rule(ablation, world)
    )
