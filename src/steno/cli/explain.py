"""`steno explain`: what a model would see of a session, and what it would see otherwise than it is."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.aside import bring_back
from steno.cli.choosing import FLAG, naming
from steno.cli.commands import Commands, Misused, add_store_option, count
from steno.cli.knowing import target_of, unheard_of
from steno.cli.log import Log
from steno.cli.looking import load_settings_to_look
from steno.cli.paper import Paper, note, print_object
from steno.cli.place import existing_store, find_session
from steno.cli.settings import Settings
from steno.cli.words import SPEAKERS, passages_of
from steno.codec import encode_message
from steno.context import Built, Change, ContextBuilder, Target, counter_for
from steno.entry import Entry
from steno.errors import Damaged, InvalidValue, Missing, StenoError
from steno.message import Message
from steno.printable import counted, cut, on_one_line
from steno.providers import CATALOG, Vendor
from steno.providers.endpoint import new_encoder
from steno.providers.finding import ModelName, find_model, parse_model_name
from steno.providers.looking import EMBEDDED, OFFLINE
from steno.request import Request
from steno.store import Store
from steno.views import model_of
from steno.wire import Loss, load_wire

_WIDTH: Final = 100
"""How much of a message is shown on its line, where no terminal says how much room there is."""
_INDENT: Final = "    "
_PLACE: Final = re.compile(r"messages\[(\d+)\]\.?")


class _Seer(NamedTuple):
    """Who is to see the session; without a vendor there are no words but ours."""

    name: str
    model_id: str = ""
    vendor_name: str = ""
    """The name of the vendor, "embedded" or "offline"."""
    vendor: Vendor | None = None


class _View(NamedTuple):
    """What there is to be told."""

    log: Log
    branch: str
    viewer: _Seer
    built: Built
    losses: tuple[Loss, ...]


def add_commands(commands: Commands) -> None:
    """Add the command to the command line."""
    explain = commands.add_parser(
        "explain",
        help="show what a model would see of a session",
        description="Show the messages that a model would get to see of a branch, and report what "
        "it would see otherwise than it is on record: repairs, summaries, what was left out or "
        "shortened, and what the protocol of its vendor has no words for. Tools are not counted, "
        "and nothing is sent.",
        epilog="example: steno explain last --model anthropic/claude-sonnet-4-5",
    )
    explain.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    explain.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="who would see it; else the model on record. `steno models` lists them",
    )
    explain.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    explain.add_argument(
        "--context-tokens",
        type=count,
        metavar="N",
        help="as if the model could read no more than so many tokens",
    )
    explain.add_argument("--full", action="store_true", help="print messages in full")
    explain.add_argument("--json", action="store_true", help="print one JSON object")
    add_store_option(explain)
    explain.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    settings = load_settings_to_look().settings
    vendors = settings.providers
    asked = None if options.model is None else _asked_for(options.model, vendors)
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
        path = log.path(options.branch)
        seer = asked or _on_record(path, vendors)
        built = ContextBuilder(count=counter_for(seer.model_id)).build(
            path,
            _target(seer, settings, options.context_tokens),
            bring_back=partial(_whole, store),
        )
    branch = log.active if options.branch is None else options.branch
    view = _View(log, branch, seer, built, _losses(seer, built.request))
    if options.json:
        print_object(msgspec.json.encode(_described(view)))
    else:
        _print(Paper(), view, is_full=options.full)
    return 0


def seen_otherwise(
    store: Store, log: Log, name: str, *, vendors: Mapping[str, Vendor], target: Target
) -> list[str]:
    """Return what a model would see of the active branch otherwise than it is on record, in words.

    Raises InvalidRequest if there is nothing that could be sent.
    """
    seer = _seer(name, parse_model_name(name, vendors), vendors)
    built = ContextBuilder(count=counter_for(seer.model_id)).build(
        log.path(), target, bring_back=partial(_whole, store)
    )
    view = _View(log, log.active, seer, built, _losses(seer, built.request))
    over = ["this is more than the model can read"] if built.is_over_budget else []
    return [*_differences(view), *over]


# -- who sees it -----------------------------------------------------------------------------


def _asked_for(name: str, vendors: Mapping[str, Vendor]) -> _Seer:
    """Return the model that was asked for. Raises Misused."""
    with naming(name, FLAG):
        found = parse_model_name(name, vendors)
    if found.vendor in vendors and not found.model:
        raise Misused(f"--model: name a model, too: {found.vendor}/MODEL")
    return _seer(name, found, vendors)


def _on_record(path: list[Entry], vendors: Mapping[str, Vendor]) -> _Seer:
    """Return the model that answers on a branch, as far as that is known."""
    name = model_of(path) or ""
    with suppress(InvalidValue):
        return _seer(name, parse_model_name(name, vendors), vendors)
    if name:
        note("the model on record is of no provider that is known here; --model names another")
    return _Seer(name, name)


def _seer(name: str, found: ModelName, vendors: Mapping[str, Vendor]) -> _Seer:
    # What is embedded is spoken to like a server of llama.cpp; the offline assistant has no wire.
    vendor = CATALOG["llama.cpp"] if found.vendor == EMBEDDED else vendors.get(found.vendor)
    return _Seer(name, found.model, found.vendor, vendor)


def _target(seer: _Seer, settings: Settings, context_tokens: int | None) -> Target:
    """Return what a run would ask for; no server is asked what its model can.

    Nor is the file of a model opened: a record may be a stranger's, and name any path.
    """
    name, said = seer.name, unheard_of(seer.model_id)
    if seer.vendor_name == OFFLINE or (seer.vendor_name == EMBEDDED and not seer.model_id):
        with suppress(StenoError):  # it is not installed any more, or damaged
            found = asyncio.run(find_model(name))
            name, said = found.name, found.known or said
    target = target_of(name, seer.vendor_name, said, settings)
    return target if context_tokens is None else replace(target, context_tokens=context_tokens)


def _losses(seer: _Seer, request: Request) -> tuple[Loss, ...]:
    """Return what the vendor's protocol has no words for."""
    if seer.vendor is None:
        return ()
    encoder = new_encoder(seer.vendor, load_wire(seer.vendor.wire))
    return encoder.encode(request, stream=True).losses


def _whole(store: Store, message: Message) -> Message:
    """Return a message with what lies beside it, if that can be had."""
    with suppress(Missing, Damaged):
        return bring_back(message, store.blob)
    return message


# -- for people ------------------------------------------------------------------------------


def _print(paper: Paper, view: _View, *, is_full: bool) -> None:
    built = view.built
    who = on_one_line(view.viewer.name) or "any model"
    session, branch = on_one_line(view.log.header.id), on_one_line(view.branch)
    paper.line(("session ", "dim"), session, (f", branch {branch}, as seen by ", "dim"), who)
    messages = counted(len(built.request.messages), "message", "messages")
    paper.line((f"{messages}, about {built.tokens:,} tokens", "dim"))
    if not is_full:
        paper.line()
    for message, source in zip(built.request.messages, built.sources, strict=True):
        _print_message(paper, message, _number(view.log, source), is_full=is_full)
    paper.line()
    for line in _differences(view) or ["nothing is seen otherwise than it is on record"]:
        paper.line(line)
    if built.is_over_budget:
        paper.line(("this is more than the model can read", "bold red"))


def _print_message(paper: Paper, message: Message, number: str, *, is_full: bool) -> None:
    kind = str(message.__struct_config__.tag)
    name = [(f"{number} ", "dim"), (kind, SPEAKERS[kind])]
    if is_full:
        paper.line()
        paper.line(*name)
        for passage in passages_of(message):
            for line in passage.text.rstrip("\n").split("\n"):
                paper.line(_INDENT, (line, passage.style)) if line else paper.line()
        return
    text = " ".join([on_one_line(passage.text) for passage in passages_of(message)])
    room = (paper.width or _WIDTH) - len(number) - len(kind) - 3
    paper.line(*name, f"  {cut(text, max(room, 1))}")


def _differences(view: _View) -> list[str]:
    lines = [_change_in_words(change, view.log) for change in view.built.changes]
    return lines + [_loss_in_words(loss, view) for loss in view.losses]


def _change_in_words(change: Change, log: Log) -> str:
    place = "" if change.entry is None else f"{_number(log, change.entry)}: "
    return f"{place}{on_one_line(str(change))}"


def _loss_in_words(loss: Loss, view: _View) -> str:
    found = _PLACE.match(loss.place)
    if found is None:
        return on_one_line(str(loss))
    number = _number(view.log, view.built.sources[int(found[1])])
    place = " ".join(filter(None, [number, loss.place[found.end() :]]))
    return on_one_line(f"{place}: {loss.done} ({loss.code})")


def _number(log: Log, entry_id: str | None) -> str:
    """Return how an entry is called; a plus for what stands in none."""
    return "+" if entry_id is None else log.number(entry_id)


# -- for programs ----------------------------------------------------------------------------


def _described(view: _View) -> dict[str, Any]:
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
                "explanation": change.explanation,
            }
            for change in built.changes
        ],
        "losses": [
            {"code": loss.code, "place": loss.place, "done": loss.done} for loss in view.losses
        ],
    }
