"""The source keeps the shape that we agreed on, and no rule in it goes unbroken."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import steno
from steno import InvalidValue
from tests.invalid_values import BROKEN

SOURCE = Path(steno.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
VOCABULARY = {
    *(f"messages.{name}" for name in ("call", "content", "event", "message", "outcome")),
    *(f"messages.{name}" for name in ("request", "role", "tool", "usage")),
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
    """Yield the modules that one statement imports."""
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


MODULES = {path: parse(path) for path in FILES}

LOADED_LATE = {
    "app/optional_parts.py": {"steno.agent.telemetry.opentelemetry", "steno.transport.http"},
    "cli/lazy_parts.py": {
        *(f"steno.cli.{name}" for name in ("run", "models", "doctor", "sessions", "approvals")),
        *(f"steno.cli.{name}" for name in ("explain", "inputs", "audit", "store", "usage")),
        *(f"steno.cli.{name}" for name in ("replay", "feedback", "permissions", "mcp", "config")),
        *(f"steno.cli.{name}" for name in ("ocr", "wires", "headless", "plain", "open_session")),
        *("steno.ui.tui.app", "steno.ui.tui.themes", "steno.app.settings_loader"),
    },
    "ui/tui/app.py": {"steno.ui.tui.controller"},
    "ui/tui/transcript/deferred.py": {
        *("steno.ui.tui.transcript.image", "steno.ui.tui.transcript.markdown"),
    },
}
"""Modules with functions that import modules of ours when they are called, and which."""


def is_lazy_export(path: Path, node: ast.stmt, module: ast.Module) -> bool:
    """Whether an import is one of `if TYPE_CHECKING` in an `__init__`, beside `lazy_exports`."""
    return path.name == "__init__.py" and any(
        isinstance(block, ast.If) and node in block.body for block in module.body
    )


def test_our_own_modules_are_imported_at_the_top_only() -> None:
    """No import of ours inside a function or under TYPE_CHECKING, except lazy exports."""
    hidden = [
        f"{name_of(path)}:{node.lineno}: {name}"
        for path, module in MODULES.items()
        for node in ast.walk(module)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        if node not in module.body and not is_lazy_export(path, node, module)
        for name in imported(node)
        if name.partition(".")[0] == "steno" and name not in LOADED_LATE.get(name_of(path), ())
    ]
    assert hidden == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [name_of(path) for path in FILES if path.stem in empty] == []


def test_nothing_is_left_for_later() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [name_of(path) for path in FILES if unfinished.search(path.read_text("utf-8"))] == []


def test_every_exception_to_a_tool_has_its_reason_beside_it() -> None:
    """No `noqa` or `type: ignore` without its reason beside it."""
    bare = [
        f"{name_of(path)}:{line}: {comment}"
        for path in FILES
        for found in [comments(path)]
        for line, comment in found.items()
        if re.search(r"noqa|(type|pyright): ignore", comment)
        and not re.search(r"(noqa: [A-Z0-9, ]+|ignore\[[\w, -]+\]) - \w", comment)
        and line - 1 not in found
    ]
    assert bare == []


def test_every_module_has_a_docstring() -> None:
    missing = [name_of(path) for path, module in MODULES.items() if not ast.get_docstring(module)]
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
def test_what_lies_below_the_vocabulary_knows_nothing_of_messages_and_tools() -> None:
    ours = {
        name
        for path in (SOURCE / "schema").rglob("*.py")
        for node in ast.walk(parse(path))
        for name in imported(node)
        if name.startswith("steno.") and not name.startswith("steno.schema")
    }
    assert ours <= {"steno.errors", "steno.values", "steno.json_object"}


# -- rules ---------------------------------------------------------------------------------------


def rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield each place in the vocabulary that refuses a value, and what its message looks like."""
    for module in sorted(VOCABULARY | {"messages.order", "messages.history"}):
        for node in ast.walk(parse(file_of(module))):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=error), args=[*_, message])):
                    if issubclass(getattr(steno, error, object), InvalidValue):
                        yield f"{module}:{node.lineno}", re.compile(pattern_of(message))
                case ast.Call(func=ast.Name(id="refuse"), args=[_, message]):
                    yield f"{module}:{node.lineno}", re.compile(pattern_of(message))
                case _:
                    pass


def pattern_of(message: ast.expr) -> str:
    match message:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values):
            return "".join(map(pattern_of, values))
        case _:
            return ".+"


@pytest.mark.requirement("NFR-004a-39")
def test_every_rule_is_broken_by_a_test() -> None:
    """A rule is a `raise` of the vocabulary; `broken.py` must make each of them happen."""
    messages = []
    for name, code in BROKEN.items():
        try:
            code()
        except InvalidValue as exc:
            messages.append(str(exc))
        except Exception as exc:  # noqa: BLE001 - reported by test_errors_are_ours_and_discreet
            messages.append(f"{name}: {exc}")
    found = list(rules())
    unbroken = [
        f"{place} {rule.pattern}"
        for place, rule in found
        if not any(re.fullmatch(f"(?s)(.*: )?({rule.pattern})", message) for message in messages)
    ]
    assert len(found) > 60
    assert unbroken == []
