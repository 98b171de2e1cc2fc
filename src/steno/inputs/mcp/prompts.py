"""The prompts of MCP servers as slash commands: `/server:prompt key=value "another value"`.

A name that cannot be typed is mapped to a name that can; the server receives the original name. The
messages that the server returns become one user message. No content is dropped, and text in the
role of the assistant is quoted, because the model did not write it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.protocol import ListedPrompt, McpServer, PromptArgument, PromptMessage
from steno.inputs.mcp.tools import MAX_IMAGE_BYTES, MAX_IMAGES
from steno.inputs.mcp.untrusted_data import clean_text, decode_base64, sanitize_json
from steno.json_object import encode_json
from steno.messages.content import Image, ImageData, Opaque, Resource, Text
from steno.messages.message import ChatMessage, UserBlock, UserMessage
from steno.ports import SetupNotice

MAX_PROMPTS: Final = 128
"""The maximum number of prompts that are offered per server."""
_MAX_BLOCKS: Final = 100
_MAX_TEXT_CHARACTERS: Final = 256 * 1024
"""The maximum number of characters of a prompt."""
_MAX_DATA_BYTES: Final = 1024 * 1024
"""The maximum number of bytes of a prompt that are neither text nor images."""
_MAX_NAME_CHARACTERS: Final = 48
_MAX_DESCRIPTION_CHARACTERS: Final = 300
_MAX_WORD_CHARACTERS: Final = 100
_HASH_LENGTH: Final = 6
_ORIGIN: Final = "mcp"

_UNTYPEABLE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_COMMAND: Final = re.compile(r"/([A-Za-z0-9_-]+):([A-Za-z0-9_.-]+)(?:\s+(.*))?", re.DOTALL)
_QUOTED_VALUE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# An unclosed quote extends to the end; to match fewer characters would take quadratic time.
_ARGUMENT: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?P<end>"|\\?\Z))+', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NAMED_VALUE: Final = re.compile(r'([^\s"=]+)=(.*)', re.DOTALL)


class McpPrompt(NamedTuple):
    """A prompt of a server, and the command that expands it."""

    command: str
    """The command to type: `/server:prompt`."""
    server: str
    name: str
    """The name of the prompt on the server."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class McpPrompts(NamedTuple):
    """The prompts of servers, and notices about prompts and servers that are left out."""

    prompts: tuple[McpPrompt, ...]
    notices: tuple[SetupNotice, ...] = ()


class PromptCommand(NamedTuple):
    """A parsed prompt command with its arguments."""

    command: str
    named_arguments: Mapping[str, str] = {}
    positional: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        """The name of the server."""
        return self.command[1:].partition(":")[0]

    def error(self, message: str, *, code: str) -> InvalidValue:
        """Return an error that names the command."""
        return InvalidValue(message, code=code, place=self.command)


# -- listing ---------------------------------------------------------------------------------


async def list_mcp_prompts(servers: Iterable[McpServer]) -> McpPrompts:
    """List the prompts of all servers concurrently; a server that fails adds only a notice."""

    async def list_or_notice(server: McpServer) -> McpPrompts:
        try:
            return await _list_server_prompts(server)
        except ServerFailed as exc:
            return McpPrompts((), (SetupNotice(exc.code, str(exc)),))

    found = await asyncio.gather(*map(list_or_notice, servers))
    return McpPrompts(
        prompts=tuple(sorted([prompt for prompts, _ in found for prompt in prompts])),
        notices=tuple([notice for _, notices in found for notice in notices]),
    )


async def _list_server_prompts(server: McpServer) -> McpPrompts:
    """Return the prompts of one server. Raises ServerFailed if the request fails."""
    listed = await server.prompts()
    by_name = {prompt.name: prompt for prompt in reversed(listed) if prompt.name}
    offered = [by_name[name] for name in sorted(by_name)]
    notices: list[SetupNotice] = []
    if len(offered) > MAX_PROMPTS:
        omitted_count = len(offered) - MAX_PROMPTS
        rest = "1 prompt is left out"
        if omitted_count > 1:
            rest = f"{omitted_count:,} prompts are left out"
        text = f"mcp {server.name}: {rest}; the limit is {MAX_PROMPTS}"
        notices.append(SetupNotice("too_many_prompts", text))
    name_counts = Counter([_typeable_name(prompt.name) for prompt in offered])
    built = [
        _build_prompt(server.name, prompt, is_shared=name_counts[_typeable_name(prompt.name)] > 1)
        for prompt in offered[:MAX_PROMPTS]
    ]
    return McpPrompts(tuple(built), tuple(notices))


def _build_prompt(server: str, prompt: ListedPrompt, *, is_shared: bool) -> McpPrompt:
    name = _typeable_name(prompt.name)
    if name != prompt.name and (is_shared or not name.strip("_.-")):
        name = f"{name}_{_name_hash(prompt.name)}"
    arguments = [
        each._replace(description=clean_text(each.description, _MAX_DESCRIPTION_CHARACTERS))
        for each in prompt.arguments
    ]
    return McpPrompt(
        command=f"/{server}:{name}",
        server=server,
        name=prompt.name,
        description=clean_text(prompt.description, _MAX_DESCRIPTION_CHARACTERS),
        arguments=tuple(arguments),
    )


def _typeable_name(name: str) -> str:
    """Return a name that can be typed; a shortened name ends with a hash of the original."""
    mapped = _UNTYPEABLE.sub("_", name)
    if len(mapped) <= _MAX_NAME_CHARACTERS:
        return mapped
    return f"{mapped[: _MAX_NAME_CHARACTERS - _HASH_LENGTH - 1]}_{_name_hash(name)}"


def _name_hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]


# -- commands --------------------------------------------------------------------------------


def parse_prompt_command(text: str) -> PromptCommand | None:
    """Parse a prompt command; return None if the text is not one.

    Raises InvalidValue if a quote is not closed or an argument is repeated.
    """
    found = _COMMAND.fullmatch(text.strip())
    if found is None:
        return None
    command = f"/{found[1]}:{found[2]}"
    rest = found[3] or ""
    named_arguments: dict[str, str] = {}
    positional: list[str] = []
    for match in _ARGUMENT.finditer(rest):
        token = match[0]
        if match["end"] not in (None, '"'):
            message = 'a " is not closed; write \\" for a quote inside quotes'
            raise InvalidValue(message, code="quote_not_closed", place=command)
        pair = _NAMED_VALUE.fullmatch(token)
        if pair is None:
            positional.append(_unquote(token))
        elif pair[1] in named_arguments:
            raise InvalidValue(f"{pair[1]} is given twice", code="argument_repeated", place=command)
        else:
            named_arguments[pair[1]] = _unquote(pair[2])
    return PromptCommand(command, named_arguments, tuple(positional))


def _unquote(token: str) -> str:
    return _QUOTED_VALUE.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), token)


async def expand_prompt(command: PromptCommand, servers: Iterable[McpServer]) -> UserMessage:
    """Return the user message that a server creates for a prompt command.

    Raises InvalidValue if the server, the prompt or an argument is unknown or an argument is
    missing, and ServerFailed if the server fails or returns no usable prompt.
    """
    server = next((server for server in servers if server.name == command.server), None)
    if server is None:
        raise command.error("unknown server", code="server_not_found")
    offered = sorted((await _list_server_prompts(server)).prompts)
    prompt = next((prompt for prompt in offered if prompt.command == command.command), None)
    if prompt is None:
        known = ", ".join([prompt.command for prompt in offered]) or "none"
        message = f"unknown prompt; known prompts: {known}"
        raise command.error(message, code="prompt_not_found")
    messages = await server.prompt(prompt.name, _match_arguments(command, prompt))
    return _build_message(messages, prompt)


def _match_arguments(command: PromptCommand, prompt: McpPrompt) -> dict[str, str]:
    """Return the value of each argument by name.

    Positional values are assigned in order to the arguments that the command does not name. Raises
    InvalidValue if an argument is unknown or missing, or if there are too many values.
    """
    names = [argument.name for argument in prompt.arguments]
    usage = f"the prompt takes {', '.join(map(_clean_name, names)) or 'no arguments'}"
    if unknown := [name for name in command.named_arguments if name not in names]:
        raise command.error(
            f"{', '.join(unknown)}: unknown argument; {usage}; "
            'put a value that contains a = in quotes: "a=b"',
            code="unknown_argument",
        )
    unnamed = [name for name in names if name not in command.named_arguments]
    if len(command.positional) > len(unnamed):
        message = f"too many values; {usage}; put a value with spaces in quotes"
        raise command.error(message, code="too_many_arguments")
    values = {**command.named_arguments, **dict(zip(unnamed, command.positional, strict=False))}
    required = [argument.name for argument in prompt.arguments if argument.is_required]
    if missing := [_clean_name(name) for name in required if name not in values]:
        raise command.error(f"missing {', '.join(missing)}; {usage}", code="argument_missing")
    return values


def _clean_name(name: str) -> str:
    return clean_text(name, _MAX_WORD_CHARACTERS)


# -- messages --------------------------------------------------------------------------------


def _build_message(messages: tuple[PromptMessage, ...], prompt: McpPrompt) -> UserMessage:
    content: list[UserBlock] = []
    for message in messages[:_MAX_BLOCKS]:
        content += _message_blocks(message, prompt.server)
    if len(messages) > _MAX_BLOCKS or _is_too_long(content):
        problem = f"{prompt.command} exceeds the limits on messages, text, images or other data"
        raise ServerFailed(problem, code="prompt_too_long", place=f"mcp {prompt.server}")
    if all(isinstance(block, Text) and not block.text.strip() for block in content):
        problem = f"{prompt.command} returned an empty prompt"
        raise ServerFailed(problem, code="empty_prompt", place=f"mcp {prompt.server}")
    return ChatMessage.user(content)


def _is_too_long(content: list[UserBlock]) -> bool:
    """Return whether blocks exceed the limits for text, images or other data."""
    characters = data_bytes = images = image_bytes = 0
    for block in content:
        match block:
            case Text(text):
                characters += len(text)
            case Resource():
                characters += len(block.uri) + len(block.text or "")
                data_bytes += len(block.data or b"")
            case Opaque():
                data_bytes += len(block.raw)
            case Image(source=ImageData(data)):
                images += 1
                image_bytes += len(data)
            case _:
                pass
    return (
        characters > _MAX_TEXT_CHARACTERS
        or data_bytes > _MAX_DATA_BYTES
        or images > MAX_IMAGES
        or image_bytes > MAX_IMAGE_BYTES
    )


def _message_blocks(message: PromptMessage, server: str) -> list[UserBlock]:
    """Convert a message of a prompt to user blocks.

    Text in a role other than `user` is quoted, after a note with the role.
    """
    blocks = _convert_block(sanitize_json(message.content), server)
    if message.role == "user":
        return blocks
    role = clean_text(message.role, _MAX_WORD_CHARACTERS) or "unknown"
    quoted = [
        Text("\n".join([f"> {line}" for line in block.text.split("\n")]))
        if isinstance(block, Text)
        else block
        for block in blocks
    ]
    return [Text(f"[text of the prompt in the role {role}:]"), *quoted]


def _convert_block(block: dict[str, Any], server: str) -> list[UserBlock]:
    """Convert a block of the protocol to user blocks.

    A block that steno cannot use becomes a note, followed by an opaque block with its JSON.
    """
    match block:
        case {"type": "text", "text": str(text)}:
            return [Text(text)] if text else []
        case {"type": "image", "data": str(data)}:
            decoded, mime_type = decode_base64(data), _mime_type(block)
            if decoded and mime_type is not None and mime_type.startswith("image/"):
                return [Image(source=ImageData(decoded), mime_type=mime_type)]
        case {"type": "resource_link", "uri": str(uri)} if uri:
            parts = [block.get(key) for key in ("title", "name", "description")]
            label = ": ".join([part for part in parts if isinstance(part, str)])
            description = clean_text(label, _MAX_DESCRIPTION_CHARACTERS)
            link = Resource(server=server, uri=uri, mime_type=_mime_type(block))
            return [Text(f"[a link to {description}]"), link] if description else [link]
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)} as inner} if uri:
            return [Resource(server=server, uri=uri, mime_type=_mime_type(inner), text=text)]
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)} as inner} if uri:
            mime_type, decoded = _mime_type(inner), decode_base64(blob)
            if decoded is not None:
                return [Resource(server=server, uri=uri, mime_type=mime_type, data=decoded)]
        case _:
            pass
    kind = clean_text(str(block.get("type")), _MAX_WORD_CHARACTERS) or "unknown"
    return [
        Text(f"[a block of type {kind} that cannot be shown; stored in the session]"),
        Opaque(kind=kind, raw=encode_json(block).decode(), origin=_ORIGIN),
    ]


def _mime_type(members: Mapping[str, Any]) -> str | None:
    kind = members.get("mimeType")
    return clean_text(kind, _MAX_WORD_CHARACTERS) or None if isinstance(kind, str) else None
