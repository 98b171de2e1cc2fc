"""A server that is a program of its own, which reads requests and writes answers line by line.

The SDK has this too, but there a line may be as long as the memory lasts, a line that is no JSON
is printed, and an answer with half a surrogate pair in it is lost, so that whoever waits for it
waits for ever. Here lines are bounded, an answer that cannot be read is an error at once, and on
Linux no server outlives us.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from steno.inputs.mcp import leash
from steno.inputs.mcp.sdk import LARGEST_MESSAGE, Sdk
from steno.inputs.mcp.specs import ServerSpec
from steno.inputs.mcp.tail import Tail
from steno.json_object import replace_lone_escapes
from steno.tools.shell.program import run_alone

_GRACE_S: Final = 1.0
"""How long a server may take to end once nobody speaks to it, and again once it is told to."""
_CANNOT_BE_READ: Final = -32700
_CHUNK: Final = 64 * 1024


class _Answer(msgspec.Struct):
    """As much of an answer as is needed to say whose it is."""

    id: int | str
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


@asynccontextmanager
async def stdio(
    spec: ServerSpec, *, folder: Path, tail: Tail, sdk: Sdk
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Run the program while the block lasts; give the streams of messages from it and to it.

    Of our environment it gets what the SDK holds to be harmless (HOME, PATH and the like). What it
    says on stderr goes to `tail`. Raises OSError, ValueError if it cannot be started.
    """
    environment = {**sdk.get_default_environment(), **spec.env}
    process = await _start(spec, folder=spec.cwd or folder, environment=environment)
    from_server, incoming = _pipe(sdk)
    to_server, outgoing = _pipe(sdk)
    overhearing = asyncio.create_task(_overhear(process, tail))
    tasks = [
        overhearing,
        asyncio.create_task(_hear(process, from_server, tail=tail, sdk=sdk)),
        asyncio.create_task(_speak(process, outgoing, from_server, tail=tail, sdk=sdk)),
    ]
    try:
        yield incoming, to_server
    finally:
        try:
            await _end(process, tail)
            await asyncio.wait([overhearing], timeout=_GRACE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (from_server, incoming, to_server, outgoing):
                stream.close()


# -- the start -----------------------------------------------------------------------------------


async def _start(spec: ServerSpec, *, folder: Path, environment: Mapping[str, str]) -> Process:
    """Start the program, with a leash where there is one. Raises OSError, ValueError."""
    run = partial(
        asyncio.create_subprocess_exec,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
        limit=LARGEST_MESSAGE,
    )
    if sys.platform != "linux" or not sys.executable:
        return await run(spec.command, *spec.args)
    failure_fd, write_fd = os.pipe()
    with os.fdopen(failure_fd, "rb") as failure:
        try:
            leashed = (*run_alone(leash.__file__), str(os.getpid()), str(write_fd))
            process = await run(*leashed, spec.command, *spec.args, pass_fds=[write_fd])
        finally:
            os.close(write_fd)
        try:
            async with asyncio.timeout(spec.start_timeout_s):
                await _check_started(spec.command, failure)
        except BaseException:
            await _end(process, Tail())  # how our own program ended says nothing of theirs
            raise
    return process


async def _check_started(command: str, failure: BinaryIO) -> None:
    """Wait until the program runs. Raises OSError if it cannot be started."""
    number = await asyncio.to_thread(failure.read)
    if number:
        raise OSError(int(number), os.strerror(int(number)), command)


def _pipe(sdk: Sdk) -> tuple[Any, Any]:
    ends: tuple[Any, Any] = sdk.anyio.create_memory_object_stream(0)
    return ends


# -- what is said --------------------------------------------------------------------------------


async def _hear(process: Process, from_server: Any, *, tail: Tail, sdk: Sdk) -> None:
    """Pass on every message, until the program has no more to say."""
    assert process.stdout is not None
    try:
        with from_server:
            while line := await process.stdout.readuntil(b"\n"):
                if (message := _message(line, sdk)) is not None:
                    await from_server.send(sdk.SessionMessage(message))
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    except asyncio.LimitOverrunError:
        tail.add_remark(f"it said more than {LARGEST_MESSAGE >> 20} MB in one message")
    except (sdk.anyio.BrokenResourceError, sdk.anyio.ClosedResourceError):
        pass  # nobody listens any more
    # It may have to get rid of what it wants to say before it can end.
    while await process.stdout.read(_CHUNK):
        pass


def _message(line: bytes, sdk: Sdk) -> Any:
    """Return the message of a line; None for one that is none, as from a stray `print`."""
    read = sdk.types.jsonrpc_message_adapter.validate_json
    try:
        return read(line, by_name=False)
    except ValueError:
        pass
    mended, _ = replace_lone_escapes(line.decode(errors="replace").encode())
    try:
        return read(mended, by_name=False)
    except ValueError:
        pass
    try:
        answer = msgspec.json.decode(mended, type=_Answer)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not (bytes(answer.result) or bytes(answer.error)):
        return None
    error = sdk.types.ErrorData(code=_CANNOT_BE_READ, message="the answer cannot be read")
    return sdk.types.JSONRPCError(jsonrpc="2.0", id=answer.id, error=error)


async def _speak(
    process: Process, outgoing: Any, from_server: Any, *, tail: Tail, sdk: Sdk
) -> None:
    """Write every message; if one cannot be written, end the conversation: others wait for it."""
    assert process.stdin is not None
    try:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(f"{text}\n".encode())
            await process.stdin.drain()
    except (ConnectionError, sdk.anyio.ClosedResourceError, sdk.anyio.BrokenResourceError):
        pass  # nobody reads, or nobody speaks any more
    except ValueError:
        tail.add_remark("what it was to be told cannot be written as JSON")
    finally:
        from_server.close()


async def _overhear(process: Process, tail: Tail) -> None:
    assert process.stderr is not None
    while said := await process.stderr.read(_CHUNK):
        tail.add(said)


# -- the end -------------------------------------------------------------------------------------


async def _end(process: Process, tail: Tail) -> None:
    """End the program as the protocol has it: hang up, wait, tell it to end, and then end it."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        if await _has_ended(process):
            tail.add_remark(_how_it_ended(process))
        else:
            _signal(process, signal.SIGTERM)
            await _has_ended(process)
    finally:
        # Also what it has started and left behind: the group is there as long as any of them is.
        _signal(process, signal.SIGKILL)
        await _has_ended(process)
        _close_pipes(process)


async def _has_ended(process: Process) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _GRACE_S)
    return process.returncode is not None


def _how_it_ended(process: Process) -> str:
    code = process.returncode or 0
    return f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {-code}"


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _close_pipes(process: Process) -> None:
    """Close our ends, even if a process that left the group holds the other ones open."""
    # asyncio has no other name for it, and complains about what was not closed.
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
