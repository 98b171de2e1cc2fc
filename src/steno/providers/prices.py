"""Prices and context windows of models, from the package `genai-prices` (`steno-agent[prices]`).

The package contains the price lists of vendors at the time of its release; steno sends and fetches
nothing. Without the package, and for models that are not in it, prices are unknown.

Prices are estimates: the bill may differ. If a vendor charges more for long requests, the price of
short requests is returned. Cache writes have the price of the shortest lifetime. Batches,
priorities, searches, images and audio are not counted.
"""

from __future__ import annotations

import importlib
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from steno.log.queries import Price

GENAI_PRICES_VENDORS: Final = {
    "anthropic": "anthropic",
    "azure": "azure",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "google": "google",
    "groq": "groq",
    "mistral": "mistral",
    "openai": "openai",
    "openai-responses": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "xai": "x-ai",
    "xai-responses": "x-ai",
}
"""The names of our vendors in `genai-prices`, which otherwise guesses the vendor from the model."""
_PACKAGE: Final = "genai_prices"


def has_prices() -> bool:
    """Return whether `genai-prices` is installed."""
    return find_spec(_PACKAGE) is not None


def find_price(model: str, *, at: datetime | None = None) -> Price | None:
    """Return the price of a model in US dollars at the time `at`, by default now; None if unknown.

    `model` is `vendor/model` with a vendor of the catalog, and the price is that of this vendor.
    Local servers and vendors of the configuration have no prices.
    """
    found = _find_price_entry(model, at)
    if found is None:
        return None
    prices = found.model_price
    read, written = _find_base_price(prices.input_mtok), _find_base_price(prices.output_mtok)
    if read is None or written is None:
        return None
    return Price(
        input=read,
        output=written,
        cache_read=_find_base_price(prices.cache_read_mtok),
        cache_write=_find_base_price(prices.cache_write_mtok),
    )


def find_context_tokens(model: str) -> int | None:
    """Return the context window of a model in tokens; None if it is unknown."""
    found = _find_price_entry(model, None)
    tokens = None if found is None else found.model.context_window
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _find_price_entry(name: str, at: datetime | None) -> Any:
    """Return the price calculation for an empty request, which contains the prices of the model.

    None if the vendor or the model is unknown, or if the package is not installed.
    """
    vendor, _, model = name.partition("/")
    package = _load_package() if vendor in GENAI_PRICES_VENDORS and model else None
    if package is None:
        return None
    empty = package.Usage(input_tokens=0, output_tokens=0)
    try:
        return package.calc_price(
            empty, model, provider_id=GENAI_PRICES_VENDORS[vendor], genai_request_timestamp=at
        )
    except LookupError:
        return None


@cache
def _load_package() -> ModuleType | None:
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError:
        return None


def _find_base_price(price: Any) -> Decimal | None:
    """Return a price; None if it is unknown.

    If the price depends on the length of the request, the base price is returned.
    """
    base = getattr(price, "base", price)
    return base if isinstance(base, Decimal) else None
