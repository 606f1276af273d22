"""Does the code keep to its tree: imports one way, one question per file, nothing too long?"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"opd_kernels": ROOT / "kernels/opd_kernels", "harness": ROOT / "harness",
            "ablations": ROOT / "ablations"}  # fmt: skip
FOLDERS = ("domains", "models", "teachers", "training", "trial", "study", "report", "bench")
MAX_LINES = 250
FILES = sorted(file for folder in PACKAGES.values() for file in folder.rglob("*.py"))
EVERY_FILE = pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())


def module_name(file: Path) -> str:
    """The dotted name a file is imported by."""
    package = next(name for name, folder in PACKAGES.items() if folder in file.parents)
    parts = file.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join([package, *(part for part in parts if part != "__init__")])


def imported(source: str) -> set[str]:
    """Every module imported anywhere in `source`; `from a import b` counts as `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rank(module: str) -> int:
    """Where a module of ours stands: it may import what stands lower, or in its own folder.

    The kernels stand lowest, then the folders of `harness` in their order, the modules beside
    them (`harness.cli`), and the ablations. `harness` itself, only a docstring, stands with its
    first folder.
    """
    package, _, rest = module.partition(".")
    if package == "opd_kernels":
        return 0
    if package == "ablations":
        return len(FOLDERS) + 2
    folder = rest.partition(".")[0]
    if folder in ("", *FOLDERS):
        return 1 + max(0, ("", *FOLDERS).index(folder) - 1)
    return len(FOLDERS) + 1


def forbidden(module: str, source: str) -> set[str]:
    """What `module` imports and must not."""
    names = imported(source)
    ours = {name for name in names if name.partition(".")[0] in PACKAGES}
    wrong = {name for name in ours if rank(name) > rank(module)}
    if module != "harness.models.huggingface":
        wrong |= {name for name in names if name.partition(".")[0] in ("transformers", "peft")}
    return wrong


def question(docstring: str) -> str:
    """What stands before the first question mark; empty where there is none."""
    return docstring.partition("?")[0] if "?" in docstring else ""


@EVERY_FILE
def test_imports_point_one_way(file: Path) -> None:
    assert not forbidden(module_name(file), file.read_text())


@EVERY_FILE
def test_the_docstring_states_what_the_file_answers(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    assert docstring
    if file.name not in ("__init__.py", "__main__.py"):
        assert question(docstring)


@EVERY_FILE
def test_no_file_is_too_long_without_saying_why(file: Path) -> None:
    source = file.read_text()
    docstring = ast.get_docstring(ast.parse(source)) or ""
    assert len(source.splitlines()) <= MAX_LINES or "Long because" in docstring


def test_every_folder_of_the_harness_has_its_place() -> None:
    found = {folder.name for folder in (ROOT / "harness").iterdir() if folder.is_dir()}
    assert found - {"__pycache__"} == set(FOLDERS)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("harness.trial.run", "from harness.study.plan import Cell", "harness.study.plan.Cell"),
        ("harness.domains.base", "import harness.cli", "harness.cli"),
        ("harness.report.page", "def f():\n    import ablations.exp11", "ablations.exp11"),
        ("opd_kernels.linear", "from harness.domains import Text", "harness.domains.Text"),
        ("harness.models.tiny", "from transformers import AutoModel", "transformers.AutoModel"),
        ("harness.trial.run", "import torch, opd_kernels\nimport harness.trial.config", None),
        ("harness.models.huggingface", "import transformers.utils", None),
        ("ablations.exp11", "from ablations.baseline import sft\nimport harness.cli", None),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str, wrong: str | None) -> None:
    assert forbidden(module, source) == ({wrong} if wrong else set())
