"""`steno replay --model`: let another model work on what was said in a session, and compare."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from decimal import Decimal
from functools import cache
from typing import Any, Final

import msgspec

from steno.agent import Agent, AllowingApprover, Ending, Runner
from steno.agent.rerun import Comparison, Parting, Reuse, Side, rerun
from steno.cli.choosing import choose_model
from steno.cli.compose import equip
from steno.cli.configuration import Loaded, load_settings
from steno.cli.folders import working_folder
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import existing_store, find_session, telling_damage
from steno.cli.telling import About, Aside
from steno.errors import Missing
from steno.message import AssistantMessage
from steno.printable import counted, cut, on_one_line
from steno.providers.prices import price_of
from steno.record import free_name
from steno.store import Store

_STATUSES: Final = {Ending.FAILED: 1, Ending.LIMIT: 4, Ending.INTERRUPTED: 130}
_GIST: Final = 200
_FEW: Final = 60
_COLUMNS: Final = (
    Column("", "dim"),
    Column("recorded", may_shrink=True),
    Column("new", may_shrink=True),
)


def rerun_session(options: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit status."""
    flags = {name: getattr(options, name) for name in ("model", "allow", "deny")}
    loaded = load_settings(flags=flags)
    for text in () if options.quiet else loaded.notes:
        note(text)
    with existing_store(options) as store:
        session = find_session(store, options.session)
        with telling_damage(session):
            comparison = asyncio.run(_rerun(options, loaded, store, session))
    if options.json:
        print_object(msgspec.json.encode(_described(comparison), enc_hook=str))
    else:
        _print(comparison)
    stopped = comparison.stopped
    if stopped is None:
        return 0
    note(f"not everything was said: {stopped.ending}: {on_one_line(stopped.reason)}")
    return _STATUSES[stopped.ending]


async def _rerun(
    options: argparse.Namespace, loaded: Loaded, store: Store, session: str
) -> Comparison:
    folder = working_folder()
    conversation = store.open(session)
    if options.branch is not None and options.branch not in conversation.branches:
        known = ", ".join(map(on_one_line, conversation.branches))
        raise Missing(f"branch: there is none of this name, but {known}")
    aside = Aside(quiet=options.quiet)
    found = await choose_model(loaded)
    approver = AllowingApprover() if options.yes else None
    async with equip(loaded, found, folder, approver) as equipment:
        for text in () if options.quiet else equipment.notes:
            note(on_one_line(text))

        def make(reuse: Reuse) -> Agent:
            return equipment.agent_for(
                conversation,
                runner=reuse.wrap_runner(Runner(store)),
                gate=reuse.wrap_gate(equipment.gate),
            )

        wanted, taken = f"replay-{found.name}", conversation.branches
        name = free_name(wanted, taken, first=2) if wanted in taken else wanted
        aside.begin(About(session, name, found.name, str(conversation.mode), str(folder)))
        try:
            return await rerun(
                conversation,
                make,
                name=name,
                branch=options.branch,
                price_of=cache(price_of),
                watch=aside.on_event,
            )
        finally:
            aside.close()


# -- for programs ----------------------------------------------------------------------------


def _described(comparison: Comparison) -> dict[str, Any]:
    parting, stopped = comparison.parting, comparison.stopped
    return {
        "branch": comparison.branch,
        "recorded": _described_side(comparison.recorded),
        "new": _described_side(comparison.new),
        "difference": None
        if parting is None
        else {
            "turn": parting.turn,
            "recorded": _described_answer(parting.recorded),
            "new": _described_answer(parting.new),
        },
        "reused": comparison.reused,
        "stopped": None
        if stopped is None
        else {"ending": stopped.ending, "reason": stopped.reason},
    }


def _described_side(side: Side) -> dict[str, Any]:
    usage = side.usage
    return {
        **side._asdict(),
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "cost": None if side.cost is None else str(side.cost),
    }


def _described_answer(answer: AssistantMessage | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    calls = [{"name": call.name, "arguments": call.arguments} for call in answer.tool_calls]
    return {"text": answer.text, "calls": calls}


# -- for people ------------------------------------------------------------------------------


def _print(comparison: Comparison) -> None:
    paper = Paper()
    _print_parting(paper, comparison.parting)
    paper.line()
    sides = (comparison.recorded, comparison.new)
    rows = [
        ("model", [on_one_line(side.model) or "?" for side in sides]),
        ("turns", [f"{side.turns:,}" for side in sides]),
        ("calls", [f"{side.calls:,}" for side in sides]),
        ("tokens in", [_number(side.usage.input_tokens) for side in sides]),
        ("tokens out", [_number(side.usage.output_tokens) for side in sides]),
        ("cost", [_cost(side.cost) for side in sides]),
        ("ended", [_endings(side) for side in sides]),
        ("last words", [cut(on_one_line(side.text), _FEW) for side in sides]),
    ]
    paper.table(_COLUMNS, [(name, *cells) for name, cells in rows])
    paper.line()
    used = counted(comparison.reused, "result", "results")
    paper.line(f"{used} on record used again; branch ", (on_one_line(comparison.branch), "bold"))


def _print_parting(paper: Paper, parting: Parting | None) -> None:
    if parting is None:
        paper.line(("same", "bold green"), ": both gave the same answers")
        return
    paper.line(("different", "bold yellow"), f": turn {parting.turn} is the first")
    for name, answer in (("recorded", parting.recorded), ("new", parting.new)):
        paper.line((f"  {name:8}  ", "dim"), _answer(answer))


def _answer(answer: AssistantMessage | None) -> str:
    if answer is None:
        return "(no more)"
    calls = [f"→ {call.name} {call.arguments}" for call in answer.tool_calls]
    return cut(on_one_line(" ".join([answer.text or "", *calls])), _GIST) or "(nothing)"


def _number(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _cost(cost: Decimal | None) -> str:
    return "?" if cost is None else f"{cost:.4f}"


def _endings(side: Side) -> str:
    found = Counter(side.endings).items()
    return ", ".join([ending if n == 1 else f"{n} x {ending}" for ending, n in found]) or "?"
