"""Code blocks of the documentation run and print the output below them; links and names exist."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUNNABLE = [page for page in PAGES if page.name != "CONTRIBUTING.md"]  # shows part of a test
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))[1:]  # test_demo.py runs the demo
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


BLOCKS = [
    pytest.param(match["code"], match["output"], id=f"{page.relative_to(ROOT)}:{number}")
    for page in RUNNABLE
    for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), start=1)
]


@pytest.mark.parametrize(("code", "output"), BLOCKS)
@pytest.mark.requirement("NFR-004a-40")
def test_code_blocks_run_and_print_the_output_below_them(code: str, output: str | None) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<document>", "exec", dont_inherit=True), {"__name__": "document"})
    assert printed.getvalue() == (output or "")


def test_code_blocks_are_found() -> None:
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.requirement("NFR-004a-40")
def test_examples_print_their_recorded_output(example: Path) -> None:
    """After an intended change: `python examples/NN.py > examples/output/NN.txt`."""
    run = subprocess.run(
        [sys.executable, example], capture_output=True, timeout=60, check=True, cwd=ROOT
    )
    expected = example.parent / "output" / f"{example.stem}.txt"
    assert run.stdout.decode() == expected.read_text(encoding="utf-8")
    assert run.stderr == b""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    broken = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CLASS_NAME = re.compile(r"`((?:[A-Z][a-z0-9]+)+)(?:\([^`]*\))?`")
FOREIGN_CLASSES = {"CancelledError", "Path", *dir(builtins)}
CLASS_DEFINITION = re.compile(r"^\s*class (\w+)|^(\w+)(?:: TypeAlias)? = ", re.MULTILINE)


@pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.stem)
def test_classes_named_in_guides_exist(page: Path) -> None:
    """Code blocks are run, so this test reads the prose only: a rename must not leave an old name there."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert set(CLASS_NAME.findall(text)) <= known_classes() | FOREIGN_CLASSES


@functools.cache
def known_classes() -> set[str]:
    sources = (ROOT / "src").rglob("*.py")
    defined = (CLASS_DEFINITION.findall(path.read_text(encoding="utf-8")) for path in sources)
    return {name for names in defined for pair in names for name in pair if name}


def layers_of(page: Path) -> list[list[str]]:
    rows = re.findall(r"^\| ((?:`\w+`[ ,]*)+)\|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.findall(r"\w+", row) for row in rows]


def test_the_layers_in_contributing_equal_the_import_contract() -> None:
    contract = (ROOT / ".importlinter").read_text(encoding="utf-8")
    listed = contract.split("layers =\n")[1].split("\n\n")[0]
    assert layers_of(ROOT / "CONTRIBUTING.md") == [
        re.findall(r"\w+", line) for line in listed.splitlines()
    ]


def test_the_readme_starts_with_commands_then_code_and_names_make_targets() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```sh" in lines[:15]
    assert "```python" in lines[:50]
    assert any(line.startswith("make demo") for line in lines)
    assert any(line.startswith("make test") for line in lines)
    assert len(lines) <= 180


def test_files_named_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## How to add") : text.index("## Tests")]
    named = [name for name in re.findall(r"`([\w/]+/\w+\.\w+)`", table) if "<" not in name]
    assert len(named) > 50
    bases = (ROOT, ROOT / "src" / "steno", ROOT / "src")
    assert [name for name in named if not any((base / name).is_file() for base in bases)] == []


def test_file_references_in_the_readme_match_files() -> None:
    patterns = re.findall(r"@(src/[\w/*.]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert patterns
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []
