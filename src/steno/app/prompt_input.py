"""Build the message of a prompt, with its references and images.

Piped input is plain text: references in it are not resolved.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from steno.agent import PromptInput
from steno.app.input_setup import InputSetup, read_named_image, validate_image
from steno.inputs.mcp.prompts import expand_prompt, parse_prompt_command
from steno.inputs.mentions import is_url
from steno.messages.content import Image, ImageData, RecognitionMode
from steno.messages.message import UserMessage
from steno.ports import SetupNotice
from steno.tools import Workspace


async def prepare_prompt(
    prompt: PromptInput, input_setup: InputSetup, mode: RecognitionMode
) -> tuple[PromptInput, tuple[SetupNotice, ...]]:
    """Return a prompt with its message and references, or as a server expands it, and notices.

    Raises OSError, StenoError.
    """
    images = await asyncio.to_thread(
        lambda: [_load_image(image, input_setup.workspace) for image in prompt.images]
    )
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


def with_image_mode(message: UserMessage, mode: RecognitionMode) -> UserMessage:
    """Return a message with another mode for its images."""
    blocks = [
        replace(block, mode=mode) if isinstance(block, Image) else block
        for block in message.content
    ]
    return replace(message, content=tuple(blocks))


def _load_image(image: str | bytes, workspace: Workspace) -> str | ImageData:
    if isinstance(image, bytes):
        return ImageData(validate_image(image, "what was pasted", place="image"))
    if is_url(image):
        return image
    loaded = read_named_image(image, workspace, place="image")
    return loaded if isinstance(loaded, str) else ImageData(loaded)
