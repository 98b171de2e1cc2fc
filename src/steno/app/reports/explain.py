"""`steno explain`: what a model would see of a session, and what it would see otherwise than it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.app.errors import UsageError
from steno.app.model_limits import build_target, unknown_model
from steno.app.select_model import MODEL_FLAG, name_model_in_errors
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

_MESSAGE_PLACE: Final = re.compile(r"messages\[(\d+)\]\.?")


class ViewingModel(NamedTuple):
    """Who is to see the session; without a vendor there are no words but ours."""

    name: str
    model_id: str = ""
    vendor_name: str = ""
    """The name of the vendor, "embedded" or "offline"."""
    vendor: Vendor | None = None


class ContextExplanation(NamedTuple):
    """What there is to be told."""

    log: SessionLog
    branch: str
    viewer: ViewingModel
    built: BuiltRequest
    losses: tuple[Change, ...]


def list_context_changes(
    store: Store, log: SessionLog, name: str, *, vendors: Mapping[str, Vendor], target: ModelTarget
) -> list[str]:
    """Return what a model would see of the active branch otherwise than it is on record, in words.

    Raises InvalidRequest if there is nothing that could be sent.
    """
    seer = _build_viewing_model(name, parse_model_name(name, vendors), vendors)
    built = ContextBuilder(count=token_counter_for(seer.model_id)).build(
        log.path(), target, restore_blobs=partial(restore_message, store)
    )
    view = ContextExplanation(log, log.active, seer, built, encoding_losses(seer, built.request))
    over = ["this is more than the model can read"] if built.is_over_budget else []
    return [*describe_differences(view), *over]


# -- who sees it -----------------------------------------------------------------------------


def parse_viewing_model(name: str, vendors: Mapping[str, Vendor]) -> ViewingModel:
    """Return the model that was asked for. Raises Misused."""
    with name_model_in_errors(name, MODEL_FLAG):
        found = parse_model_name(name, vendors)
    if found.vendor in vendors and not found.model:
        raise UsageError(
            f"name a model, too: {found.vendor}/MODEL", code="model_name_missing", place="--model"
        )
    return _build_viewing_model(name, found, vendors)


def recorded_viewing_model(path: list[Entry], vendors: Mapping[str, Vendor]) -> ViewingModel:
    """Return the model that answers on a branch, as far as that is known."""
    name = current_model(path) or ""
    with suppress(InvalidValue):
        return _build_viewing_model(name, parse_model_name(name, vendors), vendors)
    if name:
        print_notice(
            "the model on record is of no provider that is known here; --model names another"
        )
    return ViewingModel(name, name)


def _build_viewing_model(
    name: str, found: ModelName, vendors: Mapping[str, Vendor]
) -> ViewingModel:
    # What is embedded is spoken to like a server of llama.cpp; the offline assistant has no wire.
    vendor = CATALOG["llama.cpp"] if found.vendor == EMBEDDED else vendors.get(found.vendor)
    return ViewingModel(name, found.model, found.vendor, vendor)


def viewing_target(
    seer: ViewingModel, settings: Settings, context_tokens: int | None
) -> ModelTarget:
    """Return what a run would ask for; no server is asked what its model can.

    Nor is the file of a model opened: a record may be a stranger's, and name any path.
    """
    name, said = seer.name, unknown_model(seer.model_id)
    if seer.vendor_name == OFFLINE or (seer.vendor_name == EMBEDDED and not seer.model_id):
        with suppress(StenoError):  # it is not installed any more, or damaged
            found = asyncio.run(find_model(name))
            name, said = found.name, found.known or said
    target = build_target(name, seer.vendor_name, said, settings)
    return target if context_tokens is None else replace(target, context_tokens=context_tokens)


def encoding_losses(seer: ViewingModel, request: Request) -> tuple[Change, ...]:
    """Return what the vendor's protocol has no words for."""
    if seer.vendor is None:
        return ()
    encoder = build_encoder(seer.vendor, load_wire(seer.vendor.wire))
    return encoder.encode(request, stream=True).losses


def restore_message(store: Store, message: Message) -> Message:
    """Return a message with what lies beside it, if that can be had."""
    with suppress(Missing, Damaged):
        return restore_blobs(message, store.blob)
    return message


def describe_differences(view: ContextExplanation) -> list[str]:
    """Return a line for each change and loss between the record and the request."""
    lines = [_describe_change(change, view.log) for change in view.built.changes]
    return lines + [_describe_loss(loss, view) for loss in view.losses]


def _describe_change(change: Change, log: SessionLog) -> str:
    place = "" if change.entry is None else f"{entry_number(log, change.entry)}: "
    return f"{place}{terminal_line(format_change(change))}"


def _describe_loss(loss: Change, view: ContextExplanation) -> str:
    found = _MESSAGE_PLACE.match(loss.place)
    if found is None:
        return terminal_line(format_change(loss))
    number = entry_number(view.log, view.built.sources[int(found[1])])
    place = " ".join(filter(None, [number, loss.place[found.end() :]]))
    return terminal_line(f"{place}: {describe_change(loss)} ({loss.code})")


def entry_number(log: SessionLog, entry_id: str | None) -> str:
    """Return how an entry is called; a plus for what stands in none."""
    return "+" if entry_id is None else log.number(entry_id)


# -- for programs ----------------------------------------------------------------------------


def explanation_as_json(view: ContextExplanation) -> dict[str, Any]:
    """Return an explanation of a context, as JSON."""
    built, numbers = view.built, view.log.numbers
    return {
        "session": view.log.header.id,
        "branch": view.branch,
        "model": view.viewer.name or None,
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
            for loss in view.losses
        ],
    }
