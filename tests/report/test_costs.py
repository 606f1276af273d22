from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.report.costs import cost_table, mean_over_seeds, ratio
from harness.report.outcomes import worlds
from harness.report.render import Table, to_csv, to_markdown
from harness.report.write import tables, write_tables
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord, append_records
from tests.report.synthetic import ablation, records, varied

COSTS = ("store.bytes_read", "step_seconds", "step_flops", "store.cache_error_nats")
GOLDEN = """\
| reverse KL |                       2 |         |   10.44 [10.17, 10.71] |                      | \
                          3 |         |                                   0 |
| forward KL |                       6 |       3 |   20.87 [20.40, 21.34] | 1.999 [1.973, 2.026] | \
                          3 |       1 |                                   0 |
"""


def study() -> tuple[Ablation, list[TrialRecord]]:
    made = replace(ablation(varied(2)), costs=COSTS)
    generator, found = np.random.default_rng(3), []
    for record in records(made, {}):
        factor = {"reverse KL": 1.0, "forward KL": 2.0}.get(record.arm)
        if factor is not None:
            noise = 1 + 0.01 * generator.normal()
            facts: dict[str, float | None] = {
                "store.bytes_read": 4096.0 * factor - 2048,
                "step_flops": 3e6,
                "step_seconds": 0.01 * factor * noise * (1 + 0.01 * record.seed),
                "store.cache_error_nats": 0.0,
            }
            record = replace(record, facts=facts)
        found.append(record)
    return made, found


def table() -> Table:
    made, found = study()
    return cost_table(made, worlds(made, found)[0])


def test_golden_fragment_and_the_caption() -> None:
    assert GOLDEN in to_markdown([table()], "Q?")
    assert "times depend on the machine" in table().caption


def test_csv_holds_what_records_hold() -> None:
    text = to_csv([table()])
    assert "store.bytes_read_ratio" in text
    assert ",6144.0," in text


def test_files_are_the_same_bytes_whatever_the_order_of_the_runs(tmp_path: Path) -> None:
    made, found = study()
    contents = []
    for name, order in (("one", found), ("two", found[::-1])):
        append_records(tmp_path / name / "runs" / f"{made.name}.jsonl", order)
        contents.append([path.read_bytes() for path in write_tables(made, tmp_path / name)])
    assert contents[0] == contents[1]
    assert b"costs," in contents[0][2]


def test_only_an_ablation_with_costs_has_the_table() -> None:
    made, found = study()
    assert "costs" in [t.name for t in tables(made, found)]
    assert "costs" not in [t.name for t in tables(replace(made, costs=()), found)]


def test_runs_without_facts_have_no_row() -> None:
    made = replace(ablation(varied(2)), costs=COSTS)
    (world,) = worlds(made, records(made, {}, seeds=1))
    assert cost_table(made, world).rows == ()


def test_ratio_is_of_pairs() -> None:
    base = np.array([1.0, 2.0, np.nan, 4.0])
    found = ratio(3 * base, base)
    assert found is not None
    assert found.estimate == pytest.approx(3)
    assert found.high == np.inf
    found = ratio(np.array([1.0, 4.0]), np.array([1.0, 1.0]))
    assert found is not None
    assert found.estimate == pytest.approx(2)
    assert 0 < found.low < 1
    assert ratio(np.zeros(3), np.ones(3)) is None
    assert mean_over_seeds(np.full(3, np.nan)) is None


def test_unknown_fact_is_refused() -> None:
    made, found = study()
    with pytest.raises(ValueError, match=r"costs must be among .* got 'price'"):
        tables(replace(made, costs=("price",)), found)
