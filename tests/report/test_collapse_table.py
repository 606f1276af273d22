"""Does the table count the seeds that collapsed, and say when?"""

from harness.report.collapse_table import collapse_table
from harness.report.outcomes import worlds
from harness.report.render import to_markdown
from tests.report.synthetic import ablation, records
from tests.report.test_claims import arms


def test_collapses_are_counted_with_an_exact_interval() -> None:
    """Synthetic seeds all reach 95 % at update 68 and stay; controls have no teachers."""
    made = ablation(arms("by domain", "greedy likelihood"), name="scheduler")
    (world,) = worlds(made, records(made, {}))
    table = collapse_table(made, world)
    (line,) = [row for row in to_markdown([table], "").splitlines() if "greedy" in row]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "greedy likelihood", "10/10", "1.00 [0.69, 1.00]", "68 (68 to 68)",
    ]  # fmt: skip
    assert {cell.values.get("arm") for row in table.rows for cell in row[:1]} == {
        "by domain", "greedy likelihood",
    }  # fmt: skip
