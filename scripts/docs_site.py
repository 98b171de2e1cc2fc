"""Generate the reference, the example pages and the project pages of the documentation site.

The pages in docs/ are written for readers of the repository: their links lead to files. This
program copies them to build/docs, adds the generated pages, and turns links to files outside of
docs/ into links to pages. The site generator reads build/docs only, so it can be replaced.
"""

from __future__ import annotations

import argparse
import ast
import os
import posixpath
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from steno.app.commands.table import COMMANDS
from steno.cli.main import build_parser

ROOT: Final = Path(__file__).parent.parent
TARGET: Final = ROOT / "build" / "docs"
PUBLIC_NAMES: Final = ROOT / "tests" / "data" / "public_api.txt"
PROJECT_PAGES: Final = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "bench/results/latest.md": "project/speed.md",
    "README.md": "index.md",
}
"""Files outside of docs/ and their pages in the site."""
_RELATIVE_LINK: Final = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(((?!https?:|#|mailto:)[^)\s]+)\)"
)
_FENCE: Final = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write all pages of the site to build/docs, from where the site is built."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", TARGET)
    for path, text in generate_pages().items():
        (TARGET / path).parent.mkdir(parents=True, exist_ok=True)
        (TARGET / path).write_text(text, "utf-8")
    origins = {page: source for source, page in PROJECT_PAGES.items() if source != "README.md"}
    for page in TARGET.rglob("*.md"):
        path = page.relative_to(TARGET).as_posix()
        translated = translate_links(
            page.read_text("utf-8"), path, origins.get(path, f"docs/{path}")
        )
        page.write_text(translated, "utf-8")


def translate_links(markdown: str, page: str, origin: str) -> str:
    """Return a page with links to pages of the site; a file that has no page loses its link."""

    def translate(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        path, _, anchor = target.partition("#")
        source = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        found = site_path(source)
        if found is None:
            return "" if mark else text
        relative = posixpath.relpath(found, posixpath.dirname(page) or ".")
        return f"{mark}[{text}]({relative}{'#' + anchor if anchor else ''})"

    return translate_outside_fences(markdown, translate)


def translate_outside_fences(markdown: str, translate: Callable[[re.Match[str]], str]) -> str:
    """Apply a function to the relative links of a page, but not in its code blocks."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_RELATIVE_LINK.sub(translate, markdown[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, _RELATIVE_LINK.sub(translate, markdown[end:])])


def site_path(source: str) -> str | None:
    """Return the page or file of the site for a file of the repository."""
    if source in PROJECT_PAGES:
        return PROJECT_PAGES[source]
    if source == "docs":
        return "index.md"
    if source.startswith("docs/"):
        inner = source.removeprefix("docs/")
        return f"{inner}/index.md" if (ROOT / source).is_dir() else inner
    if source == "examples":
        return "examples/index.md"
    if source.startswith("examples/") and source.endswith(".py"):
        return f"{source.removesuffix('.py')}.md"
    return None


# -- pages -------------------------------------------------------------------------------------


def generate_pages() -> Mapping[str, str]:
    """Return the generated pages by their path."""
    pages = {
        "reference/index.md": write_reference_index(),
        "reference/commands.md": write_commands(),
        "reference/slash-commands.md": write_slash_commands(),
        "examples/index.md": write_example_index(),
    }
    pages |= {module_page(name): write_module(name) for name in public_modules()}
    pages |= {
        f"{path.relative_to(ROOT).with_suffix('.md')}": write_example(path)
        for path in example_files()
    }
    pages |= {
        page: (ROOT / source).read_text("utf-8")
        for source, page in PROJECT_PAGES.items()
        if page.startswith("project/")
    }
    return pages


def public_modules() -> list[str]:
    """Return the modules that users import from."""
    names = PUBLIC_NAMES.read_text("utf-8").split()
    return sorted({name.rpartition(".")[0] for name in names})


def module_page(name: str) -> str:
    return f"reference/python/{name}.md"


def write_module(name: str) -> str:
    members = "".join(f"        - {member}\n" for member in import_module(name).__all__)
    return f"# {name}\n\n::: {name}\n    options:\n      members:\n{members}"


def write_reference_index() -> str:
    rows = [
        f"| [`{name}`](python/{name}.md) | {first_paragraph(import_module(name).__doc__)} |\n"
        for name in public_modules()
    ]
    return (
        "# Reference\n\n"
        "- [Commands](commands.md): every command of `steno` with its options.\n"
        "- [Slash commands](slash-commands.md): commands typed at the prompt.\n"
        "- [Settings](../guides/configuration.md): configuration files and environment variables.\n"
        "- [Stored format](../guides/format.md), with a JSON Schema.\n\n"
        "## Python modules\n\n| module | content |\n|---|---|\n" + "".join(rows)
    )


def first_paragraph(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split())


def write_commands() -> str:
    """Return the page of all commands, with the text of their `--help`."""
    os.environ["COLUMNS"] = "100"  # argparse takes the width of the page from here
    parts = ["# Commands\n"]
    for depth, parser in walk_parsers(build_parser(["--help"])):
        parts.append(
            f"{'#' * min(depth + 2, 4)} {parser.prog}\n\n```text\n{parser.format_help()}```\n"
        )
    return "\n".join(parts)


def walk_parsers(
    parser: argparse.ArgumentParser, depth: int = 0
) -> Iterator[tuple[int, argparse.ArgumentParser]]:
    yield depth, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from walk_parsers(child, depth + 1)


def write_slash_commands() -> str:
    rows = [
        f"| `/{command.name}{' ' + command.argument if command.argument else ''}` "
        f"| {command.description} |\n"
        for command in COMMANDS
        if command.description
    ]
    return "# Slash commands\n\n| command | effect |\n|---|---|\n" + "".join(rows)


def example_files() -> list[Path]:
    return sorted((ROOT / "examples").glob("*.py")) + sorted(
        (ROOT / "examples" / "lab").glob("*.py")
    )


def write_example_index() -> str:
    rows = [
        f"| [{path.stem}]({path.relative_to(ROOT / 'examples').with_suffix('.md')}) "
        f"| {first_paragraph(ast.get_docstring(ast.parse(path.read_text('utf-8'))))} |\n"
        for path in example_files()
    ]
    return (
        "# Examples\n\nEach runs offline: `python examples/NAME.py`.\n\n| file | shows |\n|---|---|\n"
        + "".join(rows)
    )


def write_example(path: Path) -> str:
    text = f"# {path.stem}\n\n```python\n{path.read_text('utf-8')}```\n"
    output = path.parent / "output" / f"{path.stem}.txt"
    if output.exists():
        text += f"\nIt prints:\n\n```text\n{output.read_text('utf-8')}```\n"
    return text


# -- check -------------------------------------------------------------------------------------


def find_missing_names() -> list[str]:
    """Return the public names that the reference of the built site does not describe."""
    inventory = (ROOT / "build" / "site" / "objects.inv").read_bytes()
    # The format of Sphinx: four lines of text, then a compressed line for each name.
    lines = zlib.decompress(inventory.split(b"\n", 4)[4]).decode().splitlines()
    described = {line.partition(" ")[0] for line in lines}
    return [name for name in PUBLIC_NAMES.read_text("utf-8").split() if name not in described]


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if missing := find_missing_names():
            sys.exit(f"not in the reference: {', '.join(missing)}")
    else:
        main()
