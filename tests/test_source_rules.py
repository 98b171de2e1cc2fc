"""The source follows the rules of CONTRIBUTING, and a test breaks every validation rule in it."""

from __future__ import annotations

import ast
import re
import tokenize
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import steno
from steno import InvalidValue
from steno.messages.call import BUILTIN_TOOL_NAMES
from tests.invalid_values import BROKEN

SOURCE = Path(steno.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
VOCABULARY = {
    *(f"messages.{name}" for name in ("call", "content", "event", "message", "outcome")),
    *(f"messages.{name}" for name in ("request", "tool", "usage")),
    *("errors", "json_object", "records.entry", "values"),
}
BELOW_VOCABULARY = {"schema", "schema.convert"}


def file_of(module: str) -> Path:
    return SOURCE / f"{module.replace('.', '/')}.py"


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a statement imports."""
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            yield module
        case _:
            return


def comments(path: Path) -> dict[int, str]:
    """Return the comments of a file by line."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


@cache
def modules() -> dict[Path, ast.Module]:
    """Return every module of the source, parsed."""
    return {path: parse(path) for path in FILES}


def modules_in(folder: str) -> set[str]:
    """Return the names of the modules of a package."""
    files = (SOURCE / folder).glob("*.py")
    return {f"steno.{folder.replace('/', '.')}.{path.stem}" for path in files}


LOADED_LATE = {
    "app/compose.py": {"steno.agent.telemetry.opentelemetry", "steno.transport.http"},
    "app/commands/table.py": modules_in("app/commands"),
    "cli/command_table.py": {
        *modules_in("cli"),
        *("steno.ui.tui.start", "steno.ui.tui.themes", "steno.app.settings"),
    },
    "inputs/references.py": {"steno.inputs.ocr.reader"},
    "store/locate.py": {"steno.store.jsonl", "steno.store.postgres", "steno.store.sqlite"},
    "ui/tui/start.py": {"steno.ui.tui.controller"},
    "ui/tui/transcript/item_drawing.py": {"steno.ui.tui.transcript.markdown"},
    "ui/tui/transcript/view.py": {"steno.ui.tui.transcript.image"},
}
"""Modules whose functions import our own modules when they are called, and the modules they import.

The command starts faster because these modules are loaded only when they are needed.
"""


def is_lazy_export(path: Path, node: ast.stmt, module: ast.Module) -> bool:
    """Return whether an import is under `if TYPE_CHECKING` in an `__init__`, next to `lazy_exports`."""
    return path.name == "__init__.py" and any(
        isinstance(block, ast.If) and node in block.body for block in module.body
    )


def test_our_own_modules_are_imported_at_the_top_of_a_file() -> None:
    """Imports of steno inside functions or under TYPE_CHECKING are lazy exports or in LOADED_LATE."""
    hidden = [
        f"{name_of(path)}:{node.lineno}: {name}"
        for path, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        if node not in module.body and not is_lazy_export(path, node, module)
        for name in imported(node)
        if name.partition(".")[0] == "steno" and name not in LOADED_LATE.get(name_of(path), ())
    ]
    assert hidden == []


def test_no_module_has_a_vague_name() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [name_of(path) for path in FILES if path.stem in vague] == []


def test_stored_tasks_are_started_by_one_function() -> None:
    """A task that an eager factory starts can run, and end, before its caller has stored it."""
    starts = re.compile(r"\b(create_task|ensure_future|TaskGroup|asyncio\.Task\()")
    lines = [
        f"{name_of(path)}:{number}"
        for path in FILES
        if name_of(path) != "lazy_task.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if starts.search(line)
    ]
    assert lines == []


def test_source_has_no_todo_comments() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [name_of(path) for path in FILES if unfinished.search(path.read_text("utf-8"))] == []


def test_every_ignored_lint_or_type_error_has_a_reason() -> None:
    """A `noqa` or `type: ignore` gives its reason in the same comment or in the line above."""
    bare = [
        f"{name_of(path)}:{line}: {comment}"
        for path in FILES
        if b"noqa" in path.read_bytes() or b": ignore" in path.read_bytes()
        for found in [comments(path)]
        for line, comment in found.items()
        if re.search(r"noqa|(type|pyright): ignore", comment)
        and not re.search(r"(noqa: [A-Z0-9, ]+|ignore\[[\w, -]+\]) - \w", comment)
        and line - 1 not in found
    ]
    assert bare == []


NAMES_OF_INTERFACES = {
    *("Entry", "Mode", "unused_branch_name"),  # `render` shows and `app` changes these
    *("AnyToolCall", "MessageRole", "TextDelta", "ThinkingDelta", "ToolCall", "Usage"),
}
"""Names of `records` and `messages` that an interface may import: no payload types."""


def test_interfaces_import_no_payload_types() -> None:
    """Only `render` writes the text for entries, so interfaces do not need the types of payloads."""
    known = {
        f"{name_of(path)}: {alias.name}"
        for path, module in modules().items()
        if path.is_relative_to(SOURCE / "ui")
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        if re.match(r"steno\.(records|messages)\b", node.module)
        for alias in node.names
        if alias.name not in NAMES_OF_INTERFACES
    }
    assert known == set()


def test_interfaces_name_no_tools() -> None:
    """Each tool provides the headline, the preview and the content of its calls."""
    ordinary_words = {"edit", "read", "write"}  # also names of actions and capabilities
    named = {
        f"{name_of(path)}:{node.lineno}: {node.value}"
        for path, module in modules().items()
        if path.is_relative_to(SOURCE / "ui") or path.is_relative_to(SOURCE / "cli")
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and node.value in BUILTIN_TOOL_NAMES
        if node.value not in ordinary_words
    }
    assert named == set()


def test_every_module_has_a_docstring() -> None:
    missing = [name_of(path) for path, module in modules().items() if not ast.get_docstring(module)]
    assert missing == []


@pytest.mark.requirement("NFR-004a-33")
@pytest.mark.parametrize("module", sorted(VOCABULARY))
def test_the_vocabulary_imports_nothing_from_above_it(module: str) -> None:
    ours = {
        name.removeprefix("steno.")
        for node in ast.walk(parse(file_of(module)))
        for name in imported(node)
        if name.startswith("steno.")
    }
    assert ours <= (VOCABULARY | BELOW_VOCABULARY) - {module}


@pytest.mark.requirement("NFR-004a-33")
def test_the_schema_package_imports_no_messages_and_tools() -> None:
    ours = {
        name
        for path in (SOURCE / "schema").rglob("*.py")
        for node in ast.walk(parse(path))
        for name in imported(node)
        if name.startswith("steno.") and not name.startswith("steno.schema")
    }
    assert ours <= {"steno.errors", "steno.values", "steno.json_object"}


# -- validation rules -----------------------------------------------------------------------------


class Rule(NamedTuple):
    """A statement of the vocabulary that refuses a value."""

    path: Path
    lines: range
    code: str | None
    """The code of the error, if the statement contains it as a literal."""

    def __str__(self) -> str:
        return f"{name_of(self.path)}:{self.lines.start} {self.code or ''}"


class Reached(NamedTuple):
    """A line in the traceback of an error, and the code of the error."""

    path: str
    line: int
    code: str


def rules() -> Iterator[Rule]:
    """Yield each statement of the vocabulary that refuses a value."""
    for module in sorted(VOCABULARY | {"messages.order", "messages.history"}):
        path = file_of(module)
        for node in ast.walk(parse(path)):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=error)) as call):
                    if issubclass(getattr(steno, error, object), InvalidValue):
                        yield Rule(path, lines_of(node), code_of(call))
                case ast.Call(func=ast.Name(id=name)) if name.startswith("refuse"):
                    yield Rule(path, lines_of(node), code_of(node))
                case ast.Raise(exc=ast.Call(func=ast.Attribute() | ast.Name())):
                    yield Rule(path, lines_of(node), None)
                case _:
                    pass


def lines_of(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def code_of(call: ast.Call) -> str | None:
    """Return the `code` argument of a call if it is a literal."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                return code
            case _:
                pass
    return None


def reached_by(exc: InvalidValue) -> Iterator[Reached]:
    """Yield the lines in the tracebacks of an error and its causes."""
    error: BaseException | None = exc
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        code = getattr(error, "code", "")
        for frame, line in traceback.walk_tb(error.__traceback__):
            yield Reached(frame.f_code.co_filename, line, code)
        error = error.__cause__ or error.__context__


@pytest.mark.requirement("NFR-004a-39")
def test_every_rule_is_broken_by_a_test() -> None:
    """A rule is a statement of the vocabulary that raises; `invalid_values` must reach each of them."""
    reached: set[Reached] = set()
    for make in BROKEN.values():
        try:
            make()
        except InvalidValue as exc:
            reached.update(reached_by(exc))
        except Exception:  # noqa: BLE001 - the tests of values report each of these
            continue
    found = list(rules())
    unbroken = [
        str(rule)
        for rule in found
        if not any(
            place.path == str(rule.path)
            and place.line in rule.lines
            and rule.code in (None, place.code)
            for place in reached
        )
    ]
    assert len(found) > 60
    assert unbroken == []
