"""Where do a text domain's documents come from, and what is wrong with a file that has none?"""

import json
import sysconfig
from pathlib import Path
from pydoc_data.topics import topics
from typing import Literal

Corpus = Literal["stdlib_sources", "stdlib_topics"]


def built_in(corpus: Corpus, limit_bytes: int) -> list[bytes]:
    """Documents every machine with Python has, up to `limit_bytes`; they differ between versions.

    `stdlib_sources`: the modules at the top of the standard library, in order of name.
    `stdlib_topics`: the texts behind `help("topics")`.
    """
    if corpus == "stdlib_topics":
        return _capped([topics[name].encode() for name in sorted(topics)], limit_bytes)
    folder = Path(sysconfig.get_paths()["stdlib"])
    return _capped([path.read_bytes() for path in sorted(folder.glob("*.py"))], limit_bytes)


def _capped(documents: list[bytes], limit_bytes: int) -> list[bytes]:
    kept: list[bytes] = []
    for document in documents:
        if limit_bytes <= 0:
            break
        kept.append(document[:limit_bytes])
        limit_bytes -= len(document)
    return kept


def read_documents(path: Path) -> list[bytes]:
    """The documents of a `.txt` file, a `.jsonl` file (field `text`) or a folder of either.

    Raises ValueError naming the file, and the line where there is one.
    """
    if not path.exists():
        raise ValueError(f"path {path}: no such file or folder")
    if path.is_file():
        return _documents_of(path)
    files = sorted(p for p in path.rglob("*") if p.suffix in (".txt", ".jsonl"))
    if not files:
        raise ValueError(f"path {path}: the folder holds no .txt or .jsonl file")
    return [document for file in files for document in _documents_of(file)]


def _documents_of(file: Path) -> list[bytes]:
    if file.suffix not in (".txt", ".jsonl"):
        raise ValueError(f"path {file}: expected a .txt or .jsonl file or a folder of them")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"path {file}: not UTF-8 at byte {error.start}") from None
    if not text.strip():
        raise ValueError(f"path {file}: the file is empty")
    if file.suffix == ".txt":
        return [text.encode()]
    # Not splitlines(): U+2028 and its like may stand inside a JSON string.
    lines = enumerate(text.split("\n"), start=1)
    return [_document(line, f"path {file}:{number}") for number, line in lines if line.strip()]


def _document(line: str, where: str) -> bytes:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise ValueError(f'{where}: expected an object with a string field "text"')
    return str(entry["text"]).encode()
