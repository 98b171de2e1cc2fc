"""The public names: listed in a file, documented, and imported without side effects."""

from __future__ import annotations

import ast
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import steno
import steno.codec
from steno import ChatMessage, JsonObject, MessageRole, ToolCall, ToolDefinition, ToolResult
from steno.wire import WIRES

ROOT = Path(__file__).parents[1]
SNAPSHOT = Path(__file__).parent / "data" / "public_api.txt"
MODULES = [steno, steno.codec]
LOADED_LATE = {"Agent", "Conversation", "connect", "open_store", "tool"}
PUBLIC = (
    "steno",
    *(f"steno.{name}" for name in ("agent", "app", "codec", "context", "errors", "formats")),
    *(f"steno.{name}" for name in ("inputs", "log", "messages", "ports", "providers", "records")),
    *(f"steno.{name}" for name in ("render", "schema", "store", "testing", "tools", "transport")),
    *("steno.agent.replay", "steno.agent.telemetry", "steno.wire"),
    *(f"steno.testing.{name}" for name in ("conformance", "stores", "strategies")),
    *("steno.testing.conformance.in_pytest", "steno.testing.conformance.servers"),
    *(f"steno.wire.{name}" for name in WIRES),
)
"""The modules that users import from. A name outside the `__all__` of these may change at any time."""


# -- names ---------------------------------------------------------------------------------------


def public_names() -> list[str]:
    """Return every public name with its module."""
    return [f"{module}.{name}" for module in PUBLIC for name in import_module(module).__all__]


def test_the_public_names_equal_the_snapshot() -> None:
    """A changed public name needs a line in CHANGELOG.md.

    Run `python -m tests.test_public_api` to update the list after an intended change.
    """
    assert public_names() == SNAPSHOT.read_text("utf-8").split()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_all_is_sorted_without_duplicates_and_every_name_exists(module: ModuleType) -> None:
    names: list[str] = module.__all__
    assert names == sorted(set(names))
    assert all(hasattr(module, name) for name in names)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_all_lists_every_public_name(module: ModuleType) -> None:
    visible = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert visible | LOADED_LATE.intersection(module.__all__) == set(module.__all__)


def test_the_package_exports_at_most_75_names() -> None:
    """A small public surface is a goal; raise the limit only after a review."""
    assert len(steno.__all__) <= 75


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_in_the_all_of_a_public_module_exists(name: str) -> None:
    module = import_module(name)
    names: list[str] = module.__all__
    assert len(names) == len(set(names))
    assert [each for each in names if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_no_public_name_shadows_a_submodule(name: str) -> None:
    module = import_module(name)
    submodules = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
    assert [each for each in module.__all__ if each in submodules] == []


def imports_of(code: str, of: str = "steno") -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import in a program from modules that begin with `of`."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(of):
                yield from ((module, alias.name) for alias in names)
            case ast.Import(names):
                yield from ((alias.name, "*") for alias in names if alias.name.startswith(of))
            case _:
                pass


def code_for_users() -> Iterator[tuple[str, str]]:
    """Yield every program in the documentation and the examples, with the name of its file."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if "adr" not in page.parts:  # decisions keep the names of their time
            for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text("utf-8")):
                yield page.name, block
    for file in (ROOT / "examples").rglob("*.py"):
        yield file.name, file.read_text("utf-8")
    yield "must_pass.py", (ROOT / "tests" / "typing" / "must_pass.py").read_text("utf-8")


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    return module in PUBLIC and (name == "*" or name in import_module(module).__all__)


def test_guides_and_examples_import_public_names_only() -> None:
    private = {
        f"{place}: from {module} import {name}"
        for place, code in code_for_users()
        for module, name in imports_of(code)
        if not is_public(module, name)
    }
    assert private == set()


def test_acceptance_tests_import_public_names_only() -> None:
    """They test from outside: with what a user can import, and with the command line.

    Their images and servers are made with libraries.
    """
    others = sys.stdlib_module_names | {"pytest", "mcp", "PIL"}
    private = {
        f"{path.name}: from {module} import {name}"
        for path in (ROOT / "tests" / "acceptance").rglob("*.py")
        for module, name in imports_of(path.read_text("utf-8"), of="")
        if module.partition(".")[0] not in others
        if not module.startswith("tests.acceptance.")
        if not is_public(module, name)
    }
    assert private == set()


def test_an_import_of_a_private_name_is_found() -> None:
    found = list(imports_of("from steno.agent.loop import AgentLoop\nimport steno.store"))
    assert [is_public(*each) for each in found] == [False, True]


@pytest.mark.requirement("FR-004a-01", "FR-004a-11", "FR-004a-36", "FR-004a-56", "FR-004a-71")
@pytest.mark.requirement("FR-004a-91", "FR-004a-101")
def test_the_core_names_and_methods_exist() -> None:
    """These names are in most programs that use steno, so they must not change."""
    for name in (
        *("MessageRole", "ChatMessage", "ToolCall", "ToolResult", "ToolDefinition"),
        *("ToolCallDelta", "ConversationHistory", "Text", "Image", "Opaque", "Usage", "Request"),
    ):
        assert name in steno.__all__
    assert callable(MessageRole.parse)
    for factory in ("system", "user", "assistant", "tool_result"):
        assert callable(getattr(ChatMessage, factory))
    for attribute in ("role", "text", "tool_calls", "tool_call_id"):
        assert hasattr(ChatMessage.user("Hello"), attribute)
    for attribute in ("add", "messages", "last", "clear", "__len__", "__iter__"):
        assert hasattr(steno.ConversationHistory, attribute)
    for attribute in ("create", "get", "arguments_as"):
        assert hasattr(ToolCall, attribute)


# -- docstrings ----------------------------------------------------------------------------------


def documented() -> Iterator[tuple[str, Any]]:
    """Yield every public object that can have a docstring, with its full name."""
    for module in MODULES:
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing) and not inspect.isroutine(thing):
                continue  # an alias of a union: its members have the docstrings
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                yield from members_of(thing, f"{module.__name__}.{name}")


def members_of(cls: type, place: str) -> Iterator[tuple[str, Any]]:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("steno")]
    for base in reversed(ours):
        for name, member in vars(base).items():
            if not name.startswith("_") and needs_docstring(member):
                yield f"{place}.{name}", member


def needs_docstring(member: object) -> bool:
    kinds = (property, classmethod, staticmethod)
    return isinstance(member, kinds) or inspect.isfunction(member)


DOCUMENTED = dict(documented())


@pytest.mark.requirement("NFR-004a-34")
@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_a_docstring(name: str) -> None:
    doc = inspect.getdoc(DOCUMENTED[name]) or ""
    assert doc, f"{name} has no docstring"
    first, _, rest = doc.partition("\n")
    assert first[0].isupper() or first[0] in "`-" or first.startswith("steno")
    # The first line is a full sentence, followed by an empty line.
    assert first.rstrip().endswith((".", ":")) or "." in first
    assert not rest or rest.startswith("\n")


def test_documented_objects_include_methods_and_properties() -> None:
    assert {
        "steno.ChatMessage.user",
        "steno.UserMessage.text",
        "steno.ToolCall.get",
        "steno.ToolCall.parsed",
        "steno.ToolDefinition.from_type",
        "steno.ConversationHistory.messages",
        "steno.MessageRole.parse",
        "steno.codec.decode_message",
        "steno.codec.Document.of",
    } <= DOCUMENTED.keys()


FACTORIES = [
    *(ChatMessage.system, ChatMessage.user, ChatMessage.assistant, ChatMessage.tool_result),
    *(ToolResult.success, ToolResult.error, ToolCall.create, JsonObject.parse, MessageRole.parse),
    *(ToolDefinition.from_type, ToolDefinition.from_function),
]


@pytest.mark.requirement("NFR-004a-38")
@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__qualname__)
def test_a_factory_documents_its_parameters_and_errors(factory: Any) -> None:
    doc = inspect.getdoc(factory) or ""
    assert any(f"Raises {name}" in doc for name in steno.__all__)
    assert len(doc.partition("Raises")[0]) > 20


# -- importing -----------------------------------------------------------------------------------

IMPORT = """
import json, sys
import msgspec  # imported first: the modules that it loads are not counted
before = set(sys.modules)
events = []
sys.addaudithook(lambda event, args: events.append((event, str(args[:3]))))
import steno
import steno.codec
seen = list(events)
files = {name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before}
sys.stderr.write(json.dumps({"files": files, "events": seen}))
"""


@pytest.fixture(scope="module")
def fresh_import() -> dict[str, Any]:
    """Import steno in a new process, and return the loaded modules and the audit events."""
    run = subprocess.run(
        # -I ignores the user site and the environment; -B stops Python from writing bytecode.
        [sys.executable, "-I", "-B", "-W", "error", "-c", IMPORT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    found: dict[str, Any] = json.loads(run.stderr)
    return found


def test_importing_loads_no_third_party_module_but_msgspec(fresh_import: dict[str, Any]) -> None:
    """`import steno` loads msgspec and the standard library only."""
    foreign = {
        name.partition(".")[0]
        for name, file in fresh_import["files"].items()
        if name.partition(".")[0] not in sys.stdlib_module_names and file is not None
    }
    assert foreign - {"msgspec"} == {"steno"}
    assert not any(name.startswith("steno.testing") for name in fresh_import["files"])


@pytest.mark.parametrize("slow", ["logging", "inspect", "asyncio", "ssl", "socket", "pydantic"])
def test_importing_loads_no_slow_module(slow: str, fresh_import: dict[str, Any]) -> None:
    assert slow not in fresh_import["files"]


@pytest.mark.requirement("NFR-004a-16", "NFR-004a-17", "NFR-004a-15")
def test_importing_writes_nothing_starts_nothing_and_opens_no_connection(
    fresh_import: dict[str, Any],
) -> None:
    events: list[tuple[str, str]] = fresh_import["events"]
    assert events
    families = {event.partition(".")[0] for event, _ in events}
    assert not families & {"socket", "subprocess", "ssl", "ctypes", "sqlite3", "urllib", "shutil"}
    changing = {"os.mkdir", "os.remove", "os.rename", "os.putenv", "os.system", "os.exec"}
    assert not {event for event, _ in events} & changing
    modes = [args for event, args in events if event == "open"]
    assert modes
    assert all("'w" not in mode and "'a" not in mode and "+" not in mode for mode in modes)


def test_the_version_has_three_numbers() -> None:
    major, minor, patch = steno.__version__.split(".")
    assert all(part.isdigit() for part in (major, minor, patch))


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(steno.__file__).parent / "py.typed").is_file()


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{name}\n" for name in public_names()), encoding="utf-8")
