"""Let a model sum up what was said so far, so that a long conversation can go on."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from steno.errors import ProtocolError
from steno.message import ChatMessage
from steno.ports import Provider
from steno.request import Request
from steno.usage import Usage

_TASK: Final = """\
The conversation has become too long to be read as a whole. Write a summary that replaces it: \
whoever goes on will see nothing else of it. Say what the person wants, in their words where \
these matter; what was decided and why; which files, commands and names matter and in what state \
they are; what was tried and failed; and what is to be done next. Do not call tools. Do not \
address anybody."""


async def summarise(provider: Provider, request: Request) -> tuple[str, Usage]:
    """Ask for a summary of what a request holds; return it and what it cost.

    Raises ProviderError and ProtocolError, also where the model says nothing.
    """
    asked = replace(
        request,
        messages=(*request.messages, ChatMessage.user(_TASK)),
        tool_choice="none" if request.tools else None,
    )
    async with provider.stream(asked) as stream:
        message = await stream.collect()
    summary = (message.text or "").strip()
    if not summary:
        raise ProtocolError("summary: the model said nothing")
    return summary, message.usage or Usage()
