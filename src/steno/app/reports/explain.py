"""The content of `steno explain`: the context of a model, and how it differs from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.app.errors import UsageError
from steno.app.models import MODEL_FLAG, build_target, name_model_in_errors, unknown_model
from steno.app.session_log import SessionLog
from steno.app.settings import Settings
from steno.codec import encode_message
from steno.context import BuiltRequest, ContextBuilder, ModelTarget, token_counter_for
from steno.errors import Damaged, InvalidValue, Missing, StenoError
from steno.log.blobs import restore_blobs
from steno.log.queries import current_model
from steno.messages.change import Change
from steno.messages.message import Message
from steno.messages.request import Request
from steno.providers import CATALOG, Vendor
from steno.providers.endpoint import build_encoder
from steno.providers.model_discovery import (
    EMBEDDED,
    OFFLINE,
    ModelName,
    find_model,
    parse_model_name,
)
from steno.records.entry import Entry
from steno.render.changes import describe_change, format_change
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line
from steno.store import Store
from steno.wire import load_wire


class ContextModel(NamedTuple):
    """The model that the context is built for; without a vendor there is no protocol."""

    name: str
    model_id: str = ""
    vendor_name: str = ""
    """The name of the vendor, "embedded" or "offline"."""
    vendor: Vendor | None = None


class ContextExplanation(NamedTuple):
    """The context of a branch for a model, with all changes."""

    log: SessionLog
    branch: str
    model: ContextModel
    built: BuiltRequest
    losses: tuple[Change, ...]


def list_context_changes(
    store: Store, log: SessionLog, name: str, *, vendors: Mapping[str, Vendor], target: ModelTarget
) -> list[str]:
    """Describe how the context of the active branch differs from the log, for a model.

    Raises InvalidRequest if there is no message to send.
    """
    model = _build_context_model(name, parse_model_name(name, vendors), vendors)
    built = ContextBuilder(count_tokens=token_counter_for(model.model_id)).build(
        log.path(), target, restore_blobs=partial(restore_message, store)
    )
    explanation = ContextExplanation(
        log, log.active, model, built, encoding_losses(model, built.request)
    )
    over_budget = ["this is more than the model can read"] if built.is_over_budget else []
    return [*describe_differences(explanation), *over_budget]


# -- the model -------------------------------------------------------------------------------


def parse_context_model(name: str, vendors: Mapping[str, Vendor]) -> ContextModel:
    """Return the model that an option names. Raises UsageError."""
    with name_model_in_errors(name, MODEL_FLAG):
        parsed = parse_model_name(name, vendors)
    if parsed.vendor in vendors and not parsed.model:
        raise UsageError(
            f"name a model, too: {parsed.vendor}/MODEL", code="model_name_missing", place="--model"
        )
    return _build_context_model(name, parsed, vendors)


def recorded_context_model(path: list[Entry], vendors: Mapping[str, Vendor]) -> ContextModel:
    """Return the model in force on a branch, as far as it is known."""
    name = current_model(path) or ""
    with suppress(InvalidValue):
        return _build_context_model(name, parse_model_name(name, vendors), vendors)
    if name:
        print_notice(
            "the model on record is of no provider that is known here; --model names another"
        )
    return ContextModel(name, name)


def _build_context_model(
    name: str, found: ModelName, vendors: Mapping[str, Vendor]
) -> ContextModel:
    # The embedded model has the protocol of a llama.cpp server; the offline assistant has none.
    vendor = CATALOG["llama.cpp"] if found.vendor == EMBEDDED else vendors.get(found.vendor)
    return ContextModel(name, found.model, found.vendor, vendor)


def context_target(
    model: ContextModel, settings: Settings, context_tokens: int | None
) -> ModelTarget:
    """Return the target of a run; no request is sent to a server.

    No file of a model is opened either: a log may come from another person, and name any path.
    """
    name, reported = model.name, unknown_model(model.model_id)
    if model.vendor_name == OFFLINE or (model.vendor_name == EMBEDDED and not model.model_id):
        with suppress(StenoError):  # it may be uninstalled, or damaged
            found = asyncio.run(find_model(name))
            name, reported = found.name, found.known or reported
    target = build_target(name, model.vendor_name, reported, settings)
    return target if context_tokens is None else replace(target, context_tokens=context_tokens)


def encoding_losses(model: ContextModel, request: Request) -> tuple[Change, ...]:
    """Return the changes that the protocol of the vendor makes necessary."""
    if model.vendor is None:
        return ()
    encoder = build_encoder(model.vendor, load_wire(model.vendor.wire))
    return encoder.encode(request, stream=True).losses


def restore_message(store: Store, message: Message) -> Message:
    """Return a message with the content of its blobs, if that can be read."""
    with suppress(Missing, Damaged):
        return restore_blobs(message, store.blob)
    return message


def describe_differences(explanation: ContextExplanation) -> list[str]:
    """Return a line for each difference between the log and the request."""
    lines = [_describe_change(change, explanation.log) for change in explanation.built.changes]
    return lines + [_describe_loss(loss, explanation) for loss in explanation.losses]


def _describe_change(change: Change, log: SessionLog) -> str:
    place = "" if change.entry is None else f"{entry_number(log, change.entry)}: "
    return f"{place}{terminal_line(format_change(change))}"


def _describe_loss(change: Change, explanation: ContextExplanation) -> str:
    member, position, rest = change.place_parts
    if member != "messages" or position is None:
        return terminal_line(format_change(change))
    number = entry_number(explanation.log, explanation.built.sources[position])
    place = " ".join(filter(None, [number, rest]))
    return terminal_line(f"{place}: {describe_change(change)} ({change.code})")


def entry_number(log: SessionLog, entry_id: str | None) -> str:
    """Return the number of an entry; a plus for a message that is in no entry."""
    return "+" if entry_id is None else log.number(entry_id)


# -- JSON ------------------------------------------------------------------------------------


def explanation_as_json(explanation: ContextExplanation) -> dict[str, Any]:
    """Return an explanation of a context, as JSON."""
    built, numbers = explanation.built, explanation.log.numbers
    return {
        "session": explanation.log.header.id,
        "branch": explanation.branch,
        "model": explanation.model.name or None,
        "tokens": built.tokens,
        "wants_compaction": built.wants_compaction,
        "is_over_budget": built.is_over_budget,
        "messages": [
            {
                "number": None if source is None else numbers[source],
                "entry": source,
                "message": msgspec.Raw(encode_message(message)),
            }
            for message, source in zip(built.request.messages, built.sources, strict=True)
        ],
        "changes": [
            {
                "code": change.code,
                "number": None if change.entry is None else numbers[change.entry],
                "entry": change.entry,
                "explanation": describe_change(change),
            }
            for change in built.changes
        ],
        "losses": [
            {"code": loss.code, "place": loss.place, "done": describe_change(loss)}
            for loss in explanation.losses
        ],
    }
