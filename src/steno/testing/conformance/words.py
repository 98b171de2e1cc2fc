"""Cases about what a model says: text, thinking, refusals, and what nobody has a name for."""

from __future__ import annotations

from typing import Final

from steno.content import Opaque, Thinking
from steno.message import AssistantMessage
from steno.request import Request
from steno.testing.conformance.hearing import MODEL, Heard, expect, hear, require
from steno.testing.conformance.requests import USER
from steno.testing.conformance.script import (
    End,
    KeepAlive,
    Redact,
    Refuse,
    Say,
    SealThinking,
    Think,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
)
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.usage import StopReason

_SEAL: Final = "c2VhbGVkLWJ5LXRoZS1raXQ="
_LIGHT: Final = "hologram-4711"


def text(speaker: Speaker) -> None:
    """Text arrives piece by piece and is one block in the end."""
    heard = hear(speaker, Say("Hel"), Say("lo"), Say(", world"), End())
    _expect_only_text(heard, "Hello, world")
    expect(heard.message.stop_reason, StopReason.END_TURN, "stop reason")


def thinking(speaker: Speaker) -> None:
    """Thinking is a block of its own, in front of the text that follows it."""
    heard = hear(speaker, Think("Let me"), Think(" see."), Say("Four."), End())
    thought = _thinking_of(heard)
    expect((thought.text, thought.redacted), ("Let me see.", False), "thinking")
    expect(heard.message.text, "Four.", "text")
    expect(heard.message.content[0], thought, "the first block")


def thinking_with_seal(speaker: Speaker) -> None:
    """A seal stands on the thinking it came with and names the model that made it."""
    heard = hear(speaker, Think("Let me see."), SealThinking(_SEAL), Say("Four."), End())
    thought = _thinking_of(heard)
    expect(thought.text, "Let me see.", "thinking")
    require(thought.seal is not None, "the thinking has no seal")
    assert thought.seal is not None
    require(_SEAL in thought.seal.data, "the seal does not hold what the server sent")
    expect((thought.seal.api, thought.seal.model), (speaker.wire.NAME, MODEL), "maker of the seal")
    expect(heard.message.text, "Four.", "text")


def redacted_thinking(speaker: Speaker) -> None:
    """Thinking of which only the seal is handed out is kept as thinking, with that seal."""
    heard = hear(speaker, Redact(_SEAL), Say("Four."), End())
    thought = _thinking_of(heard)
    expect(thought.text, "", "thinking")
    require(thought.seal is not None and _SEAL in thought.seal.data, "the seal is not kept")
    expect(heard.message.text, "Four.", "text")


def refusal_or_filter(speaker: Speaker) -> None:
    """A refusal stops the turn as `content_filter`, and its words are kept."""
    try:
        heard = hear(speaker, Refuse("I will not."), End())
        require(heard.contains("I will not."), "the words of the refusal are not kept")
    except CannotSay:
        heard = hear(speaker, Say("I w"), End(StopReason.CONTENT_FILTER))
        expect(heard.message.text, "I w", "text")
    expect(heard.message.stop_reason, StopReason.CONTENT_FILTER, "stop reason")


# -- what nobody has a name for --------------------------------------------------------------


def unknown_event(speaker: Speaker) -> None:
    """An event of a new kind harms nothing and is kept."""
    _expect_kept(hear(speaker, Say("Hel"), UnknownEvent(_LIGHT), Say("lo"), End()))


def unknown_member(speaker: Speaker) -> None:
    """A member that is new harms nothing and is kept."""
    _expect_kept(hear(speaker, Say("Hel"), UnknownMember(_LIGHT), Say("lo"), End()))


def unknown_block(speaker: Speaker) -> None:
    """A block of a new kind is kept in its place and goes back to where it came from."""
    heard = hear(speaker, Say("Look:"), UnknownBlock(_LIGHT), End())
    expect(heard.message.text, "Look:", "text")
    expect(heard.block_types, ["Text", "Opaque"], "kinds of blocks")
    opaque = heard.message.content[1]
    assert isinstance(opaque, Opaque)
    expect(opaque.origin, speaker.wire.NAME, "origin of the block")
    require(_LIGHT in opaque.raw, "the block does not hold what the server sent")
    answer = AssistantMessage(content=heard.message.content)
    body = speaker.wire.encode_request(Request(model=MODEL, messages=(USER, answer, USER))).body
    require(_LIGHT.encode() in body, "the block is not sent back")


def keep_alive(speaker: Speaker) -> None:
    """What keeps a connection alive leaves no trace."""
    heard = hear(speaker, KeepAlive(), Say("Hel"), KeepAlive(), Say("lo"), KeepAlive(), End())
    _expect_only_text(heard, "Hello")
    quiet = hear(speaker, Say("Hel"), Say("lo"), End())
    expect(heard.events, quiet.events, "events")


def _expect_only_text(heard: Heard, wanted: str) -> None:
    expect(heard.block_types, ["Text"], "kinds of blocks")
    expect(heard.message.text, wanted, "text")


def _thinking_of(heard: Heard) -> Thinking:
    found = [block for block in heard.message.content if isinstance(block, Thinking)]
    expect(len(found), 1, "blocks of thinking")
    return found[0]


def _expect_kept(heard: Heard) -> None:
    expect(heard.message.text, "Hello", "text")
    require(heard.contains(_LIGHT), "what was unknown is lost: neither in the message nor beside it")
