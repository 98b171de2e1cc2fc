"""`steno explain`: the context that a model would receive, and how it differs from the log."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.app.commands.arguments import BRANCH, SESSION, UsageError, argument, flag, positive_int
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Lines, Report, ReportLine
from steno.app.models import MODEL_FLAG, build_target, name_model_in_errors, unknown_model
from steno.app.session_log import SessionLog
from steno.app.settings import Settings, load_settings_leniently
from steno.codec import encode_message
from steno.context import BuiltRequest, ContextBuilder, ModelTarget, token_counter_for
from steno.errors import Damaged, InvalidValue, Missing, StenoError
from steno.log.blobs import restore_blobs
from steno.log.queries import current_model
from steno.messages.change import Change
from steno.messages.message import Message
from steno.providers import CATALOG, Vendor
from steno.providers.endpoint import build_encoder
from steno.providers.model_discovery import EMBEDDED, OFFLINE, find_model, parse_model_name
from steno.records.entry import Entry, Payload
from steno.render.changes import describe_change, format_change
from steno.render.describe import payload_type
from steno.render.message_text import ROLE_STYLES, message_paragraphs
from steno.render.quantities import format_count
from steno.render.table_output import INDENT
from steno.render.terminal_text import terminal_line
from steno.store import Store
from steno.wire import load_wire

_DEFAULT_WIDTH: Final = 100
"""The width of a line without a terminal."""
_OVER_BUDGET: Final = "the context does not fit the context window of the model"


class _ContextModel(NamedTuple):
    """The model that the context is built for; its protocol is unknown if `vendor` is None."""

    name: str
    model_id: str = ""
    vendor_name: str = ""
    """The name of the vendor, "embedded" or "offline"."""
    vendor: Vendor | None = None


class _ContextExplanation(NamedTuple):
    """The context of a branch for a model, and the losses of its encoding for the provider."""

    log: SessionLog
    branch: str
    model: _ContextModel
    built: BuiltRequest
    losses: tuple[Change, ...]


def list_context_changes(
    store: Store, log: SessionLog, name: str, *, vendors: Mapping[str, Vendor], target: ModelTarget
) -> list[str]:
    """Return a line for each difference between the context of a model and the log.

    Raises InvalidRequest if the context is empty.
    """
    model = _build_context_model(name, vendors)
    explanation = _explain_context(store, log, log.active, model, target)
    over_budget = [_OVER_BUDGET] if explanation.built.is_over_budget else []
    return [*_describe_differences(explanation), *over_budget]


def _explain_context(
    store: Store, log: SessionLog, branch: str, model: _ContextModel, target: ModelTarget
) -> _ContextExplanation:
    builder = ContextBuilder(count_tokens=token_counter_for(model.model_id))
    built = builder.build(log.path(branch), target, restore_blobs=partial(_restore_payload, store))
    losses: tuple[Change, ...] = ()
    if model.vendor is not None:
        encoder = build_encoder(model.vendor, load_wire(model.vendor.wire))
        losses = encoder.encode(built.request, stream=True).losses
    return _ContextExplanation(log, branch, model, built, losses)


def _restore_payload(store: Store, payload: Payload) -> Payload:
    """Return a payload with the content of its blobs, if that can be read."""
    with suppress(Missing, Damaged):
        return restore_blobs(payload, store.blob)
    return payload


_ARGUMENTS: Final = (
    SESSION,
    argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="build the context for this model (default: the recorded one); see `steno models`",
    ),
    BRANCH,
    argument(
        "--context-tokens",
        type=positive_int,
        metavar="N",
        help="assume a context window of N tokens",
    ),
    flag("--full", help="print messages in full"),
    flag("--json", help="print one JSON object"),
)


def _run_explain(context: CommandContext, options: argparse.Namespace) -> Report:
    settings = load_settings_leniently(context.notify).settings
    vendors = settings.providers
    named = None if options.model is None else _parse_context_model(options.model, vendors)
    with context.open_store() as store:
        session = context.find_session(store, options.session)
        log = SessionLog.read(store, session, context.show_progress)
        branch = log.active if options.branch is None else options.branch
        model = named or _recorded_context_model(log.path(branch), vendors, context.notify)
        target = _context_target(model, settings, options.context_tokens)
        explanation = _explain_context(store, log, branch, model, target)
    if options.json:
        return Report(data=[_explanation_as_json(explanation)])
    return Report([Lines(list(_explanation_lines(explanation, is_full=options.full)))])


COMMAND: CommandDefinition = CommandDefinition(
    _run_explain,
    _ARGUMENTS,
    help="show the context that a model would receive",
    description="Show the messages of a branch as a model would receive them, and how they differ "
    "from the log: repairs, summaries, omitted or shortened content, and content that the "
    "provider's protocol cannot express. Token counts do not include tool definitions. No request "
    "is sent.",
    epilog="example:\n  steno explain last --model anthropic/claude-sonnet-4-5",
    reads_store=True,
)


# -- lines -----------------------------------------------------------------------------------


def _explanation_lines(explanation: _ContextExplanation, *, is_full: bool) -> Iterator[ReportLine]:
    built, log = explanation.built, explanation.log
    model = terminal_line(explanation.model.name) or "any model"
    session, branch = terminal_line(log.header.id), terminal_line(explanation.branch)
    yield ReportLine(
        [("session ", "dim"), session, (f", branch {branch}, context for ", "dim"), model]
    )
    messages = format_count(len(built.request.messages), "message", "messages")
    yield ReportLine([(f"{messages}, about {built.tokens:,} tokens", "dim")])
    if not is_full:
        yield ReportLine([])
    for message, source in zip(built.request.messages, built.sources, strict=True):
        yield from _message_lines(message, _entry_number(log, source), is_full=is_full)
    yield ReportLine([])
    differences = _describe_differences(explanation)
    for line in differences or ["the context is the same as the log"]:
        yield ReportLine([line])
    if built.is_over_budget:
        yield ReportLine([(_OVER_BUDGET, "bold red")])


def _message_lines(message: Message, number: str, *, is_full: bool) -> Iterator[ReportLine]:
    role = payload_type(message)
    heading = [(f"{number} ", "dim"), (role, ROLE_STYLES[role])]
    paragraphs = message_paragraphs(message)
    if not is_full:
        text = " ".join([terminal_line(paragraph.text) for paragraph in paragraphs])
        yield ReportLine([*heading, f"  {text}"], is_cut=True, max_width=_DEFAULT_WIDTH)
        return
    yield ReportLine([])
    yield ReportLine(heading)
    for paragraph in paragraphs:
        for line in paragraph.text.rstrip("\n").split("\n"):
            yield ReportLine([INDENT, (line, paragraph.style)] if line else [])


# -- the model -------------------------------------------------------------------------------


def _parse_context_model(name: str, vendors: Mapping[str, Vendor]) -> _ContextModel:
    """Return the model that an option names. Raises UsageError if the name is invalid."""
    with name_model_in_errors(name, MODEL_FLAG):
        model = _build_context_model(name, vendors)
    if model.vendor_name in vendors and not model.model_id:
        text = f"must name a model, too: {model.vendor_name}/MODEL"
        raise UsageError(text, code="model_name_missing", place="--model")
    return model


def _recorded_context_model(
    path: list[Entry], vendors: Mapping[str, Vendor], notify: Callable[[str], object]
) -> _ContextModel:
    """Return the model in use at the end of a branch.

    If its provider is unknown, the result contains only the name of the model, and `notify`
    receives a notice. If no model is recorded, the name is empty.
    """
    name = current_model(path) or ""
    with suppress(InvalidValue):
        return _build_context_model(name, vendors)
    if name:
        notify("the recorded model belongs to an unknown provider; choose another with --model")
    return _ContextModel(name, name)


def _build_context_model(name: str, vendors: Mapping[str, Vendor]) -> _ContextModel:
    found = parse_model_name(name, vendors)
    # The embedded model has the protocol of a llama.cpp server; the offline assistant has none.
    vendor = CATALOG["llama.cpp"] if found.vendor == EMBEDDED else vendors.get(found.vendor)
    return _ContextModel(name, found.model, found.vendor, vendor)


def _context_target(
    model: _ContextModel, settings: Settings, context_tokens: int | None
) -> ModelTarget:
    """Return the target of requests to a model, without sending a request to a server.

    No model file is opened either, because an imported log may name any path.
    """
    name, reported = model.name, unknown_model(model.model_id)
    if model.vendor_name == OFFLINE or (model.vendor_name == EMBEDDED and not model.model_id):
        with suppress(StenoError):  # it may be uninstalled, or damaged
            found = asyncio.run(find_model(name))
            name, reported = found.name, found.known or reported
    target = build_target(name, model.vendor_name, reported, settings)
    return target if context_tokens is None else replace(target, context_tokens=context_tokens)


def _describe_differences(explanation: _ContextExplanation) -> list[str]:
    """Return a line for each difference between the log and the request."""
    lines: list[str] = []
    for change in explanation.built.changes:
        place = "" if change.entry is None else f"{_entry_number(explanation.log, change.entry)}: "
        lines.append(f"{place}{terminal_line(format_change(change))}")
    return lines + [_describe_loss(loss, explanation) for loss in explanation.losses]


def _describe_loss(change: Change, explanation: _ContextExplanation) -> str:
    member, position, rest = change.place_parts
    if member != "messages" or position is None:
        return terminal_line(format_change(change))
    number = _entry_number(explanation.log, explanation.built.sources[position])
    place = " ".join(filter(None, [number, rest]))
    return terminal_line(f"{place}: {describe_change(change)} ({change.code})")


def _entry_number(log: SessionLog, entry_id: str | None) -> str:
    """Return the number of an entry, or "+" for a message that has no entry."""
    return "+" if entry_id is None else log.number(entry_id)


# -- JSON ------------------------------------------------------------------------------------


def _explanation_as_json(explanation: _ContextExplanation) -> dict[str, Any]:
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
                "target": change.target or None,
                "explanation": describe_change(change),
            }
            for change in built.changes
        ],
        "losses": [
            {
                "code": loss.code,
                "place": loss.place,
                "target": loss.target or None,
                "explanation": describe_change(loss),
            }
            for loss in explanation.losses
        ],
    }
