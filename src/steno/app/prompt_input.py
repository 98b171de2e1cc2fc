"""Make a message of what a person says at a command line, with what it points at.

What is piped in is no more than text, whatever stands in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from steno.agent.rewind import find_unsent_prompt, is_unanswered
from steno.app.errors import UsageError
from steno.app.input_setup import InputSetup, read_named_image, validate_image
from steno.inputs.mcp.prompts import expand_prompt, parse_prompt_command
from steno.inputs.mentions import is_url
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageData, RecognitionMode
from steno.messages.message import UserMessage
from steno.tools import Workspace


class RawPrompt(NamedTuple):
    """What a person says, and what only comes along with it."""

    text: str
    piped: str = ""
    images: tuple[str | bytes, ...] = ()
    """Files and addresses by name, or what was pasted."""


class PreparedPrompt(NamedTuple):
    """What is to be said first, and what is known of it."""

    message: UserMessage | None
    """None: something was said before, and waits for an answer."""
    origin: str | None = None
    """The command that stands for it, where a server has made it ready."""
    notes: tuple[str, ...] = ()
    """What the person should know of it."""

    @property
    def text(self) -> str:
        """Its words, as far as they are known before anything is opened."""
        return "" if self.message is None else self.message.text or ""


async def prepare_prompt(
    words: RawPrompt, opened: InputSetup, mode: RecognitionMode, *, place: str = "--image"
) -> PreparedPrompt:
    """Return what a person says: with what it points at, or what a server has made ready.

    `place` is where images are named. Raises OSError, StenoError for what cannot be read.
    """
    pictures = await asyncio.to_thread(_load_images, words.images, opened.workspace, place)
    read, servers = opened.inputs.prompt, opened.servers
    command = parse_prompt_command(words.text)
    if command is None or command.server not in servers.specs:
        prompt = await asyncio.to_thread(
            read, words.text, appended=words.piped, images=pictures, mode=mode
        )
        notes = prompt.notes
        if command is not None:
            notes += (f"{command.command}: there is no server of this name; left as text",)
        return PreparedPrompt(prompt.message, notes=notes)
    ready = await expand_prompt(command, [servers.get(command.server)])
    content = with_image_mode(ready, mode).content
    if words.piped.strip() or pictures:
        rest = await asyncio.to_thread(read, "", appended=words.piped, images=pictures, mode=mode)
        content += rest.message.content
    return PreparedPrompt(UserMessage(content), origin=words.text.strip())


def prepare_retry(
    conversation: Conversation | None, mode: RecognitionMode | None
) -> PreparedPrompt:
    """Return what could not be sent; its images may be shown otherwise now. Raises Misused."""
    found = None if conversation is None else find_unsent_prompt(conversation)
    if found is None:
        if conversation is None or not is_unanswered(conversation):
            raise UsageError("--retry: everything that was said last has been sent")
        return PreparedPrompt(None)
    message = found.message if mode is None else with_image_mode(found.message, mode)
    return PreparedPrompt(message, found.audit.get("origin"))


def with_image_mode(message: UserMessage, mode: RecognitionMode) -> UserMessage:
    """Return a message whose images are to be shown in another way."""
    blocks = [replace(one, mode=mode) if isinstance(one, Image) else one for one in message.content]
    return replace(message, content=tuple(blocks))


def _load_images(
    images: Sequence[str | bytes], workspace: Workspace, place: str
) -> list[str | ImageData]:
    return [_load_image(image, workspace, place) for image in images]


def _load_image(image: str | bytes, workspace: Workspace, place: str) -> str | ImageData:
    if isinstance(image, bytes):
        return ImageData(validate_image(image, f"{place}: what was pasted"))
    if is_url(image):
        return image
    found = read_named_image(image, workspace, place=place)
    return found if isinstance(found, str) else ImageData(found)
