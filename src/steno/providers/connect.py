"""From the name of a vendor to a provider, with the key that the environment holds."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec.structs import replace

from steno.errors import AuthenticationFailed, InvalidValue
from steno.ports import Transport
from steno.providers.catalog import CATALOG
from steno.providers.http import FIRST_EVENT_S, HttpProvider
from steno.providers.key import Key, find_key
from steno.providers.retry import DEFAULT_RETRIES, Retries
from steno.providers.vendor import Vendor, check_base_url, no_such_vendor


def connect(
    vendor: str | Vendor,
    *,
    model: str = "",
    key: str | None = None,
    base_url: str | None = None,
    transport: Transport | None = None,
    retries: Retries = DEFAULT_RETRIES,
    first_event_s: float | None = FIRST_EVENT_S,
    vendors: Mapping[str, Vendor] = CATALOG,
    environ: Mapping[str, str] | None = None,
) -> HttpProvider:
    """Make a provider of a vendor, by name or as a row of your own; nothing is sent yet.

        async with connect("anthropic", model="…") as provider:
            message = await provider.stream(request).collect()

    `model` is asked for where a request names none. The key comes from `environ`, that of the
    process unless given, if none is passed. A server that keeps the connection alive and says
    nothing is given up after `first_event_s`. Raises InvalidValue for a vendor that is not known,
    an address that is none or a limit that is not above 0, AuthenticationFailed if a key is
    needed and there is none.
    """
    if not isinstance(vendor, (str, Vendor)):
        kind = type(vendor).__name__
        raise InvalidValue(f'connect: takes a name such as "openai", or a Vendor, not {kind}')
    if isinstance(vendor, str):
        if vendor not in vendors:
            rule = no_such_vendor(vendor, sorted(vendors), "or pass a Vendor of your own")
            raise InvalidValue(f"vendor: {rule}")
        vendor = vendors[vendor]
    if base_url is not None:
        check_base_url(base_url, vendor.name)
        vendor = replace(vendor, base_url=base_url, needs_model=vendor.needs_model_at(base_url))
    if not vendor.base_url:
        raise InvalidValue(f"{vendor.name}.base_url: everybody has one of their own, pass it")
    return HttpProvider(
        vendor,
        model=model,
        key=_key_for(vendor, key, os.environ if environ is None else environ),
        transport=transport,
        retries=retries,
        first_event_s=first_event_s,
    )


def _key_for(vendor: Vendor, passed: str | None, environ: Mapping[str, str]) -> Key:
    key = find_key(vendor.key_variables, environ) if passed is None else Key(passed)
    if vendor.needs_key and not key:
        raise AuthenticationFailed(f"{vendor.name}: no key; {vendor.key_advice}")
    return key
