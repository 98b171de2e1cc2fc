"""Build the message of a prompt, with its references and images.

Piped input is plain text: references in it are not resolved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from steno.agent import PromptInput
from steno.agent.steering import find_unsent_prompt, is_unanswered
from steno.app.errors import UsageError
from steno.app.input_setup import InputSetup, read_named_image, validate_image
from steno.inputs.mcp.prompts import expand_prompt, parse_prompt_command
from steno.inputs.mentions import is_url
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageData, RecognitionMode
from steno.messages.message import UserMessage
from steno.ports import SetupNotice
from steno.tools import Workspace


async def prepare_prompt(
    prompt: PromptInput, input_setup: InputSetup, mode: RecognitionMode, *, place: str = "--image"
) -> tuple[PromptInput, tuple[SetupNotice, ...]]:
    """Return a prompt with its message and references, or as a server expands it, and notices.

    `place` names the option of the images in errors. Raises OSError, StenoError.
    """
    images = await asyncio.to_thread(_load_images, prompt.images, input_setup.workspace, place)
    parse, servers = input_setup.resolver.prompt, input_setup.servers
    command = parse_prompt_command(prompt.text)
    if command is None or command.server not in servers.specs:
        parsed = await asyncio.to_thread(
            parse, prompt.text, appended=prompt.piped, images=images, mode=mode
        )
        notices = parsed.notices
        if command is not None:
            text = f"{command.command}: there is no server of this name; left as text"
            notices += (SetupNotice("command_left_as_text", text),)
        return prompt._replace(message=parsed.message), notices
    expanded = await expand_prompt(command, [servers.get(command.server)])
    content = with_image_mode(expanded, mode).content
    if prompt.piped.strip() or images:
        rest = await asyncio.to_thread(parse, "", appended=prompt.piped, images=images, mode=mode)
        content += rest.message.content
    audit = {"origin": prompt.text.strip()}
    return prompt._replace(message=UserMessage(content), audit=audit), ()


def prepare_retry(
    conversation: Conversation | None, mode: RecognitionMode | None
) -> PromptInput | None:
    """Return the prompt that could not be sent, optionally in another image mode.

    None if the last message of the session waits for a response. Raises UsageError.
    """
    unsent = None if conversation is None else find_unsent_prompt(conversation)
    if unsent is None:
        if conversation is None or not is_unanswered(conversation):
            raise UsageError(
                "everything that was said last has been sent",
                code="nothing_unsent",
                place="--retry",
            )
        return None
    if mode is None or unsent.message is None:
        return unsent
    return unsent._replace(message=with_image_mode(unsent.message, mode))


def with_image_mode(message: UserMessage, mode: RecognitionMode) -> UserMessage:
    """Return a message with another mode for its images."""
    blocks = [
        replace(block, mode=mode) if isinstance(block, Image) else block
        for block in message.content
    ]
    return replace(message, content=tuple(blocks))


def _load_images(
    images: Sequence[str | bytes], workspace: Workspace, place: str
) -> list[str | ImageData]:
    return [_load_image(image, workspace, place) for image in images]


def _load_image(image: str | bytes, workspace: Workspace, place: str) -> str | ImageData:
    if isinstance(image, bytes):
        return ImageData(validate_image(image, "what was pasted", place=place))
    if is_url(image):
        return image
    loaded = read_named_image(image, workspace, place=place)
    return loaded if isinstance(loaded, str) else ImageData(loaded)
