"""Speak with vendors of models.

    from steno.providers import connect

    async with connect("openai", model="…") as provider:
        async with provider.stream(request) as stream:
            async for event in stream:
                ...
        message = stream.message()

`CATALOG` lists the vendors that are known, `read_vendors` adds those of a configuration file.
Needs the extra `steno[http]`, unless another transport is passed in.
"""

from steno.providers.catalog import CATALOG
from steno.providers.configuration import read_vendors
from steno.providers.connect import connect
from steno.providers.embedded import EmbeddedProvider
from steno.providers.finding import Found, find_model
from steno.providers.http import HttpProvider, HttpStream
from steno.providers.key import Key
from steno.providers.models import Model
from steno.providers.offline import OfflineProvider
from steno.providers.retry import Retries
from steno.providers.stream import Source, SourceStream
from steno.providers.vendor import Auth, Capabilities, Vendor
from steno.transport.http import HttpTransport, TimeLimits

__all__ = [
    "CATALOG",
    "Auth",
    "Capabilities",
    "EmbeddedProvider",
    "Found",
    "HttpProvider",
    "HttpStream",
    "HttpTransport",
    "Key",
    "Model",
    "OfflineProvider",
    "Retries",
    "Source",
    "SourceStream",
    "TimeLimits",
    "Vendor",
    "connect",
    "find_model",
    "read_vendors",
]
