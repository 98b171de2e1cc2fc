"""Prompts of MCP servers as slash commands: `/server:prompt key=value "another value"`.

A command names what a server calls something else where that could not be typed; the server is
asked by its own name. What the server makes of it becomes one message of the user: nothing of it
is dropped, and what it lets the assistant say is quoted, for nobody has said it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

from steno.content import Image, ImageData, Opaque, Resource, Text
from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.content import MOST_IMAGE_BYTES, MOST_IMAGES
from steno.inputs.mcp.definitions import cleaned
from steno.inputs.mcp.foreign import from_base64, lawful
from steno.inputs.mcp.said import ListedPrompt, PromptArgument, PromptMessage, Server
from steno.json_object import encode_json
from steno.message import ChatMessage, UserBlock, UserMessage

MOST_PROMPTS: Final = 128
"""How many of one server are offered."""
_MOST_BLOCKS: Final = 100
_LONGEST_TEXT: Final = 256 * 1024
"""The characters that a prompt may say in all."""
_MOST_DATA: Final = 1024 * 1024
"""The bytes that it may hold in all which are neither text nor an image."""
_LONGEST_NAME: Final = 48
_LONGEST_DESCRIPTION: Final = 300
_LONGEST_WORD: Final = 100
_HASH_LENGTH: Final = 6
_ORIGIN: Final = "mcp"

_UNTYPEABLE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_COMMAND: Final = re.compile(r"/([A-Za-z0-9_-]+):([A-Za-z0-9_.-]+)(?:\s+(.*))?", re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A quote without another one goes on to the end: to look behind each again would take for ever.
_WORD: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?P<end>"|\\?\Z))+', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NAMED: Final = re.compile(r'([^\s"=]+)=(.*)', re.DOTALL)


class SlashPrompt(NamedTuple):
    """A prompt of a server, as a person can ask for it."""

    command: str
    """What to type: `/server:prompt`."""
    server: str
    name: str
    """What the server calls it."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class Prompts(NamedTuple):
    """The prompts of servers, and what has to be said of those that are not there."""

    prompts: tuple[SlashPrompt, ...]
    notes: tuple[str, ...] = ()


class SlashCommand(NamedTuple):
    """What a person typed."""

    command: str
    named: Mapping[str, str] = {}
    positional: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        """The server that it is for."""
        return self.command[1:].partition(":")[0]


# -- what there is ---------------------------------------------------------------------------


async def prompts_of(servers: Iterable[Server]) -> Prompts:
    """Ask servers for their prompts, all at once; one that fails gives a note and no prompts."""
    found = await asyncio.gather(*[_prompts_of(server) for server in servers])
    return Prompts(
        prompts=tuple(sorted([prompt for prompts, _ in found for prompt in prompts])),
        notes=tuple([note for _, notes in found for note in notes]),
    )


async def _prompts_of(server: Server) -> Prompts:
    try:
        listed = await server.prompts()
    except ServerFailed as exc:
        return Prompts((), (str(exc),))
    by_name = {prompt.name: prompt for prompt in reversed(listed) if prompt.name}
    offered = [by_name[name] for name in sorted(by_name)]
    notes: list[str] = []
    if len(offered) > MOST_PROMPTS:
        left = len(offered) - MOST_PROMPTS
        notes.append(f"mcp {server.name}: {left:,} prompts are left out, there are too many")
    wanted = Counter([_typeable(prompt.name) for prompt in offered])
    made = [
        _slash_prompt(server.name, prompt, is_shared=wanted[_typeable(prompt.name)] > 1)
        for prompt in offered[:MOST_PROMPTS]
    ]
    return Prompts(tuple(made), tuple(notes))


def _slash_prompt(server: str, prompt: ListedPrompt, *, is_shared: bool) -> SlashPrompt:
    name = _typeable(prompt.name)
    if name != prompt.name and (is_shared or not name.strip("_.-")):
        name = f"{name}_{_hash(prompt.name)}"
    return SlashPrompt(
        command=f"/{server}:{name}",
        server=server,
        name=prompt.name,
        description=cleaned(prompt.description, _LONGEST_DESCRIPTION),
        arguments=tuple(
            [
                argument._replace(description=cleaned(argument.description, _LONGEST_DESCRIPTION))
                for argument in prompt.arguments
            ]
        ),
    )


def _typeable(name: str) -> str:
    """Return a name of letters, digits and a few signs; one that is cut bears a mark of the whole."""
    mapped = _UNTYPEABLE.sub("_", name)
    if len(mapped) <= _LONGEST_NAME:
        return mapped
    return f"{mapped[: _LONGEST_NAME - _HASH_LENGTH - 1]}_{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]


# -- what was typed --------------------------------------------------------------------------


def parse_command(text: str) -> SlashCommand | None:
    """Return the command that a text is; None if it is none. Raises InvalidValue for a lone quote."""
    found = _COMMAND.fullmatch(text.strip())
    if found is None:
        return None
    command = f"/{found[1]}:{found[2]}"
    rest = found[3] or ""
    named: dict[str, str] = {}
    positional: list[str] = []
    for match in _WORD.finditer(rest):
        word = match[0]
        if match["end"] not in (None, '"'):
            raise InvalidValue(f'{command}: a " has no other one; write \\" inside of quotes')
        pair = _NAMED.fullmatch(word)
        if pair is None:
            positional.append(_unquoted(word))
        elif pair[1] in named:
            raise InvalidValue(f"{command}: {pair[1]} is given twice")
        else:
            named[pair[1]] = _unquoted(pair[2])
    return SlashCommand(command, named, tuple(positional))


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), word)


async def expand(command: SlashCommand, servers: Iterable[Server]) -> UserMessage:
    """Return the message that a server makes of a command.

    Raises InvalidValue, which says what is missing or unknown, and ServerFailed.
    """
    server = next((server for server in servers if server.name == command.server), None)
    if server is None:
        raise InvalidValue(f"{command.command}: there is no server of this name")
    offered, notes = await prompts_of([server])
    prompt = next((prompt for prompt in offered if prompt.command == command.command), None)
    if prompt is None:
        if notes and not offered:
            raise ServerFailed(notes[0])
        known = ", ".join([prompt.command for prompt in offered]) or "none"
        raise InvalidValue(f"{command.command}: there is no such prompt; those there are: {known}")
    messages = await server.prompt(prompt.name, _arguments(command, prompt))
    return _as_message(messages, prompt)


def _arguments(command: SlashCommand, prompt: SlashPrompt) -> dict[str, str]:
    """Return the value of each argument: those without a name go to the others, in their order."""
    names = [argument.name for argument in prompt.arguments]
    usage = f"it takes {', '.join(map(_shown, names)) or 'nothing'}"
    if unknown := [name for name in command.named if name not in names]:
        raise InvalidValue(
            f"{command.command}: {', '.join(unknown)}: not an argument of it; {usage}; "
            'put a value that holds a = in quotes: "a=b"'
        )
    free = [name for name in names if name not in command.named]
    if len(command.positional) > len(free):
        raise InvalidValue(
            f"{command.command}: too many values; {usage}; put one with blanks in quotes"
        )
    given = {**command.named, **dict(zip(free, command.positional, strict=False))}
    required = [argument.name for argument in prompt.arguments if argument.is_required]
    if missing := [_shown(name) for name in required if name not in given]:
        raise InvalidValue(f"{command.command}: it needs {', '.join(missing)}; {usage}")
    return given


def _shown(name: str) -> str:
    return cleaned(name, _LONGEST_WORD)


# -- what came of it -------------------------------------------------------------------------


def _as_message(messages: tuple[PromptMessage, ...], prompt: SlashPrompt) -> UserMessage:
    content: list[UserBlock] = []
    room = _Room(text=_LONGEST_TEXT, data=_MOST_DATA, images=MOST_IMAGES, pixels=MOST_IMAGE_BYTES)
    for message in messages[:_MOST_BLOCKS]:
        said = _said_by(message, prompt.server)
        room = reduce(_less, said, room)
        content += said
    if len(messages) > _MOST_BLOCKS or min(room) < 0:
        raise ServerFailed(
            f"mcp {prompt.server}: what {prompt.command} says is too long to be sent"
        )
    if all(isinstance(block, Text) and not block.text.strip() for block in content):
        raise ServerFailed(f"mcp {prompt.server}: {prompt.command} says nothing")
    return ChatMessage.user(content)


class _Room(NamedTuple):
    """How much more may be said: characters, bytes that no one can read, images, their bytes."""

    text: int
    data: int
    images: int
    pixels: int


def _less(room: _Room, block: UserBlock) -> _Room:
    """Return what room a block leaves; below zero if it has none."""
    match block:
        case Text():
            return room._replace(text=room.text - len(block.text))
        case Resource():
            text, data = block.text or "", block.data or b""
            return room._replace(
                text=room.text - len(block.uri) - len(text), data=room.data - len(data)
            )
        case Opaque():
            return room._replace(data=room.data - len(block.raw))
        case Image(source=ImageData(data=data)):
            return room._replace(images=room.images - 1, pixels=room.pixels - len(data))
        case _:
            return room


def _said_by(message: PromptMessage, server: str) -> list[UserBlock]:
    """Return a message as what the user says; what others are to have said is quoted."""
    blocks = _blocks(lawful(message.content), server)
    if message.role == "user":
        return blocks
    role = cleaned(message.role, _LONGEST_WORD) or "somebody"
    quoted = [_quoted(block) if isinstance(block, Text) else block for block in blocks]
    return [Text(f"[the prompt lets the {role} say:]"), *quoted]


def _quoted(text: Text) -> Text:
    return Text("\n".join([f"> {line}" for line in text.text.split("\n")]))


def _blocks(block: dict[str, Any], server: str) -> list[UserBlock]:
    """Return a block of the protocol as ours; one that has none is kept, and said to be there."""
    match block:
        case {"type": "text", "text": str(text)}:
            return [Text(text)] if text else []
        case {"type": "image", "data": str(data)} if image := _image(data, _type(block)):
            return [image]
        case {"type": "resource_link", "uri": str(uri)} if uri:
            words = [block.get(key) for key in ("title", "name", "description")]
            about = cleaned(
                ": ".join([word for word in words if isinstance(word, str)]), _LONGEST_DESCRIPTION
            )
            link = Resource(server=server, uri=uri, mime_type=_type(block))
            return [Text(f"[a link to {about}]"), link] if about else [link]
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}} if uri:
            return [Resource(server=server, uri=uri, mime_type=_type(block["resource"]), text=text)]
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)}} if uri:
            decoded = from_base64(blob)
            if decoded is not None:
                kind = _type(block["resource"])
                return [Resource(server=server, uri=uri, mime_type=kind, data=decoded)]
        case _:
            pass
    word = cleaned(str(block.get("type")), _LONGEST_WORD) or "unknown"
    return [
        Text(f"[a block of the kind {word} that cannot be shown; it is kept with the record]"),
        Opaque(kind=word, raw=encode_json(block).decode(), origin=_ORIGIN),
    ]


def _image(data: str, kind: str | None) -> Image | None:
    decoded = from_base64(data)
    if not decoded or kind is None or not kind.startswith("image/"):
        return None
    return Image(source=ImageData(decoded), mime_type=kind)


def _type(members: Mapping[str, Any]) -> str | None:
    kind = members.get("mimeType")
    return cleaned(kind, _LONGEST_WORD) or None if isinstance(kind, str) else None
