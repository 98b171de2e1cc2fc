"""`steno models`: the usable models, and why other providers cannot be used."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

from msgspec.structs import asdict

from steno.app.commands.arguments import argument, flag
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, Table
from steno.app.models import find_models, usable_models
from steno.app.settings import load_settings
from steno.providers.model_discovery import DiscoveryResult, format_model_name
from steno.providers.models import Model
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line

_MODEL_COLUMNS: Final = (
    Column("model", "cyan", may_shrink=True),
    Column("context", is_number=True),
    Column("tools"),
    Column("vision"),
    Column("thinking"),
    Column("title", "dim", may_shrink=True),
)
_UNUSABLE_COLUMNS: Final = (Column("provider", "cyan"), Column("reason", may_shrink=True))
_YES_NO: Final = {True: "yes", False: "no", None: "?"}


_ARGUMENTS: Final = (
    argument("--provider", metavar="NAME", help="list only the models of this provider"),
    flag("--json", help="print one JSON object per provider, usable or not"),
)


def _run_models(context: CommandContext, options: argparse.Namespace) -> Report:
    loaded = load_settings()
    results = asyncio.run(find_models(loaded.settings, options.provider))
    usable = [result for result in results if result.is_usable]
    others = [result for result in results if not result.is_usable]
    tables: list[Table] = []
    if usable:
        rows = [_model_row(name, model) for name, model in usable_models(usable)]
        tables.append(Table(_MODEL_COLUMNS, rows))
    if others:
        rows = [[terminal_line(result.where), terminal_line(result.outcome)] for result in others]
        tables.append(Table(_UNUSABLE_COLUMNS, rows))
    if options.provider is None:  # the first one that can be reached
        default = format_model_name(usable[0].where, usable[0].choice) if usable else ""
        used = terminal_line(loaded.settings.model or default)
        tables[-1] = tables[-1]._replace(note=f"default without --model: {used}")
    return Report(
        title="Models",
        parts=tables,
        notices=tuple([terminal_line(notice.text) for notice in loaded.notices]),
        data=map(_provider_as_json, results),
        is_failed=not usable,
    )


COMMAND: CommandDefinition = CommandDefinition(
    _run_models,
    _ARGUMENTS,
    help="list the usable models",
    description="List the models of every provider that has a key or a running server, by the "
    "names that --model accepts. '?' marks a value that the provider does not report. A server "
    "that supports several protocols is listed once, under its default provider; to list its "
    "models for another protocol, pass that provider, such as --provider openai-responses.",
    epilog="example:\n  steno models --provider ollama",
)


def _model_row(name: str, model: Model) -> list[str]:
    capabilities = model.capabilities
    return [
        terminal_line(name),
        "?" if model.context_tokens is None else f"{model.context_tokens:,}",
        _YES_NO[capabilities.tools],
        _YES_NO[capabilities.vision],
        _YES_NO[capabilities.thinking],
        terminal_line(model.title or ""),
    ]


def _provider_as_json(result: DiscoveryResult) -> dict[str, Any]:
    return {
        "provider": result.where,
        "title": result.title,
        "usable": result.is_usable,
        "outcome": result.outcome,
        "default": format_model_name(result.where, result.choice) if result.is_usable else None,
        "models": [
            {
                "model": format_model_name(result.where, model.id),
                "id": model.id,
                "title": model.title,
                "context_tokens": model.context_tokens,
                "max_output_tokens": model.max_output_tokens,
                "capabilities": asdict(model.capabilities),
            }
            for model in result.models
        ],
    }
