"""Entries and events as headings with text, for an interface that prints line by line.

This module makes text printable only if it must fit on one line; the code that prints other text
makes that text printable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from steno.agent.events import RunResult
from steno.messages.call import AnyToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Entry
from steno.render.describe import (
    Headline,
    describe_exit,
    describe_result,
    summarize_arguments,
    tool_label,
)
from steno.render.items import ItemHint, ItemKind, TranscriptItem
from steno.render.quantities import format_count
from steno.render.session_items import CONTEXT_CLEARED, describe_run_usage, item_from_prompt
from steno.render.terminal_text import terminal_line

_RECAP_EXCHANGES: Final = 3
OUTPUT_HEADING: Final = "Output"
ITEM_HEADINGS: Final[Mapping[ItemKind, str]] = {
    ItemKind.USER: "You",
    ItemKind.ANSWER: "Answer",
    ItemKind.THINKING: "Thinking",
    ItemKind.SHELL: "Shell",
    ItemKind.NOTICE: "Notice",
    ItemKind.ERROR: "Error",
    ItemKind.MARKER: "Notice",
}


class HeadedText(NamedTuple):
    """A heading with a text, optionally followed by the lines of a diff or a failure."""

    heading: str
    text: str = ""
    lines: Sequence[str] = ()
    is_quoted: bool = False
    """Whether `lines` is a diff."""
    hint: ItemHint | None = None


# -- items -----------------------------------------------------------------------------------


def headed_item(item: TranscriptItem) -> HeadedText:
    """Return the text of an item with the heading of its kind.

    If a prompt has a head, such as `not sent`, the head is the heading.
    """
    if item.kind is ItemKind.USER and item.head:
        return HeadedText(item.head.capitalize(), item.body)
    return HeadedText(ITEM_HEADINGS[item.kind], item.head or item.body, hint=item.hint)


def headed_thinking(text: str) -> HeadedText:
    """Return the text for a thinking block, which states only its number of words."""
    count = format_count(len(text.split()), "word", "words")
    return HeadedText(ITEM_HEADINGS[ItemKind.THINKING], count)


def headed_steering(text: str) -> HeadedText:
    """Return the text for a queued prompt that is now part of a request."""
    return HeadedText("Sent", terminal_line(text))


def headed_shell_command(command: str) -> HeadedText:
    """Return the text for a shell command of the user."""
    return HeadedText(ITEM_HEADINGS[ItemKind.SHELL], terminal_line(command))


def headed_exit(status: int | None) -> HeadedText:
    """Return the text for the end of a shell command."""
    return HeadedText(ITEM_HEADINGS[ItemKind.SHELL], describe_exit(status))


def headed_run_end(result: RunResult) -> HeadedText:
    """Return the text for the end of a run, with its usage."""
    return HeadedText("Done", describe_run_usage(result))


# -- calls -----------------------------------------------------------------------------------


def headed_call(call: AnyToolCall, headline: Headline) -> HeadedText:
    """Return the text for a call, with its tool and its headline."""
    name = tool_label(call)
    return HeadedText(f"Tool {name}", summarize_arguments(call, headline))


def headed_output(call: AnyToolCall) -> HeadedText:
    """Return the heading for the output of a tool."""
    return HeadedText(OUTPUT_HEADING, f"of {tool_label(call)}")


def headed_result(result: ToolResultMessage) -> HeadedText:
    """Return the text for the result of a call: its number of lines, its diff or its failure."""
    summary, lines = describe_result(result)
    return HeadedText("Result", summary, lines, is_quoted=result.outcome is Outcome.OK)


# -- recap -----------------------------------------------------------------------------------


def recap(entries: Sequence[Entry], headline: Headline) -> Iterator[HeadedText]:
    """Yield the last exchanges of a conversation.

    If earlier entries are omitted, a notice with their number precedes the exchanges.
    """
    prompts = [i for i, entry in enumerate(entries) if isinstance(entry.message, UserMessage)]
    start = prompts[-_RECAP_EXCHANGES] if len(prompts) >= _RECAP_EXCHANGES else 0
    if start:
        count = format_count(start, "earlier entry", "earlier entries")
        yield HeadedText(ITEM_HEADINGS[ItemKind.NOTICE], count, hint=ItemHint.SHOW_TREE)
    for entry in entries[start:]:
        yield from _headed_entry(entry, headline)


def _headed_entry(entry: Entry, headline: Headline) -> Iterator[HeadedText]:
    message = entry.message
    match message:
        case UserMessage():
            item = item_from_prompt(entry, message)
            text = "\n".join(filter(None, [item.head, item.body]))
            yield HeadedText(ITEM_HEADINGS[item.kind], text.strip("\n"))
        case AssistantMessage():
            for block in message.content:
                if isinstance(block, Text) and block.text.strip():
                    yield HeadedText(ITEM_HEADINGS[ItemKind.ANSWER], block.text.strip("\n"))
                elif isinstance(block, AnyToolCall):
                    yield headed_call(block, headline)
        case ToolResultMessage():
            yield headed_result(message)
        case None if entry.clears_context:
            yield HeadedText(ITEM_HEADINGS[ItemKind.MARKER], CONTEXT_CLEARED)
        case _:
            pass
