from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import pydantic
import pytest

from steno import Image, ImageUrl, InvalidTool, JsonObject, Text, ToolCall
from steno.errors import ToolFailed
from steno.messages.outcome import Outcome
from steno.ports import Capability, Tool, ToolContext, ToolOutput
from steno.tools.function_tool import FunctionTool, tool
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext


def run(
    made: FunctionTool[..., Any],
    arguments: Mapping[str, object],
    context: ToolContext | None = None,
) -> ToolOutput:
    call = ToolCall.create(made.definition.name, arguments)
    made.definition.check_arguments(call)
    return asyncio.run(made.run(call, FakeToolContext() if context is None else context))


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


@dataclass
class Point:
    x: int
    y: int = 0


class Model(pydantic.BaseModel):
    size: int


@tool
def add(a: int, b: Annotated[int, "The other one."] = 2) -> int:
    """Add two numbers."""
    return a + b


def test_a_decorated_function_is_a_tool() -> None:
    made: Tool = add
    assert made.definition.name == "add"
    assert made.definition.description == "Add two numbers."
    assert JsonObject(made.definition.parameters)["required"] == ("a",)
    assert text_of(run(add, {"a": 40})) == "42"


def test_a_decorated_function_is_still_a_function() -> None:
    assert add(1, b=5) == 6
    assert add.__name__ == "add"
    assert add.__doc__ == "Add two numbers."
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert repr(add) == "FunctionTool(add, execute)"


def test_a_function_without_a_capability_may_do_anything() -> None:
    assert add.capability is Capability.EXECUTE


def test_the_decorator_sets_what_the_function_lacks() -> None:
    @tool(
        capability=Capability.NETWORK,
        name="fetch",
        description="Fetch a page.",
        subjects=lambda url, retries=0: [url],
    )
    async def load(url: str, retries: int = 0) -> str:
        return f"{url} {retries}"

    assert load.capability is Capability.NETWORK
    assert (load.definition.name, load.definition.description) == ("fetch", "Fetch a page.")
    call = ToolCall.create("fetch", {"url": "https://example.org/", "retries": 1})
    assert load.subjects(call) == ("https://example.org/",)
    assert text_of(run(load, {"url": "a"})) == "a 0"
    assert asyncio.run(load("b")) == "b 0"


def test_one_subject_may_be_returned_as_it_is() -> None:
    @tool(subjects=lambda path: path)
    def remove(path: str) -> None:
        """Remove a file."""

    assert remove.subjects(ToolCall.create("remove", {"path": "a/b"})) == ("a/b",)


def test_subjects_that_are_not_text_are_a_fault_of_the_tool() -> None:
    @tool(subjects=lambda path: cast("Any", [Path(path)]))
    def remove(path: str) -> None:
        """Remove a file."""

    with raises_code(InvalidTool, "subjects_not_strings", place="remove"):
        remove.subjects(ToolCall.create("remove", {"path": "a/b"}))


@pytest.mark.parametrize(
    ("subjects", "code"),
    [
        (lambda path: [path], "subjects_wrong_parameters"),  # `force` is not accepted
        (lambda path, force: [path], "subjects_wrong_parameters"),  # `force` is required
        (list, "subjects_wrong_parameters"),
        (lambda path, /, **more: [path], "subjects_wrong_parameters"),
        ("path", "subjects_not_callable"),
    ],
)
def test_subjects_that_do_not_take_the_arguments_are_refused_at_once(
    subjects: Any, code: str
) -> None:
    def remove(context: ToolContext, path: str, force: bool = False) -> None:
        """Remove a file."""

    with raises_code(InvalidTool, code, place="remove"):
        tool(subjects=subjects)(remove)
    for fitting in (lambda path, force=True: path, lambda path, **more: path, lambda **all: ""):
        assert tool(subjects=fitting)(remove).definition.name == "remove"


def test_a_capability_may_be_given_by_its_word_and_no_other() -> None:
    assert tool(capability="read")(add.__wrapped__).capability is Capability.READ
    for word in ("reading", "", None, 3, "READ"):
        with raises_code(InvalidTool, "unknown_capability", place="add"):
            tool(capability=word)(add.__wrapped__)  # type: ignore[arg-type] # as people do


def test_without_subjects_only_the_name_can_be_ruled_about() -> None:
    assert add.subjects(ToolCall.create("add", {"a": 1})) == ()


def test_a_preview_shows_the_name_and_the_arguments() -> None:
    shown = asyncio.run(add.preview(ToolCall.create("add", {"a": 1})))
    assert shown.text == 'add {\n  "a": 1\n}'


def test_arguments_are_converted_to_the_types_of_the_parameters() -> None:
    @tool
    def look(at: Point, day: date, models: list[Model], anything: Any = None) -> str:
        """Look at what came."""
        return f"{at} {day!r} {models} {anything!r}"

    got = {"at": {"x": 1}, "day": "2026-01-02", "models": [{"size": 3}], "anything": [1]}
    assert text_of(run(look, got)) == (
        "Point(x=1, y=0) datetime.date(2026, 1, 2) [Model(size=3)] (1,)"
    )


def test_an_argument_of_the_wrong_type_is_an_error_for_the_model() -> None:
    @tool
    def plan(day: date) -> None:
        """Plan a day."""

    call = ToolCall.create("plan", {"day": "the 30th of February"})
    with raises_code(ToolFailed, "invalid_arguments"):
        asyncio.run(plan.run(call, FakeToolContext()))
    with raises_code(ToolFailed, "unknown_argument"):
        asyncio.run(plan.run(ToolCall.create("plan", {"night": "x"}), FakeToolContext()))


def test_a_stage_is_filled_in_and_not_shown_to_the_model() -> None:
    @tool
    async def build(context: ToolContext, target: str) -> str:
        """Build a target."""
        context.report_output(f"building {target}")
        return "built"

    context = FakeToolContext()
    assert JsonObject(build.definition.parameters).to_dict()["properties"].keys() == {"target"}
    assert text_of(run(build, {"target": "docs"}, context)) == "built"
    assert context.reported == ["building docs"]


user: ContextVar[str] = ContextVar("user", default="nobody")


def test_a_plain_function_runs_in_a_thread_with_the_context_of_the_caller() -> None:
    threads: list[int] = []

    @tool
    def who() -> str:
        """Say who asks."""
        threads.append(threading.get_ident())
        return user.get()

    async def ask() -> ToolOutput:
        user.set("ada")
        return await who.run(ToolCall.create("who"), FakeToolContext())

    assert text_of(asyncio.run(ask())) == "ada"
    assert threads != [threading.get_ident()]


def test_an_async_function_is_cancelled_where_it_waits() -> None:
    ended: list[str] = []

    async def scenario() -> None:
        begun = asyncio.Event()

        @tool
        async def wait() -> None:
            """Wait for ever."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")

        task = asyncio.create_task(wait.run(ToolCall.create("wait"), FakeToolContext()))
        async with asyncio.timeout(60):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())
    assert ended == ["cleaned up"]


def returning(value: object) -> FunctionTool[..., Any]:
    @tool
    def give() -> Any:
        """Give something."""
        return value

    return give


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "done"),
        ("", ""),
        ("half \ud800", "half \ufffd"),
        (True, "true"),
        ([1, "é"], '[1,"é"]'),
        ([], "[]"),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Model(size=1), '{"size":1}'),
        ([Model(size=1)], '[{"size":1}]'),
        ({"when": date(2026, 1, 2), "where": Path("a/b")}, '{"when":"2026-01-02","where":"a/b"}'),
        (JsonObject({"a": 1}), '{"a":1}'),
    ],
    ids=repr,
)
def test_a_returned_value_becomes_text(value: object, text: str) -> None:
    assert text_of(run(returning(value), {})) == text


def test_a_json_result_is_also_in_the_details() -> None:
    assert JsonObject(run(returning(Point(1, 2)), {}).details) == {"result": {"x": 1, "y": 2}}
    assert run(returning("text"), {}).details is None


def test_blocks_and_outputs_are_passed_on() -> None:
    image = Image(source=ImageUrl("https://example.org/a.png"))
    output = ToolOutput.of("no luck", outcome=Outcome.ERROR)
    assert run(returning(image), {}).content == (image,)
    assert run(returning([Text("a"), image]), {}).content == (Text("a"), image)
    assert run(returning(output), {}) is output


def test_a_long_text_is_shortened_and_kept_whole() -> None:
    context = FakeToolContext()
    output = run(returning("line\n" * 10_000), {}, context)
    assert len(text_of(output)) < 60_000
    (kept,) = context.blobs.values()
    assert kept == b"line\n" * 10_000


def test_a_result_that_json_cannot_represent_is_an_error_of_the_tool() -> None:
    for value in (object(), float("nan"), {1.5: object()}):
        with raises_code(InvalidTool, "result_not_json", place="give"):
            run(returning(value), {})


def test_exceptions_come_out_as_they_are() -> None:
    @tool
    def fail(kindly: bool) -> None:
        """Fail."""
        raise ToolFailed("not today", code="closed") if kindly else ZeroDivisionError

    with raises_code(ToolFailed, "closed"):
        run(fail, {"kindly": True})
    with pytest.raises(ZeroDivisionError):
        run(fail, {"kindly": False})


def test_methods_partials_and_wrapped_functions_can_be_tools() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def step(self, by: int) -> int:
            """Count on."""
            self.count += by
            return self.count

    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @twice
    async def later(word: str) -> str:
        """Say a word later."""
        return word

    counter = Counter()
    assert text_of(run(tool(counter.step), {"by": 2})) == "2"
    assert text_of(run(tool(functools.partial(counter.step, by=3)), {})) == "5"
    assert text_of(run(later, {"word": "now"})) == "now"


def test_a_function_that_models_cannot_call_is_refused_at_once() -> None:
    with raises_code(InvalidTool, "lambda"):
        tool(lambda: None)
    with raises_code(InvalidTool, "no_description"):

        @tool
        def silent() -> None: ...

    with raises_code(InvalidTool, "variable_arguments"):

        @tool
        def open_ended(*things: str) -> None:
            """Take anything."""


def test_results_that_are_structs_are_written_as_msgspec_does() -> None:
    class Row(msgspec.Struct, rename="camel"):
        row_id: int

    assert text_of(run(returning(Row(7)), {})) == '{"rowId":7}'
