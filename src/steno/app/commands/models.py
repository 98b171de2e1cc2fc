"""`steno models`: the models that can be used here, and why others cannot."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from steno.app.commands.arguments import UsageError, argument, flag
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, Table
from steno.app.models import apply_settings_to_models
from steno.app.settings import load_settings
from steno.providers.model_discovery import (
    DEFAULT_DISCOVERY_TIMEOUTS,
    EMBEDDED,
    OFFLINE,
    DiscoveryResult,
    discover_models,
    format_model_name,
    open_vendor_probe,
    probe_embedded,
    probe_offline,
)
from steno.providers.models import Model
from steno.providers.vendor import Vendor
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.suggest import suggest_name

_MODEL_COLUMNS: Final = (
    Column("model", "cyan", may_shrink=True),
    Column("context", is_number=True),
    Column("tools"),
    Column("vision"),
    Column("thinking"),
    Column("title", "dim", may_shrink=True),
)
_UNUSABLE_COLUMNS: Final = (Column("provider", "cyan"), Column("why not", may_shrink=True))
_YES_NO: Final = {True: "yes", False: "no", None: "?"}


_ARGUMENTS: Final = (
    argument("--provider", metavar="NAME", help="only those of one provider"),
    flag("--json", help="a line of JSON for each provider, usable or not"),
)


def _run_models(context: CommandContext, options: argparse.Namespace) -> Report:
    loaded = load_settings()
    discovered = asyncio.run(_find_models(options.provider, loaded.settings.providers))
    results = [apply_settings_to_models(result, loaded.settings) for result in discovered]
    usable = [result for result in results if result.is_usable]
    others = [result for result in results if not result.is_usable]
    tables: list[Table] = []
    if usable:
        rows = [_model_row(result, model) for result in usable for model in result.models]
        tables.append(Table(_MODEL_COLUMNS, rows))
    if others:
        rows = [[terminal_line(result.where), terminal_line(result.outcome)] for result in others]
        tables.append(Table(_UNUSABLE_COLUMNS, rows))
    if options.provider is None:  # the first one that can be reached
        default = format_model_name(usable[0].where, usable[0].choice) if usable else ""
        used = terminal_line(loaded.settings.model or default)
        tables[-1] = tables[-1]._replace(note=f"used without --model: {used}")
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
    help="list the models that can be used",
    description="Ask every provider that there is a key or a server for which models it has, "
    "and list them with what --model takes. '?' stands where nobody says. "
    "A server that is spoken to in several protocols is asked in the first of them; "
    "--provider takes the others too, such as openai-responses.",
    epilog="example: steno models --provider ollama",
)


async def _find_models(
    name: str | None, vendors: Mapping[str, Vendor]
) -> Sequence[DiscoveryResult]:
    """Ask every provider, or only the named one. Raises UsageError."""
    if name is None:
        return await discover_models(vendors, os.environ)
    if name == EMBEDDED:
        return (await probe_embedded(),)
    if name == OFFLINE:
        return (await probe_offline(),)
    vendor = vendors.get(name)
    if vendor is None:
        known = [*sorted(vendors), EMBEDDED, OFFLINE]
        raise UsageError(
            f"there is none; {suggest_name(name, known)}",
            code="provider_unknown",
            place=f"--provider {terminal_line(name)}",
        )
    async with open_vendor_probe(os.environ, DEFAULT_DISCOVERY_TIMEOUTS) as probe:
        return (await probe(vendor),)


def _model_row(result: DiscoveryResult, model: Model) -> list[str]:
    capabilities = model.capabilities
    return [
        terminal_line(format_model_name(result.where, model.id)),
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
