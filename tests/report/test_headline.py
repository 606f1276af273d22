"""Does the short answer hold what the long ones say, and nothing else?"""

from pathlib import Path

from harness.report.headline import headline_table, write_headline
from harness.report.render import to_markdown
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, append_records
from tests.report.synthetic import ablation, gap_ablation, records, varied


def filed(made: Ablation, lines: list[TrialRecord], results: Path) -> Ablation:
    append_records(results / "runs" / f"{made.name}.jsonl", lines)
    return made


def test_headline_contrasts_and_the_reference_against_every_control(tmp_path: Path) -> None:
    arms = varied(3)
    first, second, third = arms
    made = ablation(arms, reference=first, headline=(first, second))
    filed(made, records(made, {first: 0.3, second: 0.1}), tmp_path)
    table = headline_table([made], tmp_path)
    contrasts = [(row[2].values["arm"], row[2].values["control"]) for row in table.rows]
    assert contrasts == [
        (second, first),
        (first, "SFT (tokens)"),
        (first, "SFT (flops)"),
        (first, "SFT (end_to_end)"),
    ]
    assert [row[-1].values["verdict"] for row in table.rows] == ["worse"] + ["better"] * 3
    assert third not in to_markdown([table], "title")


def test_break_even_gaps_are_told(tmp_path: Path) -> None:
    made = gap_ablation()
    effects = {arm: 0.1 * (config.specialist.gap_nats or 0) - 0.02
               for arm, config in made.worlds["markov"].arms.items()}  # fmt: skip
    filed(made, records(made, effects), tmp_path)
    notes = " ".join(headline_table([made], tmp_path).notes)
    assert "specialist_gap, markov, gap by data: break-even at" in notes
    assert "gap by width: break-even at" in notes


def test_a_smoke_run_is_said_to_show_nothing(tmp_path: Path) -> None:
    made = ablation(varied(2))
    filed(made, records(made, {}, seeds=2, profile="smoke"), tmp_path)
    assert "a smoke run, which shows nothing" in " ".join(headline_table([made], tmp_path).notes)


def test_same_bytes_again_and_nothing_without_records(tmp_path: Path) -> None:
    arms = varied(2)
    made = ablation(arms, headline=tuple(arms))
    assert write_headline([made], tmp_path) == []
    filed(made, records(made, {}), tmp_path)
    before = [path.read_bytes() for path in write_headline([made], tmp_path)]
    assert before == [path.read_bytes() for path in write_headline([made], tmp_path)]
    assert len(before) == 3
