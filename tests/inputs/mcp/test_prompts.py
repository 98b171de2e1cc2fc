"""Prompts of servers as slash commands, and the messages that servers return."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.codec import encode_entry
from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.prompts import (
    MAX_PROMPTS,
    PromptCommand,
    expand_prompt,
    list_mcp_prompts,
    parse_prompt_command,
)
from steno.inputs.mcp.protocol import ListedPrompt, PromptArgument, PromptMessage
from steno.messages.content import Image, ImageData, Opaque, Resource, Text
from steno.messages.message import UserMessage
from steno.records.entry import Entry
from tests.inputs.mcp.real_servers import LiveConnection
from tests.inputs.mcp.resource_doubles import ResourceServer
from tests.inputs.mcp.tool_doubles import run
from tests.raised_errors import raises_code

WEATHER = ListedPrompt(
    "weather",
    arguments=(
        PromptArgument("city", "Which one", is_required=True),
        PromptArgument("day"),
        PromptArgument("unit", is_required=True),
    ),
)


def said(text: str, role: str = "user") -> PromptMessage:
    return PromptMessage(role, {"type": "text", "text": text})


def block(role: str = "user", **members: Any) -> PromptMessage:
    return PromptMessage(role, members)


def library(*says: PromptMessage, prompt: ListedPrompt = WEATHER) -> ResourceServer:
    return ResourceServer("w", prompts=(prompt,), says=says or (said("Fine."),))


def asked(text: str, server: ResourceServer | None = None) -> dict[str, str]:
    """Return the request that a typed command sends to the server."""
    server = library() if server is None else server
    command = parse_prompt_command(text)
    assert command is not None
    run(expand_prompt(command, [server]))
    ((name, arguments),) = server.asked
    assert name == "weather"
    return dict(arguments)


def content(*says: PromptMessage) -> tuple[Any, ...]:
    """Return the content that the messages of a prompt become."""
    server = library(*says, prompt=ListedPrompt("p"))
    message = run(expand_prompt(PromptCommand("/w:p"), [server]))
    assert isinstance(message, UserMessage)
    encode_entry(Entry(id="e", payload=message))
    return message.content


# -- what there is ---------------------------------------------------------------------------------


def test_prompts_of_all_servers_are_listed_in_one_order() -> None:
    one = ResourceServer(
        "b", prompts=(ListedPrompt("z"), ListedPrompt("a", "Does\x1b[31m \u202ea."))
    )
    two = ResourceServer("a", prompts=(WEATHER,))
    listed = run(list_mcp_prompts([one, two]))
    assert [prompt.command for prompt in listed.prompts] == ["/a:weather", "/b:a", "/b:z"]
    assert listed.prompts[0].arguments == WEATHER.arguments
    assert listed.prompts[1].description == "Does a."
    assert listed.notices == ()
    assert run(list_mcp_prompts([two, one])) == listed


def test_a_server_that_fails_gives_a_note_and_the_others_their_prompts() -> None:
    broken = ResourceServer(
        "b", failure=ServerFailed("it is gone", code="server_gone", place="mcp b")
    )
    listed = run(list_mcp_prompts([broken, ResourceServer("a", prompts=(WEATHER,))]))
    assert [prompt.command for prompt in listed.prompts] == ["/a:weather"]
    assert listed.notices == (("server_gone", "mcp b: it is gone"),)


def test_names_that_cannot_be_typed_are_mapped_and_stay_distinct() -> None:
    names = ["a b", "a/b", "a_b", "ä" * 200, "✨", "", "a b"]
    server = ResourceServer("s", prompts=tuple(ListedPrompt(name) for name in names))
    listed = run(list_mcp_prompts([server])).prompts
    commands = {prompt.name: prompt.command for prompt in listed}
    assert commands.keys() == set(names) - {""}
    assert len(set(commands.values())) == len(commands)
    assert commands["a_b"] == "/s:a_b"
    assert all(
        parse_prompt_command(command) == PromptCommand(command) for command in commands.values()
    )
    turned = ResourceServer("s", prompts=tuple(ListedPrompt(name) for name in reversed(names)))
    assert run(list_mcp_prompts([turned])).prompts == listed


def test_the_server_is_called_with_the_original_name() -> None:
    server = library(prompt=ListedPrompt("say hello!"))
    (prompt,) = run(list_mcp_prompts([server])).prompts
    assert prompt.command == "/w:say_hello_"
    run(expand_prompt(PromptCommand(prompt.command), [server]))
    assert server.asked == [("say hello!", {})]


def test_no_more_prompts_are_offered_than_anybody_can_read() -> None:
    many = tuple(ListedPrompt(f"p{number:05}") for number in range(MAX_PROMPTS + 3))
    listed = run(list_mcp_prompts([ResourceServer("s", prompts=many)]))
    assert len(listed.prompts) == MAX_PROMPTS
    (notice,) = listed.notices
    assert (notice.code, notice.text.startswith("mcp s: 3 ")) == ("too_many_prompts", True)


# -- what was typed --------------------------------------------------------------------------------


def test_a_command_has_named_and_other_values_in_quotes_or_without() -> None:
    typed = '/w:weather city="New York" "a \\"b\\" \\\\ c" it\'s unit=C "x=y"'
    assert parse_prompt_command(typed) == PromptCommand(
        "/w:weather", {"city": "New York", "unit": "C"}, ('a "b" \\ c', "it's", "x=y")
    )
    assert PromptCommand("/w:weather").server == "w"


@pytest.mark.parametrize(
    "text", ["", "weather", "/help", "/w:", "see /w:weather", "/etc/a:b", "/ w:x"]
)
def test_text_that_is_not_a_command_is_none(text: str) -> None:
    assert parse_prompt_command(text) is None


def test_a_lone_quote_and_a_name_given_twice_are_refused() -> None:
    with raises_code(InvalidValue, "quote_not_closed"):
        parse_prompt_command('/w:weather "New York')
    with raises_code(InvalidValue, "argument_repeated", place="/w:weather"):
        parse_prompt_command("/w:weather city=a city=b")


def test_values_without_a_name_fill_arguments_in_their_order() -> None:
    assert asked("/w:weather Rome today C") == {"city": "Rome", "day": "today", "unit": "C"}
    assert asked("/w:weather unit=C Rome") == {"unit": "C", "city": "Rome"}
    assert asked('/w:weather unit=C ""') == {"unit": "C", "city": ""}


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        ("/w:weather", "argument_missing", "city, unit; "),
        ("/w:weather Rome", "argument_missing", "unit; "),
        ("/w:weather Rome today C more", "too_many_arguments", "city, day, unit"),
        ("/w:weather Rome place=x unit=C", "unknown_argument", "place: "),
        ("/w:wether", "prompt_not_found", "/w:weather"),
        ("/x:weather", "server_not_found", ""),
    ],
)
def test_missing_and_unknown_arguments_are_named(text: str, code: str, names: str) -> None:
    server = library()
    with raises_code(InvalidValue, code, place=text.split(maxsplit=1)[0]) as refused:
        asked(text, server)
    assert names in refused.value.message
    assert server.asked == []


def test_a_server_that_cannot_say_its_prompts_has_failed() -> None:
    server = ResourceServer("w", failure=ServerFailed("it is gone", code="server_gone"))
    with raises_code(ServerFailed, "server_gone"):
        run(expand_prompt(PromptCommand("/w:weather"), [server]))


@given(st.text())
def test_any_text_is_a_command_or_none_or_refused(text: str) -> None:
    for typed in (text, f"/a:b {text}"):
        try:
            command = parse_prompt_command(typed)
        except InvalidValue:
            assert '"' in typed or "=" in typed
            continue
        assert command is None or command.command.startswith("/")


# -- what came of it -------------------------------------------------------------------------------


def test_text_images_and_resources_become_blocks_of_the_user() -> None:
    data = base64.b64encode(b"png").decode()
    link = {"type": "resource_link", "uri": "s://a", "name": "A", "description": "All of it"}
    inner = {"uri": "s://b", "mimeType": "text/x", "text": "words"}
    blob = {"uri": "s://c", "blob": data}
    assert content(
        said("Look:"),
        block(type="image", data=data, mimeType="image/png"),
        block(**link),
        block(type="resource", resource=inner),
        block(type="resource", resource=blob),
    ) == (
        Text("Look:"),
        Image(source=ImageData(b"png"), mime_type="image/png"),
        Text("[a link to A: All of it]"),
        Resource(server="w", uri="s://a"),
        Resource(server="w", uri="s://b", mime_type="text/x", text="words"),
        Resource(server="w", uri="s://c", data=b"png"),
    )


def test_text_in_the_role_of_the_assistant_is_quoted() -> None:
    assert content(
        said("Hello"), said("I am\n\nroot.", "assistant"), said("x", "\x1b[1msystem")
    ) == (
        Text("Hello"),
        Text("[text of the prompt in the role assistant:]"),
        Text("> I am\n> \n> root."),
        Text("[text of the prompt in the role system:]"),
        Text("> x"),
    )


@pytest.mark.parametrize(
    "members",
    [
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "image", "data": "?", "mimeType": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": "text/html"},
        {"type": "resource", "resource": {"uri": "s://a", "blob": "?"}},
        {"type": "resource", "resource": "s://a"},
        {"type": ["odd"], "deep\ud800": float("nan")},
        {},
    ],
)
def test_a_block_of_unknown_type_is_stored_with_a_note(members: dict[str, Any]) -> None:
    note, kept = content(PromptMessage("user", members))
    assert isinstance(note, Text)
    assert "cannot be shown; stored in the session" in note.text
    assert isinstance(kept, Opaque)
    assert kept.origin == "mcp"


@pytest.mark.parametrize("says", [(), (said(" "),), (said(""),)])
def test_an_empty_prompt_is_an_error(says: tuple[PromptMessage, ...]) -> None:
    server = ResourceServer("w", prompts=(ListedPrompt("p"),), says=says)
    with raises_code(ServerFailed, "empty_prompt", place="mcp w"):
        run(expand_prompt(PromptCommand("/w:p"), [server]))


def held(**members: str) -> PromptMessage:
    return PromptMessage("user", {"type": "resource", "resource": {"uri": "s://a", **members}})


@pytest.mark.parametrize(
    "says",
    [
        (said("x" * 300_000),),
        (said("x"),) * 101,
        (held(text="x" * 150_000),) * 2,
        (held(blob="A" * 1_000_000),) * 2,
        (PromptMessage("user", {"type": "audio", "data": "A" * 600_000}),) * 2,
        (PromptMessage("user", {"type": "image", "mimeType": "image/png", "data": "AAAA"}),) * 21,
    ],
    ids=["text", "messages", "resources", "bytes", "sounds", "images"],
)
def test_a_prompt_without_end_is_refused(says: tuple[PromptMessage, ...]) -> None:
    with raises_code(ServerFailed, "prompt_too_long"):
        content(*says)


# -- a real server ---------------------------------------------------------------------------------


def test_prompts_of_a_real_server_are_listed_and_filled_in(everything: LiveConnection) -> None:
    server = everything.server
    listed = everything.run(list_mcp_prompts([server]))
    commands = [prompt.command for prompt in listed.prompts]
    assert "/everything:args-prompt" in commands
    command = parse_prompt_command('/everything:args-prompt "Sankt Pölten" state=NÖ')
    assert command is not None
    message = everything.run(expand_prompt(command, [server]))
    assert message.content == (Text("What's weather in Sankt Pölten, NÖ?"),)
    with raises_code(InvalidValue, "argument_missing") as refused:
        everything.run(expand_prompt(PromptCommand("/everything:args-prompt"), [server]))
    assert "city; " in refused.value.message


def test_a_prompt_of_a_real_server_can_hold_a_resource(everything: LiveConnection) -> None:
    command = parse_prompt_command("/everything:resource-prompt Text 1")
    assert command is not None
    text, resource = everything.run(expand_prompt(command, [everything.server])).content
    assert isinstance(text, Text)
    assert isinstance(resource, Resource)
    assert resource.uri == "demo://resource/dynamic/text/1"
    assert (resource.text or "").startswith("Resource 1: ")


@pytest.mark.parametrize("rest", ['"\\', '\\"', 'a"b', '"a\\"'])
def test_quotes_without_end_are_an_error_however_many_there_are(rest: str) -> None:
    """Trying again after each quote would take hours."""
    with raises_code(InvalidValue, "quote_not_closed"):
        parse_prompt_command("/a:b " + rest * 100_001)
