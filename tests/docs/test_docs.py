"""What the documents show is true: code blocks run, and print what stands below them."""

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
RUNNABLE = [page for page in PAGES if page.name != "CONTRIBUTING.md"]  # it shows how a test looks
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))[1:]  # the demo has a test of its own
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
def test_code_in_documents_runs_and_prints_what_is_shown(code: str, output: str | None) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<document>", "exec", dont_inherit=True), {"__name__": "document"})
    assert printed.getvalue() == (output or "")


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.requirement("NFR-004a-40")
def test_examples_print_what_is_kept_beside_them(example: Path) -> None:
    """`python examples/NN.py > examples/output/NN.txt` after a wanted change."""
    run = subprocess.run(
        [sys.executable, example], capture_output=True, timeout=60, check=True, cwd=ROOT
    )
    expected = example.parent / "output" / f"{example.stem}.txt"
    assert run.stdout.decode() == expected.read_text(encoding="utf-8")
    assert run.stderr == b""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
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
def test_classes_that_guides_name_exist(page: Path) -> None:
    """A rename must not leave an old name in the prose of a guide: code blocks run, prose does not."""
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


def test_the_layers_in_contributing_are_the_ones_that_are_checked() -> None:
    contract = (ROOT / ".importlinter").read_text(encoding="utf-8")
    listed = contract.split("layers =\n")[1].split("\n\n")[0]
    assert layers_of(ROOT / "CONTRIBUTING.md") == [
        re.findall(r"\w+", line) for line in listed.splitlines()
    ]


def test_the_readme_shows_code_early_and_both_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:15]
    assert any(line.startswith("make demo") for line in lines)
    assert any(line.startswith("make test") for line in lines)
    assert len(lines) <= 180


def test_files_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## How to add") : text.index("## How a change is proved")]
    named = [name for name in re.findall(r"`([\w/]+/\w+\.\w+)`", table) if "<" not in name]
    assert len(named) > 50
    bases = (ROOT, ROOT / "src" / "steno", ROOT / "src")
    assert [name for name in named if not any((base / name).is_file() for base in bases)] == []


def test_files_that_the_readme_points_at_exist() -> None:
    named = re.findall(r"@(src/[\w/]+\.py)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
