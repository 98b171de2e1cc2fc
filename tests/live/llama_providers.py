"""Providers for the llama.cpp server, one for each of its protocols."""

from __future__ import annotations

import pytest

from steno.providers import CATALOG, HttpProvider, connect

CHAT, MESSAGES, RESPONSES = "llama.cpp", "llama.cpp-messages", "llama.cpp-responses"
every_protocol = pytest.mark.parametrize("protocol", [CHAT, MESSAGES, RESPONSES])


def provider_for(protocol: str, url: str) -> HttpProvider:
    path = CATALOG[protocol].base_url.partition(":8080")[2]
    return connect(protocol, model="puppet", base_url=url + path, environ={})
