"""Does a text domain give windows of the text it was pointed at, and say what is wrong with it?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.domains import Text
from harness.domains.base import SPLITS
from harness.domains.text import PIECE_BYTES

SOURCES = Text(name="sources", corpus="stdlib_sources", limit_bytes=60_000)


def own(path: Path) -> Text:
    return Text(name="own", path=str(path), prompt_tokens=2, sequence_tokens=8)


def lines(count: int) -> str:
    """Text in which hardly a window of seven bytes occurs twice."""
    return "".join(f"{n:05d};" for n in range(count))


def test_windows_lie_in_their_split_and_in_no_other(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text(lines(4000))
    domain = own(tmp_path)
    text = lines(4000).encode()
    windows = {text[i : i + 7] for i in range(len(text))}
    seen = {}
    for split in SPLITS:
        rows = domain.demonstrations(3000, split, torch.Generator()).tokens[:, 1:]
        seen[split] = {bytes(row.tolist()) for row in rows}
        assert seen[split] <= windows
    for one in SPLITS:
        for other in SPLITS:
            assert one == other or not seen[one] & seen[other]


def test_windows_do_not_cross_documents(tmp_path: Path) -> None:
    for n in range(8):
        (tmp_path / f"{n}.txt").write_text(str(n) * 100)
    batch = own(tmp_path).demonstrations(500, "specialist", torch.Generator())
    assert all(len(set(row[1:])) == 1 for row in batch.tokens.tolist())


def test_every_window_of_a_split_can_be_drawn(tmp_path: Path) -> None:
    texts = [f"{n}2{n}456{n}89" for n in range(10)]
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    domain = own(tmp_path)
    drawn = {
        bytes(row[1:].tolist())
        for split in SPLITS
        for row in domain.demonstrations(200, split, torch.Generator()).tokens
    }
    assert drawn == {text[i : i + 7].encode() for text in texts for i in range(3)}


def test_a_window_that_is_in_two_splits_is_in_none(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}.txt").write_text(f"boilerplate {n:04d} of many")
    domain = own(tmp_path)
    for split in SPLITS:
        rows = domain.demonstrations(300, split, torch.Generator()).tokens[:, 1:]
        drawn = {bytes(row.tolist()) for row in rows}
        assert not any(window in b"boilerplate 00" or window in b" of many" for window in drawn)


def test_text_whose_windows_are_all_in_two_splits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("0123456" * 10_000)
    with pytest.raises(ValueError, match="every window of 'demonstrations' occurs in another"):
        own(tmp_path).prompts(1, "prompts", torch.Generator())


def test_equal_pieces_are_kept_once(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}.txt").write_text("the same licence" if n < 10 else f"{n} is its own")
    pieces = [piece for split in SPLITS for piece in own(tmp_path)._pieces[split]]
    assert len(pieces) == len(set(pieces)) == 11


@pytest.mark.parametrize("corpus", ["stdlib_sources", "stdlib_topics"])
def test_built_in_corpora_are_text_of_the_asked_size(corpus: str) -> None:
    domain = replace(SOURCES, corpus=corpus)
    assert sum(len(document) for document in domain._documents) == 60_000
    assert max(len(p) for pieces in domain._pieces.values() for p in pieces) == PIECE_BYTES
    assert domain.corpus_digest == replace(domain, name="other").corpus_digest
    assert domain.corpus_digest != replace(domain, limit_bytes=59_999).corpus_digest


def test_the_corpora_differ() -> None:
    assert SOURCES.corpus_digest != replace(SOURCES, corpus="stdlib_topics").corpus_digest


def test_a_byte_order_mark_and_line_separators_are_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('\ufeff{"text": "one\u2028two\x85three"}\n\n{"text": "four"}', encoding="utf-8")
    assert own(path)._documents == ["one\u2028two\x85three".encode(), b"four"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("missing", None, "path .*missing: no such file or folder"),
        ("a.csv", b"a,b", "path .*a.csv: expected a .txt or .jsonl file"),
        ("folder/a.csv", b"a,b", "path .*: the folder holds no .txt or .jsonl file"),
        ("a.txt", b"", "path .*a.txt: the file is empty"),
        ("a.txt", b" \n\t", "path .*a.txt: the file is empty"),
        ("a.txt", b"abc\xff", "path .*a.txt: not UTF-8 at byte 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text"', r"path .*a.jsonl:2: not JSON: .* at column"),
        ("a.jsonl", b'\n{"body": "a"}', r'path .*a.jsonl:2: expected .* field "text"'),
        ("a.jsonl", b'{"text": 3}', r'path .*a.jsonl:1: expected .* field "text"'),
        ("a.jsonl", b"[1]", r'path .*a.jsonl:1: expected .* field "text"'),
        ("a.txt", b"short", "'own': the text has 0 distinct pieces of at least 7 bytes"),
        ("a.txt", b"long enough", "has 1 distinct pieces .* needs 6 or more"),
    ],
)
def test_text_that_cannot_be_used_is_refused(
    tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / file
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    domain = own(path.parent if "/" in file else path)
    with pytest.raises(ValueError, match=message) as refused:
        domain.demonstrations(1, "tuning", torch.Generator())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": None}, "corpus or path must be given for 'sources'"),
        ({"demonstration_fraction": 0.6}, r"demonstration_fraction must be in \(0, 0.5\], got 0.6"),
        ({"limit_bytes": 0}, "limit_bytes must be at least 1, got 0"),
        ({"sequence_tokens": 2049}, "sequence_tokens must be at most 2048, got 2049"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SOURCES, **change)
