"""`steno models`: which models can be used here, and why others cannot."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from steno.cli.commands import Commands, Misused
from steno.cli.configuration import load_settings
from steno.cli.knowing import all_as_used
from steno.cli.nearest import advice
from steno.cli.paper import Column, Paper, note, print_object
from steno.printable import on_one_line
from steno.providers.finding import model_name
from steno.providers.looking import (
    DEFAULT_PATIENCE,
    EMBEDDED,
    OFFLINE,
    Looked,
    look_around,
    look_embedded,
    look_offline,
    looking,
)
from steno.providers.models import Model
from steno.providers.vendor import Vendor

_FAILED: Final = 1
_MODELS: Final = (
    Column("model", "cyan", may_shrink=True),
    Column("context", is_number=True),
    Column("tools"),
    Column("vision"),
    Column("thinking"),
    Column("title", "dim", may_shrink=True),
)
_OTHERS: Final = (Column("provider", "cyan"), Column("why not", may_shrink=True))
_TRUTHS: Final = {True: "yes", False: "no", None: "?"}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    models = commands.add_parser(
        "models",
        help="list the models that can be used",
        description="Ask every provider that there is a key or a server for which models it has, "
        "and list them with what --model takes. '?' stands where nobody says. "
        "A server that is spoken to in several protocols is asked in the first of them; "
        "--provider takes the others too, such as openai-responses.",
        epilog="example: steno models --provider ollama",
    )
    models.add_argument("--provider", metavar="NAME", help="only those of one provider")
    models.add_argument(
        "--json", action="store_true", help="a line of JSON for each provider, usable or not"
    )
    models.set_defaults(run=_models)


def _models(options: argparse.Namespace) -> int:
    loaded = load_settings()
    found = asyncio.run(_look(options.provider, loaded.settings.providers))
    looked = [all_as_used(place, loaded.settings) for place in found]
    if options.json:
        for place in looked:
            print_object(msgspec.json.encode(_described(place)))
    else:
        _print(looked)
        if options.provider is None:
            _print_default(loaded.settings.model, looked)
    for text in loaded.notes:
        note(on_one_line(text))
    return 0 if any(place.is_usable for place in looked) else _FAILED


async def _look(wanted: str | None, vendors: Mapping[str, Vendor]) -> Sequence[Looked]:
    """Look everywhere, or at the one place that is wanted. Raises Misused."""
    if wanted is None:
        return await look_around(vendors, os.environ)
    if wanted == EMBEDDED:
        return (await look_embedded(),)
    if wanted == OFFLINE:
        return (await look_offline(),)
    vendor = vendors.get(wanted)
    if vendor is None:
        known = [*sorted(vendors), EMBEDDED, OFFLINE]
        raise Misused(f"--provider {on_one_line(wanted)}: there is none; {advice(wanted, known)}")
    async with looking(os.environ, DEFAULT_PATIENCE) as look:
        return (await look(vendor),)


# -- for people ------------------------------------------------------------------------------


def _print(looked: Sequence[Looked]) -> None:
    paper = Paper()
    usable = [place for place in looked if place.is_usable]
    others = [place for place in looked if not place.is_usable]
    if usable:
        paper.table(_MODELS, [_row(place, model) for place in usable for model in place.models])
    if usable and others:
        paper.line()
    if others:
        paper.table(
            _OTHERS, [[on_one_line(place.where), on_one_line(place.outcome)] for place in others]
        )


def _print_default(configured: str | None, looked: Iterable[Looked]) -> None:
    """Tell which model is taken where none is named; those who can be asked are in order."""
    first = next((place for place in looked if place.is_usable), None)
    found = "" if first is None else model_name(first.where, first.choice)
    paper = Paper()
    paper.line()
    paper.line(f"used without --model: {on_one_line(configured or found)}")


def _row(place: Looked, model: Model) -> list[str]:
    can = model.capabilities
    return [
        on_one_line(model_name(place.where, model.id)),
        "?" if model.context_tokens is None else f"{model.context_tokens:,}",
        _TRUTHS[can.tools],
        _TRUTHS[can.vision],
        _TRUTHS[can.thinking],
        on_one_line(model.title or ""),
    ]


# -- for programs ----------------------------------------------------------------------------


def _described(place: Looked) -> dict[str, Any]:
    return {
        "provider": place.where,
        "title": place.title,
        "usable": place.is_usable,
        "outcome": place.outcome,
        "default": model_name(place.where, place.choice) if place.is_usable else None,
        "models": [
            {
                "model": model_name(place.where, model.id),
                "id": model.id,
                "title": model.title,
                "context_tokens": model.context_tokens,
                "max_output_tokens": model.max_output_tokens,
                "capabilities": asdict(model.capabilities),
            }
            for model in place.models
        ],
    }
