"""Prices and context windows of models from the package genai-prices."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import get_snapshot

from steno import Usage
from steno.log.queries import Price, cost_of
from steno.providers import CATALOG
from steno.providers.prices import GENAI_PRICES_VENDORS, find_context_tokens, find_price, has_prices


def test_a_model_has_its_price_per_million_tokens() -> None:
    price = find_price("anthropic/claude-3-5-haiku-20241022")
    assert price == Price(
        input=Decimal("0.8"),
        output=Decimal(4),
        cache_read=Decimal("0.08"),
        cache_write=Decimal(1),
    )
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, cache_read_tokens=500_000)
    assert cost_of(usage, price) == Decimal("2.44")


def test_the_price_is_that_of_short_requests() -> None:
    price = find_price("google/gemini-2.5-pro")
    assert price is not None
    assert (price.input, price.output) == (Decimal("1.25"), Decimal(10))


def test_a_price_is_that_of_its_time() -> None:
    before, after = (
        find_price("openai/o3", at=datetime(2025, month, 1, tzinfo=UTC)) for month in (5, 12)
    )
    assert before is not None
    assert after is not None
    assert (before.input, after.input) == (Decimal(10), Decimal(2))


@pytest.mark.parametrize(
    "model",
    [
        "",
        "openai",
        "openai/",
        "openai/no-such-model",
        "gpt-4o",
        "no-such-vendor/gpt-4o",
        "my-openai-proxy/gpt-4o",
        "ollama/llama3.2",
        "embedded",
        "openai/text-embedding-3-small",
    ],
)
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert find_price(model) is None


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        ("openai-responses/gpt-4o", "openai/gpt-4o"),
        ("azure/gpt-4o", "openai/gpt-4o"),
        ("xai-responses/grok-3", "xai/grok-3"),
        ("openrouter/openai/gpt-4o", "openai/gpt-4o"),
    ],
)
def test_vendors_of_the_same_models_have_their_prices(ours: str, same: str) -> None:
    price = find_price(ours)
    assert price is not None
    other = find_price(same)
    assert other is not None
    assert price[:2] == other[:2]


def test_the_context_window_of_some_models_is_known() -> None:
    assert find_context_tokens("anthropic/claude-3-5-haiku-20241022") == 200_000
    assert find_context_tokens("openai-responses/gpt-4o") == 128_000
    assert find_context_tokens("ollama/llama3.2") is None
    assert find_context_tokens("openai/no-such-model") is None


def test_every_vendor_with_known_prices_is_listed() -> None:
    known = {provider.id for provider in get_snapshot().providers}
    assert set(GENAI_PRICES_VENDORS) <= set(CATALOG)
    assert set(GENAI_PRICES_VENDORS.values()) <= known
    unlisted = {name for name, vendor in CATALOG.items() if vendor.needs_key} - set(
        GENAI_PRICES_VENDORS
    )
    assert not unlisted & known


def test_prices_are_available_if_the_package_is_installed() -> None:
    assert has_prices()


WITHOUT = """
import sys
sys.modules["genai_prices"] = None
from steno.providers.prices import find_context_tokens, has_prices, find_price
print(has_prices(), find_price("openai/gpt-4o"), find_context_tokens("openai/gpt-4o"))
"""
LAZY = """
import sys
import steno.providers, steno.providers.prices as prices
prices.find_price("ollama/llama3.2")
print("genai_prices" in sys.modules)
prices.find_price("openai/gpt-4o")
print("genai_prices" in sys.modules)
"""


@pytest.mark.parametrize(
    ("program", "printed"), [(WITHOUT, "False None None\n"), (LAZY, "False\nTrue\n")]
)
def test_the_package_is_optional_and_loaded_when_it_is_needed(program: str, printed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == printed
