"""The text of every change, one table by code and reason; and which changes a person is shown.

Wires, the context builder and file formats report changes as data (`steno.messages.change`).
Their sentences are here and nowhere else; nothing reads them back.

Most of what a server ignores needs no attention: such changes are counted and reported in one
line. Changes that a person should know are shown: omitted images, shortened results,
calls that had to be repaired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from steno.formats.format import OUTCOME_FIELD
from steno.messages.change import Change, ChangeCode, explain_repair
from steno.render.quantities import format_count

_MAX_LISTED_NAMES: Final = 8

_INDEX: Final = re.compile(r"\[\d+\]")

_SentenceTemplate: TypeAlias = str | Callable[[Change], str]
"""A template with fields that `_sentence` fills in, or a function."""


def describe_change(change: Change) -> str:
    """Return a change as a sentence, without its place and its code."""
    text = _sentence(change)
    return f"left out: {text}" if is_omission(change) else text


def format_change(change: Change) -> str:
    """Return a change as one line of a report: place, sentence and code.

    Omissions of an exported file have no code in the line: there is only one.
    """
    sentence = describe_change(change)
    code = "" if change.code is ChangeCode.NOT_EXPORTED else f" ({change.code})"
    return f"{change.place}: {sentence}{code}" if change.place else f"{sentence}{code}"


def is_omission(change: Change) -> bool:
    """Return whether an exported file leaves something out that can be named."""
    return change.code is ChangeCode.NOT_EXPORTED and change.reason not in _WHOLE_SENTENCES


def omission_names(change: Change) -> list[str]:
    """Return the names of what an exported file omits.

    The same field of two blocks is one kind.
    """
    if change.reason == "fields" and change.entry is not None:
        return [_INDEX.sub("", name) for name in _field_names(change)]
    return [_sentence(change)]


def _sentence(change: Change) -> str:
    if change.code is ChangeCode.REPAIRED:
        return explain_repair(change)
    template = SENTENCES[change.code].get(change.reason)
    if template is None:  # a wire of another package
        reason_text = change.reason.replace("_", " ")
        subjects = [*([change.value] if change.value else []), *change.names]
        return f"{reason_text}: {', '.join(subjects)}" if subjects else reason_text
    if callable(template):
        return template(change)
    number, names = change.number or 0, change.names
    return template.format(
        value=change.value,
        number=change.number,
        names=", ".join(names),
        first_names=", ".join(names[:_MAX_LISTED_NAMES])
        + (", …" if len(names) > _MAX_LISTED_NAMES else ""),
        fields=", ".join(_field_names(change)),
        messages=format_count(number, "message", "messages"),
        blobs=format_count(number, "image or long result", "images and long results"),
    )


def _field_names(change: Change) -> list[str]:
    labels = _FIELD_LABELS
    if change.value:
        labels = labels | {OUTCOME_FIELD: f"outcome ({change.value}, told as an error)"}
    return [labels.get(name, name) for name in change.names]


_FIELD_LABELS: Final = {
    "unknown_members": "unknown members",
    "text_boundaries": "where one text ends and the next begins",
}
"""Labels of omissions that are not fields of a message."""


# -- the table -------------------------------------------------------------------------------------

SENTENCES: Final[Mapping[ChangeCode, Mapping[str, _SentenceTemplate]]] = {
    ChangeCode.SEAL: {
        "other_model": "left out the seal of another model",
        "other_model_thinking": "left out what another model thought, and ids with it",
        "no_place_in_text": "left out a seal that text has no place for",
        "no_place_in_calls": "left out a seal that calls have no place for",
        "no_place_in_prompt": "left out the seal of a model",
        "unreadable": "left out a seal that is none",
    },
    ChangeCode.THINKING: {
        "no_place": "left out what the model thought",
        "other_model_thinking": "left out what another model thought, and ids with it",
    },
    ChangeCode.CALL_ID: {"replaced": "sent under the id {value}"},
    ChangeCode.TOOL_NAME: {"renamed": "sent under the name {value}"},
    ChangeCode.EXTRAS: {
        "conflicting": "left out extras for what the request says itself: {first_names}",
        "other_wire": "left out what is kept for {value} alone: {first_names}",
        "other_provider": "left out what another provider added",
        "no_place_in_prompt": "left out members that a prompt has no place for",
        "no_place_in_text": "left out: a text has no members here",
        "no_place_in_blocks": "left out: blocks have no members here",
        "no_place_in_items": "left out members that no item has",
    },
    ChangeCode.OPAQUE: {
        "other_wire": "left out a block that only {value} knows",
        "other_provider_part": "left out a part of another provider's",
        "other_provider_item": "left out an item that only its maker knows",
        "in_parts": "left out a block that came in parts which steno cannot put together",
        "no_place_in_message": "left out: it has no place in a message",
    },
    ChangeCode.IMAGE: {
        "from_model": "left out an image of the model's",
        "bytes_missing": "left out an image whose bytes are not here",
        "bytes_required": "left out: its bytes are not here",
        "type_not_supported": "left out an image: the target takes JPEG, PNG, GIF and WebP",
        "not_fetched": "left out: the server fetches nothing",
        "text_only": "left out: there is text and no more",
        "moved_to_user_message": "moved into a user message behind",
    },
    ChangeCode.REFERENCE: {
        "resource_address": "sent the address of the resource",
        "file_name": "sent the name of the file",
    },
    ChangeCode.OUTCOME: {
        "not_sent": "not told that the call ended as {value}",
        "sent_as_error": "told as an error that it ended as {value}",
    },
    ChangeCode.INVALID_CALL: {
        "raw_text_as_only_argument": "sent the raw text as the only argument",
        "raw_text_as_argument": "sent the raw text as an argument",
    },
    ChangeCode.SYSTEM: {"sent_as_user": "sent as the words of the user"},
    ChangeCode.ORDER: {
        "merged": "merged with the message before it",
        "calls_after_text": "the calls stand behind the text",
        "texts_joined": "several texts became one",
        "parts_reordered": "images stand before the text, calls behind it",
        "empty_turn": "left out a turn that says nothing",
        "trailing_thinking": "left out thinking that nothing follows",
        "taken_for_earlier_result": (
            "will be taken for the result of an earlier call of {value}, which has no id"
        ),
    },
    ChangeCode.BLANK: {
        "blank_text": "left out text without a word in it",
        "empty_message": "left out a message with nothing in it",
        "trailing_blanks": "left out the blanks at the end",
    },
    ChangeCode.TOOL: {
        "other_wire": "left out tools that only {value} knows",
        "schema_not_enforced": "the model is not held to the schema",
        "keywords_ignored": "the server does not look at {names}",
        "sent_as_function_call": "sent as the call of a function",
        "model_without_tools": "left out: this model calls no tools",
        "calls_left_out": "calls left out; the model sees their results",
    },
    ChangeCode.SETTING: {
        "temperature_lowered": "lowered to {number}, the highest there is",
        "max_tokens_lowered": "lowered to {number}, the most that a model of {value} says",
        "forced_call_with_thinking": (
            "sent, though the provider takes no forced call while the model thinks"
        ),
        "tool_choice_left_out": "left out the choice of a tool, which is the model's here",
        "stop_left_out": "left out texts to stop at",
    },
    ChangeCode.COMPACTED: {"summary": "a summary stands for what was said before"},
    ChangeCode.SHORTENED: {
        "old_result": "an old tool result: the middle of it is left out to save room",
        "resource": "block {number}: the middle of the resource is left out to save room",
    },
    ChangeCode.LEFT_OUT: {
        "oldest_messages": "left out to save room, with what came before: {messages}"
    },
    ChangeCode.RESOLVED: {"content_shown": "block {number}: what it points at is shown"},
    ChangeCode.UNRESOLVED: {
        "name_shown": "block {number}: nobody has resolved it, only its name is shown"
    },
    ChangeCode.UNREADABLE: {
        "error_shown": "block {number}: it could not be read, which is said instead"
    },
    ChangeCode.IMAGE_LEFT_OUT: {
        "model_without_vision": "block {number}: the model takes no images, which is said instead"
    },
    ChangeCode.RESOURCE_LEFT_OUT: {"to_save_room": explain_repair},
    ChangeCode.TOOLS_LEFT_OUT: {
        "model_without_tools": "the model takes no tools: {number} definitions are left out"
    },
    ChangeCode.FEEDBACK: {"sent_as_user_message": "told as a message of the user"},
    ChangeCode.MODE: {"in_system_message": "the system message tells what the mode {value} means"},
    ChangeCode.REDACTED: {"taken_out": "{value}: taken out"},
    ChangeCode.UNKNOWN: {"not_understood": "not understood, and left out"},
    ChangeCode.IGNORED: {
        "summary_of_other_branch": "a summary of what is not on this branch",
        "resolution_of_other_branch": "a resolution of what is not on this branch",
    },
    ChangeCode.NOT_EXPORTED: {
        "fields": "{fields}",
        "exact_form": "how exactly it was put",
        "ids_and_digests": "their ids and digests",
        "ids_and_times": "their ids and times",
        "ids_and_prompt_time": "their ids, and the time of the system prompt",
        "header_fields": "{names} (--format jsonl has a place for it)",
        "blobs": "the bytes of {blobs}",
        "blob_missing": "the bytes of an image or a long result are not in the store",
        "only_active_branch": "only the active branch is in the file",
        "only_this_branch": "only this branch is in the file",
    },
}
"""The sentences by code and reason. Reasons of `REPAIRED` are codes of `steno.messages.order`."""

_WHOLE_SENTENCES: Final = frozenset({"blob_missing", "only_active_branch", "only_this_branch"})
"""Reasons of `NOT_EXPORTED` whose text is a whole sentence; all others name what is omitted."""


# -- shown changes -------------------------------------------------------------------------------

_IGNORED_BY_SERVER: Final = frozenset(
    {
        ChangeCode.SEAL,
        ChangeCode.THINKING,
        ChangeCode.CALL_ID,
        ChangeCode.TOOL_NAME,
        ChangeCode.EXTRAS,
        ChangeCode.OUTCOME,
        ChangeCode.SYSTEM,
        ChangeCode.ORDER,
        ChangeCode.BLANK,
        ChangeCode.TOOL,
        ChangeCode.SETTING,
    }
)

_REQUESTED: Final = frozenset({ChangeCode.MODE, ChangeCode.COMPACTED, ChangeCode.TOOLS_LEFT_OUT})
"""Changes that the user requested, or saw when the model was chosen."""


def notice_text(change: Change) -> str | None:
    """Return the sentence of a change for a person; None if it was requested, or is ignored."""
    is_shown = change.code not in _REQUESTED and not is_ignored_by_server(change)
    return describe_change(change) if is_shown else None


def is_ignored_by_server(change: Change) -> bool:
    """Return whether a change is about a field that the server ignores."""
    return change.code in _IGNORED_BY_SERVER


def summarize_ignored(counts: Mapping[str, int]) -> str:
    """Return the line about ignored fields, from their number in each member of a request."""
    count = format_count(sum(counts.values()), "thing", "things")
    return f"{count} the server does not look at ({', '.join(counts)})"
