"""Is the error figure drawn from any rows, and the same each time?"""

from pathlib import Path

from harness.bench.figure import error_figure


def test_the_same_bytes_again(tmp_path: Path) -> None:
    rows = [
        {"variant": name, "kl_nats": kl, "hidden": error, "head": 2 * error}
        for name, error in (("plain bf16", 0.1), ("ours", 0.002))
        for kl in (1.0, 0.001)
    ]
    paths = error_figure(rows, tmp_path / "accuracy")
    first = [path.read_bytes() for path in paths]
    assert [path.suffix for path in paths] == [".svg", ".png"]
    assert [path.read_bytes() for path in error_figure(rows, tmp_path / "accuracy")] == first
    assert b"10 %" in first[0]
    assert b"mathdefault" not in first[0]
