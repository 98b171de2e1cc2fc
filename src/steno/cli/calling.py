"""`steno mcp read` and `steno mcp call`: use what a server offers, without a model."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from steno.call import ToolCall
from steno.cli.commands import Misused
from steno.cli.offers import find_tool, tools_at
from steno.cli.output import is_shared, write_to_shared, writing
from steno.cli.paper import Paper, note, print_object
from steno.cli.serving import Inquiry
from steno.errors import InvalidArguments, InvalidValue
from steno.inputs.mcp.content import is_said
from steno.inputs.mcp.foreign import lawful
from steno.inputs.mcp.parts import bytes_of
from steno.inputs.mcp.said import Called, ReadResource
from steno.inputs.mcp.uris import check_uri
from steno.printable import counted, on_one_line, printable
from steno.schema.words import read_words
from steno.value import replace_lone_surrogates

_FAILED: Final = 1


# -- read ------------------------------------------------------------------------------------


async def read(inquiry: Inquiry) -> int:
    """Print a resource, or write it to a file."""
    options = inquiry.options
    _check_output(options.output, may_replace=options.force)
    try:
        check_uri(options.uri)
    except InvalidValue as exc:
        raise Misused(str(exc)) from None
    [server] = inquiry.connections
    with inquiry.show_wait(f"reading from {server.name}"):
        found = await server.read(options.uri)
    _deliver(found, options)
    return 0


def _check_output(output: str | None, *, may_replace: bool) -> None:
    if output is None:
        return
    if is_shared(Path(output)):  # nothing that is there gets lost
        return
    if Path(output).exists() and not (may_replace and Path(output).is_file()):
        raise InvalidValue(f"{output}: it is there already; choose another name, or add --force")


def _deliver(found: ReadResource, options: argparse.Namespace) -> None:
    data = b"".join(map(bytes_of, found.contents))
    if options.output is not None and is_shared(Path(options.output)):
        write_to_shared(Path(options.output), data)
    elif options.output is not None:
        with writing(options.output):
            Path(options.output).write_bytes(data)
    elif options.json:
        print_object(msgspec.json.encode(_described(found)))
    elif sys.stdout.isatty():
        _show(found)
    else:
        with writing("stdout"):
            sys.stdout.buffer.write(data)


def _show(found: ReadResource) -> None:
    """Print what can be read on a terminal. Raises InvalidValue for what cannot."""
    for part in found.contents:
        if part.data is not None:
            size = counted(len(part.data), "byte", "bytes")
            kind = on_one_line(part.mime_type or "of no known type")
            raise InvalidValue(
                f"{on_one_line(part.uri)}: holds {size}, {kind}; write them to a file with -o FILE"
            )
    for part in found.contents:
        text = printable(replace_lone_surrogates(part.text or ""))
        Paper().line(text.removesuffix("\n"))


def _described(found: ReadResource) -> Any:
    return lawful(
        {
            "contents": [
                {
                    "uri": part.uri,
                    "mime_type": part.mime_type,
                    "text": part.text,
                    "data": None if part.data is None else base64.b64encode(part.data).decode(),
                }
                for part in found.contents
            ],
            "ttl_s": found.ttl_s,
        }
    )


# -- call ------------------------------------------------------------------------------------


async def call(inquiry: Inquiry) -> int:
    """Call a tool with arguments that fit it, and print what came of it."""
    options = inquiry.options
    given = read_arguments(options.arguments)
    offered = await tools_at(inquiry)
    if offered.notes and not offered.tools:
        return _FAILED
    tool = find_tool(offered, options.tool)
    arguments = given.fit_schema(tool.definition.parameters)
    try:
        tool.definition.check_arguments(ToolCall.create(tool.definition.name, arguments))
    except InvalidArguments as exc:
        schema = f"steno mcp tools {options.server} --schema {tool.definition.name}"
        raise Misused(f"{tool.definition.name}: {exc}; see {schema}") from None
    [server] = inquiry.connections
    with inquiry.show_wait(f"calling {tool.definition.name}"):
        called = await server.call(tool.original_name, arguments, progress=inquiry.print_progress)
    if options.json:
        print_object(msgspec.json.encode(lawful(called._asdict())))
    else:
        _print_result(called)
    return _FAILED if called.is_error else 0


class Given(NamedTuple):
    """Arguments as they were typed."""

    values: Mapping[str, Any]
    are_untyped: bool
    """Whether nobody has said which of them are numbers or lists: `key=value`."""

    def fit_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return them for a schema: a word is JSON where that fits (`5`, `true`), and else text."""
        if not self.are_untyped:
            return self.values
        return read_words(self.values, schema)


def read_arguments(words: Sequence[str]) -> Given:
    """Read one JSON object, or `key=value` each. Raises Misused."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return Given(_json_object(words[0]), are_untyped=False)
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise Misused(
                f"arguments: {on_one_line(word)}: write key=value for each, or one JSON object"
            )
        if name in values:
            raise Misused(f"arguments: {on_one_line(name)} is given twice")
        values[name] = value
    return Given(values, are_untyped=True)


def _json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise Misused(f"arguments: are no JSON object: {exc}") from None


def _print_result(called: Called) -> None:
    paper = Paper()
    if called.is_error:
        note("the server says that it failed")
    texts: list[str] = []
    for block in called.content:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            paper.line(printable(texts[-1]))
        else:
            note(f"not shown: {_gist(block)}; --json has all of it")
    structured = lawful(called.structured)
    if structured is not None and not is_said(structured, texts):
        print_object(msgspec.json.encode(structured))


def _gist(block: Mapping[str, Any]) -> str:
    """Say in a few words what a block is."""
    held = block.get("resource")
    about = held if isinstance(held, Mapping) else block
    words = [block.get("type"), about.get("mimeType"), about.get("uri")]
    return on_one_line(" ".join([str(word) for word in words if word]))
