"""Providers: send requests to models of many vendors and stream their responses.

    from steno.providers import connect

    async with connect("openai", model="…") as provider:
        async with provider.stream(request) as stream:
            async for event in stream:
                ...
        message = stream.message()

`CATALOG` lists the known vendors, `read_vendors` adds those of a configuration file.
Needs the extra `steno-agent[http]`, unless another transport is passed in.
"""

from steno.providers.catalog import CATALOG, read_vendors
from steno.providers.embedded import EmbeddedProvider
from steno.providers.http_provider import HttpProvider, HttpStream, connect
from steno.providers.model_discovery import ModelSelection, find_model
from steno.providers.models import Model
from steno.providers.offline_assistant import OfflineProvider
from steno.providers.prices import find_context_tokens, find_price
from steno.providers.retry import Retries
from steno.providers.stream import Source, SourceStream
from steno.providers.vendor import ApiKey, Auth, Capabilities, Vendor
from steno.transport.http import HttpTransport, TimeLimits

__all__ = [
    "CATALOG",
    "ApiKey",
    "Auth",
    "Capabilities",
    "EmbeddedProvider",
    "HttpProvider",
    "HttpStream",
    "HttpTransport",
    "Model",
    "ModelSelection",
    "OfflineProvider",
    "Retries",
    "Source",
    "SourceStream",
    "TimeLimits",
    "Vendor",
    "connect",
    "find_context_tokens",
    "find_model",
    "find_price",
    "read_vendors",
]
