"""The models that there are to choose from, as `steno models` finds and describes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from steno.cli.configuration import Loaded
from steno.cli.knowing import all_as_used
from steno.cli.settings import Settings
from steno.printable import on_one_line
from steno.providers.finding import model_name
from steno.providers.looking import Looked, Patience, look_around
from steno.providers.models import Model
from steno.providers.prices import price_of
from steno.tui.desk import Candidate

_PATIENCE: Final = Patience(local_s=0.5, hosted_s=3)
"""Somebody sits there and waits."""


async def list_models(loaded: Loaded) -> Sequence[Candidate]:
    """Ask every provider that there is a key or a server for, all at once and not for long."""
    looked = await look_around(loaded.settings.providers, os.environ, patience=_PATIENCE)
    # Prices take a moment to load.
    return await asyncio.to_thread(_candidates, looked, loaded.settings)


def _candidates(looked: Sequence[Looked], settings: Settings) -> list[Candidate]:
    return [
        Candidate(model_name(place.where, model.id), _about(place, model))
        for place in looked
        if place.is_usable
        for model in all_as_used(place, settings).models
        if model.id.isprintable()  # what cannot be shown cannot be chosen either
    ]


def _about(place: Looked, model: Model) -> str:
    return " · ".join(_facts(model_name(place.where, model.id), model))


def _facts(name: str, model: Model) -> Iterator[str]:
    if model.title and model.title != model.id:
        yield on_one_line(model.title)
    if model.context_tokens is not None:
        yield f"{model.context_tokens:,} tokens"
    if (price := price_of(name)) is not None:
        yield f"${_dollars(price.input)} in, ${_dollars(price.output)} out per million"
    if model.capabilities.vision is not None:
        yield "vision" if model.capabilities.vision else "no vision"
    if model.capabilities.tools is False:
        yield "no tools"


def _dollars(amount: Decimal) -> str:
    return f"{amount:.2f}" if amount >= Decimal("0.1") or not amount else f"{amount.normalize():f}"
