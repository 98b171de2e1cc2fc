"""Message streams to an MCP server, which is a program that steno starts or an HTTP server.

The SDK can also start programs, but it does not limit the length of a line, prints lines that are
not JSON, and drops a response with a lone surrogate, so that its caller waits forever. Here, the
length of lines is limited, an unreadable response is an error immediately, and on Linux no server
outlives steno. For HTTP, the transport of the SDK is used, with a limit on the size of responses.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import msgspec

from steno.inputs.mcp import parent_death_guard
from steno.inputs.mcp.sdk import MAX_MESSAGE_BYTES, McpSdk
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.untrusted_data import escape_text
from steno.json_object import replace_lone_surrogate_escapes
from steno.lazy_task import start_task
from steno.tools.programs import isolated_python_command


@asynccontextmanager
async def open_stdio(
    spec: McpServerSpec, *, folder: Path, tail: StderrTail, sdk: McpSdk
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Run the program of a server during the block; yield the streams from and to the server.

    The program inherits only variables that the SDK considers harmless (HOME, PATH and similar).
    Its output on stderr is added to `tail`. Raises OSError or ValueError if the program cannot be
    started.
    """
    environment = {**sdk.get_default_environment(), **spec.env}
    process = await _start_program(spec, folder=spec.cwd or folder, environment=environment)
    from_server, incoming = sdk.anyio.create_memory_object_stream(0)
    to_server, outgoing = sdk.anyio.create_memory_object_stream(0)
    stderr_task = start_task(tail.read(process))
    tasks = [
        stderr_task,
        start_task(_read_messages(process, from_server, tail=tail, sdk=sdk)),
        start_task(_write_messages(process, outgoing, from_server, tail=tail, sdk=sdk)),
    ]
    try:
        yield incoming, to_server
    finally:
        try:
            await _end_program(process, tail)
            await asyncio.wait([stderr_task], timeout=_GRACE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (from_server, incoming, to_server, outgoing):
                stream.close()


@asynccontextmanager
async def open_http(
    spec: McpServerSpec, *, tail: StderrTail, sdk: McpSdk
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Connect to a server during the block; yield the streams from and to the server.

    The headers are sent only to the origin of the URL; redirects to other origins are not followed.
    """
    check_response = _limit_body(sdk, tail)
    headers = sdk.httpx2.Headers(spec.headers)
    headers["Accept-Encoding"] = "identity"  # replaces any other spelling of the name
    client = sdk.httpx2.AsyncClient(
        headers=headers,
        timeout=sdk.httpx2.Timeout(_CONNECT_TIMEOUT_S, read=spec.call_timeout_s),
        follow_redirects=False,
        event_hooks={"response": [check_response]},
    )
    async with (
        client,
        sdk.streamable_http_client(
            spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


_MAX_STDERR_BYTES: Final = 4096
_MAX_NOTES: Final = 4
_TOO_LARGE_NOTE: Final = f"the server sent more than {MAX_MESSAGE_BYTES >> 20} MB in one message"


@final
class StderrTail:
    """The last stderr output of a server, limited in size, and notes about its failures."""

    def __init__(self) -> None:
        self._data = b""
        self._is_cut = False
        self._notes: list[str] = []

    def add(self, data: bytes) -> None:
        """Add output; only the last bytes are stored."""
        output = self._data + data
        self._data = output[-_MAX_STDERR_BYTES:]
        self._is_cut = self._is_cut or len(output) > _MAX_STDERR_BYTES

    def add_note(self, text: str) -> None:
        """Add a note by steno about the server."""
        if (shown := escape_text(text)) not in self._notes:
            self._notes = [*self._notes, shown][-_MAX_NOTES:]

    def clear_notes(self) -> None:
        """Delete the notes, because their cause no longer exists."""
        self._notes = []

    async def read(self, process: Process) -> None:
        """Read a program's stderr to its end."""
        assert process.stderr is not None
        while output := await process.stderr.read(_CHUNK_BYTES):
            self.add(output)

    def __str__(self) -> str:
        output = self._data.decode(errors="replace")
        if self._is_cut:  # half a line may begin with half a secret, which redaction would miss
            output = output.partition("\n")[2] or output.partition(" ")[2]
        shown = escape_text(output.strip(), _MAX_STDERR_BYTES)
        notes = "; ".join(self._notes)
        return f"{notes}\n{shown}".strip() if shown else notes


# -- HTTP -----------------------------------------------------------------------------------------

_CONNECT_TIMEOUT_S: Final = 30


def _limit_body(sdk: McpSdk, tail: StderrTail) -> Any:
    """Return a hook that checks every response and limits the size of its body."""
    stream: Any = sdk.httpx2.AsyncByteStream

    # The base class is imported at run time, so its type is unknown.
    class Bounded(stream):  # type: ignore[misc]
        """A response body that raises an error once it is too large."""

        def __init__(self, body: Any) -> None:
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for chunk in self._body:
                total += len(chunk)
                if total > MAX_MESSAGE_BYTES:
                    tail.add_note(_TOO_LARGE_NOTE)
                    raise sdk.httpx2.ReadError("the body is too large")
                yield chunk

        async def aclose(self) -> None:
            await self._body.aclose()

    async def check_response(response: Any) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            tail.add_note(f"the server responded with status {response.status_code}")
        # A compressed body, which was not requested, could expand to any size.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise sdk.httpx2.DecodingError(
                "the response is compressed, although steno requested no compression"
            )
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith("text/event-stream"):
            response.stream = Bounded(response.stream)

    return check_response


# -- starting a program ---------------------------------------------------------------------------


async def _start_program(
    spec: McpServerSpec, *, folder: Path, environment: Mapping[str, str]
) -> Process:
    """Start a program, on Linux with the parent-death guard.

    Raises OSError or ValueError if the program cannot be started.
    """
    start_process = partial(
        asyncio.create_subprocess_exec,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
        limit=MAX_MESSAGE_BYTES,
    )
    if sys.platform != "linux" or not sys.executable:
        return await start_process(spec.command, *spec.args)
    failure_fd, write_fd = os.pipe()
    with os.fdopen(failure_fd, "rb") as failure:
        guard = isolated_python_command(parent_death_guard.__file__)
        command = (*guard, str(os.getpid()), str(write_fd), spec.command, *spec.args)
        try:
            process = await start_process(*command, pass_fds=[write_fd])
        finally:
            os.close(write_fd)
        try:
            async with asyncio.timeout(spec.start_timeout_s):
                number = await asyncio.to_thread(failure.read)  # ends when the program runs
            if number:
                raise OSError(int(number), os.strerror(int(number)), spec.command)
        except BaseException:
            # This is the exit of the guard, so do not add a note about the server.
            await _end_program(process, StderrTail())
            raise
    return process


# -- messages of a program ------------------------------------------------------------------------

_PARSE_ERROR_CODE: Final = -32700
_CHUNK_BYTES: Final = 64 * 1024


class _RpcResponse(msgspec.Struct):
    """The members of a JSON-RPC response."""

    id: int | str
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


async def _read_messages(
    process: Process, from_server: Any, *, tail: StderrTail, sdk: McpSdk
) -> None:
    """Send every message of the program to `from_server`, until the program closes its output."""
    assert process.stdout is not None
    try:
        with from_server:
            while line := await process.stdout.readuntil(b"\n"):
                if (message := _parse_message(line, sdk)) is not None:
                    await from_server.send(sdk.SessionMessage(message))
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    except asyncio.LimitOverrunError:
        tail.add_note(_TOO_LARGE_NOTE)
    except (sdk.anyio.BrokenResourceError, sdk.anyio.ClosedResourceError):
        pass  # the session has ended
    # The program may need to write the rest of its output before it can end.
    while await process.stdout.read(_CHUNK_BYTES):
        pass


def _parse_message(line: bytes, sdk: McpSdk) -> Any:
    """Return the message in a line; None for other output, such as that of a stray `print`.

    A response that cannot be parsed becomes an error response, so that its caller does not wait.
    """
    read = sdk.types.jsonrpc_message_adapter.validate_json
    with suppress(ValueError):
        return read(line, by_name=False)
    repaired, _ = replace_lone_surrogate_escapes(line.decode(errors="replace").encode())
    with suppress(ValueError):
        return read(repaired, by_name=False)
    try:
        response = msgspec.json.decode(repaired, type=_RpcResponse)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not (bytes(response.result) or bytes(response.error)):
        return None
    error = sdk.types.ErrorData(code=_PARSE_ERROR_CODE, message="the response cannot be read")
    return sdk.types.JSONRPCError(jsonrpc="2.0", id=response.id, error=error)


async def _write_messages(
    process: Process, outgoing: Any, from_server: Any, *, tail: StderrTail, sdk: McpSdk
) -> None:
    """Write every message to the program, until the session ends or writing fails.

    Then close `from_server`, so that no caller waits for a response.
    """
    assert process.stdin is not None
    try:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(f"{text}\n".encode())
            await process.stdin.drain()
    except (ConnectionError, sdk.anyio.ClosedResourceError, sdk.anyio.BrokenResourceError):
        pass  # one of the two ends is closed
    except ValueError:
        tail.add_note("a message to the server cannot be encoded as JSON")
    finally:
        from_server.close()


# -- ending a program -----------------------------------------------------------------------------

_GRACE_S: Final = 1.0
"""The time that a server has to end after its input closes, and again after SIGTERM."""


async def _end_program(process: Process, tail: StderrTail) -> None:
    """End the program as the protocol prescribes: close its input, wait, SIGTERM, SIGKILL."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        if await _wait_for_exit(process):
            code = process.returncode or 0
            cause = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
            tail.add_note(f"the server {cause}")
        else:
            _signal_group(process, signal.SIGTERM)
            await _wait_for_exit(process)
    finally:
        # This also ends child processes; the group exists as long as any of them does.
        _signal_group(process, signal.SIGKILL)
        await _wait_for_exit(process)
        # Close our ends of the pipes, even if a process that left the group holds the other ends
        # open. asyncio has no public name for this, and warns about unclosed pipes.
        transport: Any = getattr(process, "_transport", None)
        if transport is not None:
            with suppress(PermissionError):
                transport.close()


async def _wait_for_exit(process: Process) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _GRACE_S)
    return process.returncode is not None


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
