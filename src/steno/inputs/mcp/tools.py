"""The tools of MCP servers as steno tools.

Hints from a server are displayed but not trusted; steno assumes that a tool may do anything, unless
the user declares the tool read-only. A block that cannot be sent to the model is replaced by a note
and stored in the log, or as a blob if it is large. Escape sequences stay in the text; the code that
prints the text removes them. This module knows neither how a server is reached nor how images are
prepared.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, final

import msgspec

from steno.errors import (
    InvalidArguments,
    InvalidTool,
    InvalidValue,
    ServerFailed,
    ToolFailed,
    install_command,
)
from steno.inputs.mcp.protocol import CallToolResult, ListedTool, McpServer
from steno.inputs.mcp.server_spec import matches_wildcard
from steno.inputs.mcp.untrusted_data import (
    clean_text,
    decode_base64,
    has_hidden_characters,
    sanitize_json,
    walk_values,
)
from steno.json_object import encode_json, parse_object
from steno.log.blobs import MIN_IMAGE_BLOB_BYTES
from steno.messages.call import MAX_TOOL_NAME_LENGTH, MCP_TOOL_PREFIX, ToolCall, map_tool_name
from steno.messages.content import Image, Opaque, Resource, Text
from steno.messages.message import ResultBlock
from steno.messages.outcome import Outcome
from steno.messages.tool import MAX_DESCRIPTION_LENGTH, ToolDefinition
from steno.ports import (
    CallPreview,
    Capability,
    PrepareImage,
    PreviewKind,
    PreviewPart,
    SetupNotice,
    ToolContext,
    ToolOutput,
    default_headline,
)
from steno.schema.validate import resolve_schema_ref
from steno.tools.truncate import MAX_OUTPUT_BYTES, MAX_OUTPUT_LINES, truncate_output

MAX_TOOLS: Final = 128
MAX_DEFINITION_BYTES: Final = 256 * 1024
"""The maximum size of all definitions of one server, which are sent with every request."""
MAX_BLOCKS: Final = 100
MAX_IMAGES: Final = 20
MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024

_MAX_EXAMINED_TOOLS: Final = 1_000
_MAX_NOTICES: Final = 20
_MAX_NOTE_CHARACTERS: Final = 1_000
_MAX_NAME_CHARACTERS: Final = 100
_MAX_PROGRESS_LINES: Final = 500
_MAX_PROGRESS_CHARACTERS: Final = 200
_HINT_TEXTS: Final = (
    ("readOnlyHint", True, "only reads"),
    ("destructiveHint", True, "may be destructive"),
    ("destructiveHint", False, "is not destructive"),
    ("idempotentHint", True, "has no further effect if it is called again"),
    ("openWorldHint", True, "accesses external systems"),
)

S = TypeVar("S", bound=McpServer)


class McpTools(NamedTuple):
    """The tools of one or more servers, and notices for the user."""

    tools: tuple[McpTool, ...]
    notices: tuple[SetupNotice, ...]
    """Notices about tools and servers that are left out, with the reasons."""


async def list_mcp_tools(
    servers: Iterable[McpServer], *, prepare_image: PrepareImage | None = None
) -> McpTools:
    """List the tools of all servers concurrently, ordered by server name.

    `prepare_image` prepares images for a model. A server that fails, or whose tools would have the
    names of another server's tools, is left out, with a notice that states the reason.
    """
    unambiguous, notices = drop_ambiguous_servers(servers)
    return merge_mcp_tools(
        await asyncio.gather(
            *[_list_server_tools(server, prepare_image=prepare_image) for server in unambiguous]
        ),
        notices,
    )


def drop_ambiguous_servers(servers: Iterable[S]) -> tuple[tuple[S, ...], tuple[SetupNotice, ...]]:
    """Return the servers sorted by name, and a notice for each server that is left out.

    A server is left out if its `mcp_server_name` is also that of an earlier server.
    """
    unambiguous: list[S] = []
    notices: list[SetupNotice] = []
    names: dict[str, str] = {}
    for server in sorted(servers, key=lambda item: item.name):
        other = names.setdefault(mcp_server_name(server.name), server.name)
        if other == server.name and server.name not in [item.name for item in unambiguous]:
            unambiguous.append(server)
        else:
            same = f"the tools have the same names as those of the server {other}"
            text = f"mcp {server.name}: {same}; rename the server"
            notices.append(SetupNotice("server_name_ambiguous", text))
    return tuple(unambiguous), tuple(notices)


def merge_mcp_tools(found: Iterable[McpTools], notices: Iterable[SetupNotice] = ()) -> McpTools:
    """Merge the tools and notices of several servers; `notices` are placed first."""
    listings = tuple(found)
    return McpTools(
        tuple([tool for listing in listings for tool in listing.tools]),
        (*notices, *[notice for listing in listings for notice in listing.notices]),
    )


async def _list_server_tools(server: McpServer, *, prepare_image: PrepareImage | None) -> McpTools:
    try:
        listed = await server.tools()
    except ServerFailed as exc:
        text = clean_text(str(exc), _MAX_NOTE_CHARACTERS)
        return McpTools((), (SetupNotice(exc.code, text),))
    tools: dict[str, McpTool] = {}
    left_out: list[SetupNotice] = []
    remaining_bytes = MAX_DEFINITION_BYTES
    for position, listed_tool in enumerate(sorted(listed, key=lambda tool: tool.name)):
        try:
            if len(tools) == MAX_TOOLS or position >= _MAX_EXAMINED_TOOLS:
                message = f"the limit of {MAX_TOOLS} tools is reached"
                raise InvalidTool(message, code="too_many_tools")
            tool = McpTool(server, listed_tool, prepare_image=prepare_image)
            definition = tool.definition
            size = len(definition.description) + len(encode_json(definition.parameters))
            if size > remaining_bytes:
                message = (
                    f"the limit of {MAX_DEFINITION_BYTES // 1024} KB of definitions is reached"
                )
                raise InvalidTool(message, code="definitions_too_long")
            if tools.setdefault(definition.name, tool) is not tool:
                raise InvalidTool("another tool has this name", code="duplicate_tool_name")
        except InvalidValue as exc:
            reason = f"{_quote_name(listed_tool.name)}: {refusal_notice(exc)}"
            text = f"mcp {server.name}: left out the tool {reason}"
            left_out.append(SetupNotice(exc.code, text))
        else:
            remaining_bytes -= size
    if len(left_out) > _MAX_NOTICES:
        rest = len(left_out) - _MAX_NOTICES
        more = "1 more tool" if rest == 1 else f"{rest:,} more tools"
        text = f"mcp {server.name}: left out {more}"
        left_out[_MAX_NOTICES:] = [SetupNotice("more_tools_left_out", text)]
    return McpTools(tuple(tools.values()), tuple(left_out))


@final
class McpTool:
    """A tool of an MCP server (`steno.ports.Tool`)."""

    headline = staticmethod(default_headline)

    def __init__(
        self, server: McpServer, listed: ListedTool, *, prepare_image: PrepareImage | None = None
    ) -> None:
        """Wrap a tool that a server lists; `prepare_image` prepares images for a model.

        Raises InvalidValue if providers do not accept the tool.
        """
        self._server = server
        self._listed = listed
        self._prepare_image = prepare_image
        self.definition: Final[ToolDefinition] = define_tool(server.name, listed)
        # A rule that denies a server also denies its tools.
        self.rule_aliases: Final = (mcp_server_name(server.name),)
        is_reader = any(matches_wildcard(each, listed.name) for each in server.read_only_tools)
        self.capability: Final = Capability.READ if is_reader else Capability.EXECUTE

    def __repr__(self) -> str:
        return f"McpTool({self.definition.name}, {self.capability})"

    @property
    def server(self) -> str:
        """The name of the server."""
        return self._server.name

    @property
    def original_name(self) -> str:
        """The name of the tool on the server, which may be any text."""
        return self._listed.name

    @property
    def description(self) -> str:
        """The server's description of the tool, cleaned."""
        return describe_tool(self.server, self._listed)

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return an empty tuple, because only the server knows what the arguments mean."""
        return ()

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return a preview with the server, the arguments and the hints of the server."""
        title = f"{_quote_name(self._listed.name)} of the MCP server {self.server}"
        arguments = msgspec.json.format(call.arguments, indent=2)
        parts = [
            PreviewPart(PreviewKind.TEXT, title),
            PreviewPart(PreviewKind.ARGUMENTS, arguments),
        ]
        hints = self._listed.hints
        if claims := [claim for name, value, claim in _HINT_TEXTS if hints.get(name) is value]:
            claim = f"The server claims that the tool {' and '.join(claims)}."
            text = f"{claim} steno does not verify this."
            parts.append(PreviewPart(PreviewKind.TEXT, text))
        return CallPreview(tuple(parts))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Call the tool, and report its progress. Raises ToolFailed if the call fails."""
        try:
            arguments = call.parsed.to_dict()
            result = await self._server.call(
                self._listed.name, arguments, progress=_ProgressReporter(context)
            )
        except (InvalidArguments, ServerFailed) as exc:
            raise ToolFailed(exc.message, code=exc.code, place=exc.place) from exc
        # In a thread, because this decodes images and may store large blobs.
        return await asyncio.to_thread(
            build_call_output,
            result,
            server=self.server,
            context=context,
            prepare_image=self._prepare_image,
        )


@final
class _ProgressReporter:
    """Reports the progress of a call, up to a maximum number of lines."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._last = ""
        self._remaining = _MAX_PROGRESS_LINES

    def __call__(self, text: str) -> None:
        line = clean_text(" ".join(text.split()), _MAX_PROGRESS_CHARACTERS)
        if line and line != self._last and self._remaining:
            self._last, self._remaining = line, self._remaining - 1
            self._context.report_output(f"{line}\n")


def _quote_name(name: str) -> str:
    """Return an untrusted name in quotes, safe to print on one line."""
    return f'"{clean_text(" ".join(name.split()), _MAX_NAME_CHARACTERS)}"'


# -- results of calls -----------------------------------------------------------------------------

_ORIGIN: Final = "mcp"
_MIN_LINES: Final = 10
_MIN_BYTES: Final = 500
"""The minimum size to which a text is truncated, even if earlier texts reach the limit."""
_MAX_WORD_CHARACTERS: Final = 100
_MAX_LINK_CHARACTERS: Final = 500
_NO_IMAGES_HINT: Final = f"that cannot be prepared: {install_command('images')}"


def build_call_output(
    called: CallToolResult,
    *,
    server: str,
    context: ToolContext,
    prepare_image: PrepareImage | None = None,
) -> ToolOutput:
    """Convert the result of a call to output. This decodes images, and may block.

    The details may contain `structured` (the structured JSON), `beside` (members of blocks that are
    not sent to the model, such as annotations) and `kept` (blobs of blocks that are not sent in
    full). Each item of `beside` and `kept` has the number of its block in `block`. If `structured`
    or `beside` is large, it is stored as a blob, whose item in `kept` has that name in `block`.
    """
    reader = _CallOutputBuilder(server=server, context=context, prepare_image=prepare_image)
    for number, block in enumerate(called.content[:MAX_BLOCKS]):
        reader.add(number, sanitize_json(block))
    if rest := called.content[MAX_BLOCKS:]:
        more = "1 more block" if len(rest) == 1 else f"{len(rest):,} more blocks"
        text = f"{more}, beyond the limit of {MAX_BLOCKS}"
        reader.add_placeholder(MAX_BLOCKS, {"type": "more", "content": sanitize_json(rest)}, text)
    if called.structured is not None:
        reader.add_structured(sanitize_json(called.structured))
    if not reader.content:
        text = "The server reports an error without a message." if called.is_error else "done"
        reader.content.append(Text(text))
    return ToolOutput(
        content=tuple(reader.content),
        outcome=Outcome.ERROR if called.is_error else Outcome.OK,
        details=reader.details(),
    )


@final
class _CallOutputBuilder:
    """Converts the blocks of one result, within limits for the whole result."""

    def __init__(
        self, *, server: str, context: ToolContext, prepare_image: PrepareImage | None
    ) -> None:
        self.content: list[ResultBlock] = []
        self._server = server
        self._context = context
        self._prepare_image = prepare_image
        self._lines, self._bytes = MAX_OUTPUT_LINES, MAX_OUTPUT_BYTES
        self._images, self._image_bytes = MAX_IMAGES, MAX_IMAGE_BYTES
        self._texts: list[str] = []
        self._details: dict[str, Any] = {}
        self._extra_members: list[dict[str, Any]] = []
        self._stored: list[dict[str, Any]] = []

    def details(self) -> dict[str, Any] | None:
        """Return the details to record with the blocks; None if there are none."""
        if self._extra_members:
            self._record("beside", self._extra_members)
        kept = {"kept": self._stored} if self._stored else {}
        return {**self._details, **kept} or None

    def add(self, number: int, block: Any) -> None:
        """Convert and add one block."""
        shown_members: tuple[str, ...]
        inner: dict[str, Any] = {}
        match block:
            case {"type": "text", "text": str(text)}:
                if text:  # some providers refuse an empty text
                    self.content.append(Text(self._truncate(number, text)))
                self._texts.append(text)
                shown_members = ("text",)
            case {"type": "image", "data": str(data)}:
                self._add_image(number, block, data)
                shown_members = ("data", "mimeType")
            case {"type": "resource_link", "uri": str(uri)} if uri:
                self._add_link(uri, block)
                shown_members = ("uri", "mimeType")
            case {"type": "resource", "resource": {"uri": str(uri)}} if uri:
                self._add_resource(number, uri, block)
                shown_members = ("resource",)
                inner = _omit_members(block["resource"], "uri", "text", "blob", "mimeType")
            case {"type": "audio", "data": str(data)}:
                text = f"audio ({_describe_bytes(block, data)}) that cannot be played"
                self.add_placeholder(number, block, text)
                return
            case _:
                kind = clean_text(_block_type(block), _MAX_WORD_CHARACTERS) or "unknown"
                text = f"a block of type {kind} that cannot be shown"
                self.add_placeholder(number, block, text)
                return
        rest = _omit_members(block, "type", *shown_members) | _omit_members({"resource": inner})
        if rest:
            self._extra_members.append({**rest, "block": number})

    def add_structured(self, value: Any) -> None:
        """Record the structured JSON of the result, and add it as text unless the texts repeat it.

        The protocol recommends this repetition, for clients that do not support structured JSON.
        """
        self._record("structured", value)
        if not is_repeated_in_texts(value, self._texts):
            text = encode_json(value).decode()
            self.content.append(Text(self._truncate("structured", text)))

    def add_placeholder(self, number: int, block: Any, description: str) -> None:
        """Add a note in place of a block that cannot be sent to the model, and store the block."""
        self.content.append(Text(f"[{description}; stored in the session]"))
        raw = encode_json(block)
        if len(raw) < MIN_IMAGE_BLOB_BYTES:
            kind = _block_type(block)[:_MAX_WORD_CHARACTERS]
            self.content.append(Opaque(kind=kind, raw=raw.decode(), origin=_ORIGIN))
        else:
            self._store_blob(number, raw)

    # -- kinds of blocks ---------------------------------------------------------------------

    def _add_image(self, number: int, block: Any, data: str) -> None:
        try:
            self.content.append(self._image(data))
        except _ImageNotShown as exc:
            self.add_placeholder(number, block, f"an image {exc}")

    def _image(self, data: str) -> Image:
        if self._prepare_image is None:
            raise _ImageNotShown(_NO_IMAGES_HINT)
        size = _base64_size(data)
        if not self._images or size > self._image_bytes:
            raise _ImageNotShown(
                f"beyond the limit of {MAX_IMAGES} images or {MAX_IMAGE_BYTES >> 20} MB per result"
            )
        self._images, self._image_bytes = self._images - 1, self._image_bytes - size
        decoded = decode_base64(data)
        if decoded is None:
            raise _ImageNotShown("that is not valid base64")
        try:
            return self._prepare_image(decoded)
        except ImportError as exc:
            raise _ImageNotShown(_NO_IMAGES_HINT) from exc
        except Exception as exc:  # an image decoder may raise anything
            raise _ImageNotShown("that cannot be decoded") from exc

    def _add_link(self, uri: str, block: dict[str, Any]) -> None:
        parts = [block.get("title") or block.get("name"), block.get("description")]
        label = ": ".join([part for part in parts if isinstance(part, str) and part])
        if label:
            self.content.append(Text(f"[a link to {clean_text(label, _MAX_LINK_CHARACTERS)}]"))
        self.content.append(self._resource(uri, block))

    def _add_resource(self, number: int, uri: str, block: dict[str, Any]) -> None:
        inner = block["resource"]
        text, data = inner.get("text"), inner.get("blob")
        if isinstance(text, str):
            shown = self._truncate(number, text)
            self.content.append(self._resource(uri, inner, text=shown))
            return
        self.content.append(self._resource(uri, inner))
        if not isinstance(data, str):
            return
        if str(inner.get("mimeType")).startswith("image/"):
            self._add_image(number, block, data)
        else:
            text = f"binary data ({_describe_bytes(inner, data)}) that cannot be shown"
            self.add_placeholder(number, block, text)

    def _resource(self, uri: str, members: dict[str, Any], *, text: str | None = None) -> Resource:
        kind = members.get("mimeType")
        mime_type = kind if isinstance(kind, str) else None
        return Resource(server=self._server, uri=uri, mime_type=mime_type, text=text)

    # -- truncation ---------------------------------------------------------------------------

    def _truncate(self, number: int | str, text: str) -> str:
        """Return a text truncated to the remaining limits, which shrink with every text."""
        shown, blob_details = truncate_output(
            text,
            self._context,
            max_lines=max(self._lines, _MIN_LINES),
            max_bytes=max(self._bytes, _MIN_BYTES),
        )
        self._lines -= shown.count("\n") + 1
        self._bytes -= len(shown.encode())
        if blob_details:
            self._stored.append({"block": number, **blob_details})
        return shown

    def _record(self, name: str, value: Any) -> None:
        raw = encode_json(value)
        if len(raw) < MIN_IMAGE_BLOB_BYTES:
            self._details[name] = value
        else:
            self._store_blob(name, raw)

    def _store_blob(self, number: int | str, raw: bytes) -> None:
        sha256 = self._context.put_blob(raw)
        self._stored.append({"block": number, "full_output": sha256, "bytes": len(raw)})


class _ImageNotShown(Exception):
    """An image cannot be sent to the model; the message completes "an image ..."."""


def is_repeated_in_texts(value: Any, texts: list[str]) -> bool:
    """Return whether one text, or all texts together, repeat a value.

    The only member of an object is compared as well, because the protocol once required an object
    and servers wrapped other values.
    """
    values = [value]
    if isinstance(value, dict) and len(value) == 1:
        values += value.values()
    parsed = [_parse_json_or_text(text) for text in texts]
    return any(
        candidate in texts or candidate in parsed or candidate in (texts, parsed)
        for candidate in values
    )


def _parse_json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _block_type(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _omit_members(members: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the members that are neither empty nor in `names`."""
    return {k: v for k, v in members.items() if k not in names and v not in (None, {}, [])}


def _describe_bytes(members: dict[str, Any], data: str) -> str:
    kind = clean_text(str(members.get("mimeType") or "unknown type"), _MAX_WORD_CHARACTERS)
    return f"{kind}, {_base64_size(data):,} bytes"


def _base64_size(data: str) -> int:
    """Return the approximate number of bytes that base64 text encodes."""
    return len(data) * 3 // 4


# -- definitions of tools ------------------------------------------------------------------------


def define_tool(server: str, tool: ListedTool) -> ToolDefinition:
    """Return the definition of a tool. Raises InvalidValue if providers do not accept the tool."""
    if not tool.name.strip():
        raise InvalidTool("the tool has no name", code="no_name")
    return ToolDefinition(
        name=mcp_tool_name(server, tool.name),
        original_name=mcp_tool_name_for_models(server, tool.name),
        description=f"{_server_mark(server)} {describe_tool(server, tool)}".rstrip(),
        parameters=_build_parameters(tool.schema),
        strict=False,  # the schema of a server need not be strict
    )


def describe_tool(server: str, tool: ListedTool) -> str:
    """Return the server's description of a tool, cleaned.

    If the description is empty, the title or else the name of the tool is returned.
    """
    text = tool.description or tool.title or tool.name
    return clean_text(text, MAX_DESCRIPTION_LENGTH - len(_server_mark(server)) - 1)


def _server_mark(server: str) -> str:
    return f"[MCP server {clean_text(server, 64)}]"


def refusal_notice(exc: InvalidValue) -> str:
    """Return the reason why a tool is left out, on one line."""
    return clean_text(" ".join(str(exc).split()), 200)


# -- names ----------------------------------------------------------------------------------------

_SEPARATOR: Final = "__"
_MAX_SERVER_CHARACTERS: Final = 32
"""The maximum length of a server name, which leaves room for a part of the tool name and a hash."""
_HASH_DIGITS: Final = 8
_NOT_ALPHANUMERIC: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_SENDABLE_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_TOOL_NAME_LENGTH}}}")
"""Tool names that every provider accepts."""


def mcp_server_name(server: str) -> str:
    """Return the name of a server in rules: `mcp__` and its name, with `_` for punctuation.

    `web-search` and `web_search` have the same name; a user of both must rename one of them.
    """
    part = _NOT_ALPHANUMERIC.sub("_", server).strip("_")[:_MAX_SERVER_CHARACTERS].strip("_")
    return f"{MCP_TOOL_PREFIX}{part or 'server'}"


def mcp_tool_name(server: str, tool: str) -> str:
    """Return steno's name for a tool of a server, which begins with the name of the server.

    An invalid name is replaced by a valid one with a hash of the original (`map_tool_name`). Two
    tools of one server get the same name only if their hashes collide, or if one tool is already
    named like the replacement for the other.
    """
    full_name = _full_tool_name(server, tool)
    try:
        return map_tool_name(full_name)
    except InvalidTool:  # too long, or with invalid characters
        digest = hashlib.sha256(full_name.encode("utf-8", "surrogatepass")).hexdigest()
        stem = _NOT_IN_NAME.sub("_", full_name)[: MAX_TOOL_NAME_LENGTH - _HASH_DIGITS - 1]
        return f"{stem}_{digest[:_HASH_DIGITS]}"


def mcp_tool_name_for_models(server: str, tool: str) -> str | None:
    """Return the name of a tool for models, with the server's own spelling of the tool's name.

    When a model uses this name, it is mapped to steno's name. Returns None if both names are the
    same, or if some providers do not accept this name.
    """
    full_name = _full_tool_name(server, tool)
    if full_name == mcp_tool_name(server, tool) or _SENDABLE_NAME.fullmatch(full_name) is None:
        return None
    return full_name


def _full_tool_name(server: str, tool: str) -> str:
    return f"{mcp_server_name(server)}{_SEPARATOR}{tool}"


# -- schemas --------------------------------------------------------------------------------------

_MAX_SCHEMA_BYTES: Final = 64 * 1024
_MAX_SCHEMA_DEPTH: Final = 40
_MAX_TEXT_CHARACTERS: Final = 2_000
_MAX_REFERENCES: Final = 20
"""The maximum length of a chain of references."""
_TEXT_KEYWORDS: Final = frozenset({"description", "title"})
_SCHEMA_MAP_KEYWORDS: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_VALUE_KEYWORDS: Final = frozenset({"enum", "const", "default", "examples", "example"})
_DROPPED_KEYWORDS: Final = frozenset({"$comment", "pattern", "patternProperties"})
"""Keywords that steno removes; an untrusted regular expression may take exponential time."""
_NESTED_ONLY_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "enum", "const", "if"})
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _build_parameters(schema: object) -> dict[str, Any]:
    """Return a schema that providers accept, and that steno can check arguments against.

    Raises InvalidTool if the schema is not an object, is too large, or is unsafe.
    """
    if not isinstance(schema, Mapping):
        raise InvalidTool("the schema is not an object", code="schema_not_an_object")
    data = encode_json(schema)
    if len(data) > _MAX_SCHEMA_BYTES:
        message = f"the schema has more than {_MAX_SCHEMA_BYTES // 1024} KB"
        raise InvalidTool(message, code="schema_too_long")
    cleaned = {"type": "object", "properties": {}, **_clean_schema(parse_object(data), 0)}
    _check_references(cleaned, cleaned)
    _flatten_top_level(cleaned)
    return cleaned


def _clean_schema(schema: Any, depth: int) -> Any:
    """Return a schema with clean descriptions. Raises InvalidTool if the schema is unsafe."""
    if depth > _MAX_SCHEMA_DEPTH:
        message = f"the schema is nested more than {_MAX_SCHEMA_DEPTH} levels deep"
        raise InvalidTool(message, code="schema_too_deep")
    if isinstance(schema, list):
        return [_clean_schema(part, depth + 1) for part in schema]
    if not isinstance(schema, dict):
        _check_visible(schema)
        return schema
    cleaned: dict[str, Any] = {}
    for keyword, part in schema.items():
        _check_visible(keyword)
        if keyword in _TEXT_KEYWORDS and isinstance(part, str):
            cleaned[keyword] = clean_text(part, _MAX_TEXT_CHARACTERS)
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(part, dict):
            _check_visible(list(part))
            cleaned[keyword] = {
                name: _clean_schema(inner, depth + 1) for name, inner in part.items()
            }
        elif keyword in _VALUE_KEYWORDS:
            _check_visible(part)
            cleaned[keyword] = part
        elif keyword not in _DROPPED_KEYWORDS:
            cleaned[keyword] = _clean_schema(part, depth + 1)
    if isinstance(pattern := schema.get("pattern"), str):
        note = f"(pattern: {clean_text(pattern, 200)})"
        cleaned["description"] = f"{cleaned.get('description', '')} {note}".strip()
    # `patternProperties` was dropped, and `additionalProperties` may forbid names that it allows.
    if "patternProperties" in schema:
        cleaned.pop("additionalProperties", None)
    return cleaned


def _check_visible(value: Any) -> None:
    """Raise InvalidTool if a name or a value contains invisible characters."""
    for text in walk_values(value):
        if isinstance(text, str) and has_hidden_characters(text):
            message = "the schema contains invisible characters"
            raise InvalidTool(message, code="schema_has_hidden_characters")


def _check_references(schema: Any, root: dict[str, Any]) -> None:
    """Raise InvalidTool if a reference is in a cycle or its target is not in the schema."""
    target: Any = schema
    for _ in range(_MAX_REFERENCES):
        if not (isinstance(target, dict) and isinstance(ref := target.get("$ref"), str)):
            break
        target = resolve_schema_ref(root, ref)
        if target is True:
            message = "the schema contains a reference that cannot be resolved"
            raise InvalidTool(message, code="reference_not_found")
    else:
        raise InvalidTool("the schema contains a cycle of references", code="reference_cycle")
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, (dict, list)):
            _check_references(part, root)


def _flatten_top_level(schema: dict[str, Any]) -> None:
    """Convert a schema to one plain object, in place, as providers require at the top level.

    Only the server then checks which members may be combined. Raises InvalidTool if an argument has
    a name that some providers refuse.
    """
    properties = schema["properties"]
    for keyword in [name for name in schema if name in _NESTED_ONLY_KEYWORDS]:
        parts = schema.pop(keyword)
        for part in parts if isinstance(parts, list) else ():
            added = part.get("properties") if isinstance(part, dict) else None
            if isinstance(properties, dict) and isinstance(added, dict):
                schema["properties"] = properties = {**properties, **added, **properties}
    if isinstance(properties, dict) and not all(map(_ARGUMENT_NAME.fullmatch, properties)):
        message = "an argument has a name that some providers refuse"
        raise InvalidTool(message, code="invalid_argument_name")
