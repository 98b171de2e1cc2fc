"""The texts of all changes, by code and reason, and the choice of changes that the user sees.

Wires, the context builder and file formats report changes as data (`steno.messages.change`).
This module contains their texts. No code parses the texts.

Most fields that a server ignores need no attention; they are counted and reported in one line. The
same content in another form, such as two messages that are merged, is not reported. All other
changes, such as an omitted image, a shortened result or a repair, are reported individually, unless
the user requested them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from steno.formats.format import OUTCOME_FIELD
from steno.messages.change import Change, ChangeCode, explain_repair
from steno.messages.content import OWN_FORMAT
from steno.messages.order import OrderCode
from steno.render.quantities import format_count

_MAX_LISTED_NAMES: Final = 8

_INDEX: Final = re.compile(r"\[\d+\]")

_SentenceTemplate: TypeAlias = str | Callable[[Change], str]
"""A format string that `_sentence` fills in, or a function that returns the sentence."""


def describe_change(change: Change) -> str:
    """Describe a change in a sentence, without its place and code."""
    text = _sentence(change)
    return f"left out: {text}" if is_omission(change) else text


def format_change(change: Change) -> str:
    """Return a change as one line of a report: place, sentence and code.

    The code is left out for an omission from an exported file, since all omissions share it.
    """
    sentence = describe_change(change)
    code = "" if change.code is ChangeCode.NOT_EXPORTED else f" ({change.code})"
    return f"{change.place}: {sentence}{code}" if change.place else f"{sentence}{code}"


def is_omission(change: Change) -> bool:
    """Return whether a change is the omission of named content from an exported file."""
    return change.code is ChangeCode.NOT_EXPORTED and change.reason not in _WHOLE_SENTENCES


def omission_names(change: Change) -> list[str]:
    """Return the names of the fields or other content that an exported file omits.

    Names of fields contain no block index, so the same field of two blocks has the same name.
    """
    if change.reason == "fields" and change.entry is not None:
        return [_INDEX.sub("", name) for name in _field_names(change)]
    return [_sentence(change)]


def _sentence(change: Change) -> str:
    template = SENTENCES[change.code].get(change.reason)
    if template is None:  # reported by a wire of another package
        reason_text = change.reason.replace("_", " ")
        subjects = [name for name in (change.value, change.kind, *change.names) if name]
        return f"{reason_text}: {', '.join(subjects)}" if subjects else reason_text
    if callable(template):
        return template(change)
    number, names = change.number or 0, change.names
    return template.format(
        value=change.value,
        target=change.target,
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
        labels = labels | {OUTCOME_FIELD: f"outcome ({change.value}, written as an error)"}
    return [labels.get(name, name) for name in change.names]


_FIELD_LABELS: Final = {
    "about": "facts about the session (folder, program)",
    "unknown_members": "unknown members",
    "text_boundaries": "the boundaries between texts",
    "system_position": "the position of a system message, which becomes part of the system prompt",
    "image": "images in whose place their text was sent",
    "resolution": "references and how they were read (paths, digests, recognition)",
}
"""Labels of omissions that are not fields of a message."""


def _with_type(noun: str, kind: str) -> str:
    return f"{noun} of the type {kind}" if kind else f"{noun} without a type"


def _sentence_of_part(noun: str, reason: str, change: Change) -> str:
    """Return the sentence for a part of a message whose type a wire cannot send."""
    return f"left out {_with_type(noun, change.kind)}, which {reason}"


def _sentence_of_opaque(change: Change) -> str:
    """Return the sentence for a block of an unknown type.

    A block that was recorded in our own format may come from a file of any program.
    """
    is_ours = change.value == OWN_FORMAT
    reason = "steno does not know" if is_ours else f"only {change.value} has"
    return _sentence_of_part("a block", reason, change)


def _sentence_of_invalid_call(argument: str, change: Change) -> str:
    names = " ".join(filter(None, [change.value, change.target and f"({change.target})"]))
    return f"sent the raw text of the invalid call {names}".rstrip() + f" as {argument}"


def _sentence_of_unknown_entry(change: Change) -> str:
    named = _with_type("an entry", change.value)
    return f"left out {named}, which this version of steno does not know"


# -- the table -------------------------------------------------------------------------------------

SENTENCES: Final[Mapping[ChangeCode, Mapping[str, _SentenceTemplate]]] = {
    ChangeCode.SEAL: {
        "other_model": "left out the seal of another model",
        "other_model_thinking": "left out the thinking of another model, and its ids",
        "no_place_in_text": "left out a seal: the target has no field for it in text",
        "no_place_in_calls": "left out a seal: the target has no field for it in a call",
        "no_place_in_prompt": "left out a seal: the target has no field for it in a prompt",
        "unreadable": "left out an invalid seal",
    },
    ChangeCode.THINKING: {
        "no_place": "left out the thinking of the model",
        "other_model_thinking": "left out the thinking of another model, and its ids",
    },
    ChangeCode.CALL_ID: {"replaced": "sent with the id {value}"},
    ChangeCode.TOOL_NAME: {"renamed": "sent with the name {value}"},
    ChangeCode.EXTRAS: {
        "conflicting": "left out extra fields that the request sets itself: {first_names}",
        "other_wire": "left out fields that only {value} has: {first_names}",
        "other_provider": "left out fields of another provider",
        "no_place_in_prompt": "left out fields that a prompt cannot have",
        "no_place_in_text": "left out fields that a text cannot have",
        "no_place_in_blocks": "left out fields that a block cannot have",
        "no_place_in_items": "left out fields that an item cannot have",
    },
    ChangeCode.OPAQUE: {
        "other_wire": _sentence_of_opaque,
        "other_provider_part": partial(
            _sentence_of_part, "a part", "only another provider understands"
        ),
        "other_provider_item": partial(
            _sentence_of_part, "an item", "only another provider understands"
        ),
        "in_parts": partial(
            _sentence_of_part, "a block", "arrived in parts that steno cannot combine"
        ),
        "no_place_in_message": partial(_sentence_of_part, "a block", "a message cannot have"),
        "not_json": partial(_sentence_of_part, "a block", "is damaged: its content is not JSON"),
    },
    ChangeCode.IMAGE: {
        "from_model": "left out an image of the model",
        "bytes_missing": "left out an image whose bytes are missing",
        "bytes_required": "left out an image whose bytes are missing",
        "type_not_supported": "left out an image: the target accepts JPEG, PNG, GIF and WebP",
        "not_fetched": "left out an image: the server does not fetch URLs",
        "text_only": "left out an image: the target accepts only text",
        "moved_to_user_message": "moved into a user message after the result",
    },
    ChangeCode.REFERENCE: {
        "resource_description": (
            "sent the address, type and size of the resource {target}, not its bytes"
        ),
        "resource_address": "sent the address of the resource {target}, not its content",
        "file_name": "sent the name of the file {target}, not its content",
    },
    ChangeCode.OUTCOME: {
        "not_sent": "the outcome of the call ({value}) is not sent",
        "sent_as_error": "the outcome of the call ({value}) is sent as an error",
    },
    ChangeCode.INVALID_CALL: {
        "raw_text_as_only_argument": partial(_sentence_of_invalid_call, "its only argument"),
        "raw_text_as_argument": partial(_sentence_of_invalid_call, "an argument"),
    },
    ChangeCode.SYSTEM: {"sent_as_user": "sent as text of the user"},
    ChangeCode.ORDER: {
        "merged": "merged with the message before it",
        "calls_after_text": "moved the calls after the text",
        "texts_joined": "joined several texts into one",
        "parts_reordered": "moved images before the text, and calls after it",
        "empty_turn": "left out an empty turn",
        "trailing_thinking": "left out thinking at the end of an incomplete response",
        "taken_for_earlier_result": (
            "sent without an id: the target matches it to an earlier call of {value}"
        ),
    },
    ChangeCode.BLANK: {
        "empty_text": "left out an empty text",
        "blank_text": "left out text that is only white space",
        "empty_message": "left out an empty message",
        "trailing_blanks": "left out white space at the end",
    },
    ChangeCode.TOOL: {
        "other_wire": "left out tools that only {value} has",
        "schema_not_enforced": "the server does not enforce the schema",
        "keywords_ignored": "the server ignores {names}",
        "sent_as_function_call": "sent as a function call",
        "model_without_tools": "left out: this model does not accept tools",
        "calls_left_out": "left out the calls; the model sees their results",
    },
    ChangeCode.SETTING: {
        "temperature_lowered": "lowered to {value}, the maximum",
        "max_tokens_lowered": "lowered to {number}, the maximum for models of {value}",
        "forced_call_with_thinking": (
            "sent, although the provider rejects forced calls while thinking is enabled"
        ),
        "tool_choice_left_out": "left out the tool choice: the server lets the model choose",
        "stop_left_out": "left out the stop sequences",
    },
    ChangeCode.COMPACTED: {"summary": "a summary replaces the earlier messages"},
    ChangeCode.CLEARED: {
        "earlier_messages": "the context was cleared; earlier messages are not sent"
    },
    ChangeCode.SHORTENED: {
        "old_result": "the middle of an old tool result is left out to save room",
        "resource": (
            "block {number} ({target}): the middle of the resource is left out to save room"
        ),
    },
    ChangeCode.LEFT_OUT: {"oldest_messages": "left out to save room: the oldest {messages}"},
    ChangeCode.RESOLVED: {
        "content_shown": "block {number} ({target}): the content of the reference is sent"
    },
    ChangeCode.UNRESOLVED: {
        "name_shown": "block {number} ({target}): the reference is not resolved; only its name is sent"
    },
    ChangeCode.UNREADABLE: {
        "error_shown": (
            "block {number} ({target}): the reference could not be read; the error is sent instead"
        )
    },
    ChangeCode.IMAGE_LEFT_OUT: {
        "model_without_vision": (
            "block {number} ({target}): the model does not accept images; a note is sent instead"
        )
    },
    ChangeCode.REPAIRED: {
        OrderCode.SYSTEM_MISSING: "added a system message",
        OrderCode.SYSTEM_NOT_FIRST: "moved an instruction to the first message",
        OrderCode.NOT_ALTERNATING: "merged a message with the one before it",
        OrderCode.TURN_EMPTY: "left out an empty turn",
        OrderCode.CALL_ID_REPEATED: "gave a call another id, because an earlier call has its id",
        OrderCode.CALL_ID_REUSED: "gave a call another id, because an earlier turn used its id",
        OrderCode.CALL_UNANSWERED: "added a note in place of the result of a call, which is missing",
        OrderCode.RESULT_ORPHANED: "left out a tool result that answers no call",
        OrderCode.RESULT_REPEATED: "left out the second result of a call",
        OrderCode.RESULT_EARLY: "moved a result after its call",
        OrderCode.RESULT_LATE: "moved a result up to its call",
        OrderCode.RESULTS_REORDERED: "put the results in the order of their calls",
    },
    ChangeCode.RESOURCE_LEFT_OUT: {"to_save_room": explain_repair},
    ChangeCode.TOOLS_LEFT_OUT: {
        "model_without_tools": "the model does not accept tools: {number} definitions are left out"
    },
    ChangeCode.FEEDBACK: {
        "sent_as_user_message": "the feedback on an earlier message is sent as a user message"
    },
    ChangeCode.MODE: {"in_system_message": "the system message explains {value} mode"},
    ChangeCode.REDACTED: {"taken_out": "{value}: redacted"},
    ChangeCode.UNKNOWN: {"not_understood": _sentence_of_unknown_entry},
    ChangeCode.IGNORED: {
        "summary_of_other_branch": "ignored: a summary of entries that are not in the context",
        "resolution_of_other_branch": "ignored: a resolution for an entry that is not in the context",
    },
    ChangeCode.NOT_EXPORTED: {
        "fields": "{fields}",
        "exact_form": "the exact form of the entry",
        "ids_and_digests": "ids and digests",
        "ids_and_times": "ids and times",
        "ids_and_prompt_time": "ids, and the time of the system prompt",
        "header_fields": "{names} (--format jsonl exports it)",
        "blobs": "the bytes of {blobs}",
        "blob_missing": "the bytes of an image or a long result are missing from the store",
        "only_active_branch": "only the active branch is in the file",
        "only_this_branch": "only this branch is in the file",
    },
}
"""The sentences by code and reason."""

_WHOLE_SENTENCES: Final = frozenset({"blob_missing", "only_active_branch", "only_this_branch"})
"""Reasons of `NOT_EXPORTED` whose text is a sentence; the other texts name the omitted content."""


# -- shown changes -------------------------------------------------------------------------------

_IGNORED_BY_SERVER: Final = frozenset(
    {
        ChangeCode.SEAL,
        ChangeCode.THINKING,
        ChangeCode.EXTRAS,
        ChangeCode.TOOL,
        ChangeCode.SETTING,
    }
)

_ADAPTED: Final = frozenset(
    {
        ChangeCode.CALL_ID,
        ChangeCode.TOOL_NAME,
        ChangeCode.OUTCOME,
        ChangeCode.SYSTEM,
        ChangeCode.ORDER,
        ChangeCode.BLANK,
    }
)
"""Changes of the form in which content is sent; the content itself is complete."""

_REQUESTED: Final = frozenset(
    {ChangeCode.MODE, ChangeCode.COMPACTED, ChangeCode.CLEARED, ChangeCode.TOOLS_LEFT_OUT}
)
"""Changes that the user requested, or already saw when choosing the model."""


def notice_text(change: Change) -> str | None:
    """Return the text of a change for the user; None if the user does not need to see it."""
    if is_ignored_by_server(change) or change.code in _ADAPTED | _REQUESTED:
        return None
    return describe_change(change)


def is_ignored_by_server(change: Change) -> bool:
    """Return whether a change is counted among the fields that the server ignores."""
    return change.code in _IGNORED_BY_SERVER


def summarize_ignored(counts: Mapping[str, int]) -> str:
    """Return a line about the fields that the server ignores.

    `counts` maps a member of the request to the number of ignored fields in it.
    """
    count = format_count(sum(counts.values()), "field", "fields")
    return f"the server ignores {count} of this request ({', '.join(counts)})"
