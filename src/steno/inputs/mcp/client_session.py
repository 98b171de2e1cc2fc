"""One life of a connection: from the start of a server until it is gone.

The scopes of the SDK have to be left by the task that entered them, so one task owns them all and
others ask through the session it holds. Answers are kept as they came: the SDK refuses a whole
list over one odd tool in it, and we would rather have the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, final

from steno.errors import ServerFailed
from steno.inputs.mcp.sdk import McpSdk
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.transports import StderrTail, open_http, open_stdio
from steno.inputs.mcp.untrusted_data import escape_text
from steno.ports import strip_url_secrets

CLOSED_MESSAGE: Final = "Connection closed"
"""What the SDK says when a server is gone."""
_CLOSE_TIMEOUT_S: Final = 5
_PING_TIMEOUT_S: Final = 3
_MAX_SERVER_REQUESTS: Final = 1_000
"""How many requests a server may have between two answers; all it can want is to see us alive."""
_RESPONSES: Final[ContextVar[list[dict[str, Any]] | None]] = ContextVar("steno_heard", default=None)


@final
class McpClientSession:
    """A server that has been started. `ready` waits until it can be asked.

    One `is_older` is greeted as the older protocol has it, without a try at the newer one.
    """

    def __init__(
        self, spec: McpServerSpec, *, folder: Path, sdk: McpSdk, is_older: bool = False
    ) -> None:
        self._spec = spec
        self._uses_old_protocol = is_older
        self._folder = folder
        self.sdk: Final = sdk
        self._settled = asyncio.Event()
        self._disconnecting = asyncio.Event()
        self._failure: str | None = None
        self.session: Any = None
        self._has_server_session = False
        """Whether the server keeps a session for us, which it may forget."""
        self.closed_on_handshake = False
        """Whether it was gone as soon as it was greeted: some older servers take no other words
        than their own, and end."""
        self.tail: Final = StderrTail()
        self.task: Final = asyncio.create_task(self._run(), name=f"mcp {spec.name}")
        self.task.add_done_callback(self._on_task_done)  # also where it never came to begin

    @property
    def is_gone(self) -> bool:
        """Whether there is nobody to ask any more."""
        return self._disconnecting.is_set() or self.task.done()

    async def ready(self) -> None:
        """Wait until the server has answered for the first time. Raises ServerFailed."""
        await self._settled.wait()
        if self._failure is not None:
            raise ServerFailed(self._failure)

    async def ask(self, question: Awaitable[object]) -> dict[str, Any]:
        """Return what the server answers, as it came; the question is one of the session's.

        Raises what the SDK raises.
        """
        heard: list[dict[str, Any]] = []
        token = _RESPONSES.set(heard)
        try:
            await question
        except self.sdk.ValidationError:
            if not heard:
                raise
        finally:
            _RESPONSES.reset(token)
        return heard[-1]

    async def is_session_known(self) -> bool:
        """Tell whether the server still knows our session, if there is one.

        One that was started anew says no to everything then, each in its own words.
        """
        if not self._has_server_session:
            return True
        types = self.sdk.types
        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                await self.session.send_request(types.PingRequest(), types.EmptyResult)
        except self.sdk.MCPError as exc:
            return bool(exc.code == types.METHOD_NOT_FOUND)
        except TimeoutError:
            pass  # it is slow, which is no reason to leave it
        return True

    def disconnect(self) -> None:
        """Let the server go."""
        self._disconnecting.set()

    async def aclose(self) -> None:
        """Let the server go, and wait until it is gone."""
        self.disconnect()
        if not self._settled.is_set():
            self.task.cancel()  # it has not answered yet: there is nobody to take leave of
        done, _ = await asyncio.wait([self.task], timeout=_CLOSE_TIMEOUT_S)
        if not done:
            self.task.cancel()
            await asyncio.wait([self.task], timeout=_CLOSE_TIMEOUT_S)

    async def _run(self) -> None:
        try:
            async with self._transport() as (incoming, outgoing):
                dispatcher = _RecordingDispatcher(
                    self.sdk.JSONRPCDispatcher(incoming, outgoing), self
                )
                info = self.sdk.types.Implementation(name="steno", version="1")
                # Without callbacks for them, the SDK offers no sampling, elicitation or roots,
                # and refuses whoever asks for them all the same.
                async with self.sdk.ClientSession(
                    dispatcher=dispatcher, client_info=info
                ) as session:
                    await self._handshake(session)
                    self.tail.clear_remarks()  # an older server says no to newer words, and is none the worse
                    self.session = session
                    self._settled.set()
                    await self._disconnecting.wait()
        except Exception as exc:  # noqa: BLE001 - whatever it was, the server is gone
            first = _first_exception(exc)
            self._fail(_failure_reason(first), was_reached=isinstance(first, self.sdk.MCPError))

    def _on_task_done(self, _: asyncio.Task[None]) -> None:
        if not self._settled.is_set() and self._failure is None:
            self._fail("it was stopped")
        self._disconnecting.set()
        self._settled.set()

    def _transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._spec.command:
            return open_stdio(self._spec, folder=self._folder, tail=self.tail, sdk=self.sdk)
        return open_http(self._spec, tail=self.tail, sdk=self.sdk)

    async def _handshake(self, session: Any) -> None:
        """Agree on a version: a newer server describes itself, an older one is initialized."""
        with self.sdk.anyio.fail_after(self._spec.start_timeout_s):
            if self._uses_old_protocol or not await self._discover(session):
                await self._initialize(session)

    async def _discover(self, session: Any) -> bool:
        try:
            await session.discover()
        except self.sdk.MCPError as exc:
            self.closed_on_handshake = bool(self._spec.command) and exc.message == CLOSED_MESSAGE
            return False
        except (self.sdk.ValidationError, RuntimeError):
            return False
        return True

    async def _initialize(self, session: Any) -> None:
        try:
            await session.initialize()
            self._has_server_session = bool(self._spec.url)
        except self.sdk.MCPError as exc:
            if exc.code != self.sdk.types.UNSUPPORTED_PROTOCOL_VERSION:
                raise
            # A newer server that started so slowly that we had stopped waiting for it.
            await session.discover()

    def _fail(self, reason: str, *, was_reached: bool = False) -> None:
        """Keep why the server cannot be asked: for those who wait, or among its last words."""
        if self._settled.is_set():
            self.tail.add_remark(self._spec.redact_secrets(reason))
        else:
            what = "cannot be started"
            if self._spec.url:
                address = self._spec.redact_secrets(strip_url_secrets(self._spec.url) or "its url")
                what = f"{address} cannot be {'used' if was_reached else 'reached'}"
            self._failure = explain_failure(self._spec, what, reason, tail=self.tail)


class _RecordingDispatcher:
    """The SDK's, which tells us when it ends, and keeps answers before they are looked at."""

    def __init__(self, inner: Any, link: McpClientSession) -> None:
        self._inner = inner
        self._link = link
        self._asked = 0

    async def run(self, on_request: Callable[..., Any], *args: Any, **options: Any) -> None:
        scope = self._link.sdk.anyio.CancelScope()

        async def counted(*asked: Any) -> Any:
            # Each is a task that waits until the server takes its answer, and it may never.
            self._asked += 1
            if self._asked > _MAX_SERVER_REQUESTS:
                self._link.tail.add_remark(
                    f"it asked us {_MAX_SERVER_REQUESTS:,} things, and answered nothing"
                )
                scope.cancel()
            return await on_request(*asked)

        try:
            with scope:
                await self._inner.run(counted, *args, **options)
        finally:
            self._link.disconnect()

    async def notify(self, *args: Any, **options: Any) -> None:
        await self._inner.notify(*args, **options)

    async def send_raw_request(self, *args: Any, **options: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._inner.send_raw_request(*args, **options)
        self._asked = 0
        if (heard := _RESPONSES.get()) is not None:
            heard.append(dict(answer))
        return answer


def explain_failure(
    spec: McpServerSpec, what: str, reason: str = "", *, tail: StderrTail | None = None
) -> str:
    """Say what went wrong with a server, why, and what it said last."""
    # What is cut off later must not leave half of a secret.
    told = escape_text(spec.redact_secrets(reason))
    parts = [f"mcp {spec.name}: {what}", told, spec.redact_secrets(str(tail or ""))]
    return ": ".join([part for part in parts if part])


def _first_exception(exc: BaseException) -> BaseException:
    """Return the first of several failures at once."""
    return _first_exception(exc.exceptions[0]) if isinstance(exc, BaseExceptionGroup) else exc


def _failure_reason(exc: BaseException) -> str:
    """Say why something failed."""
    match exc:
        case FileNotFoundError() | NotADirectoryError() | PermissionError():
            return f"{exc.filename or 'command'}: {exc.strerror}"
        case TimeoutError():
            return "no answer in time"
        case ValueError():
            return "its answer is not what the protocol says"
        case _:
            return str(exc) or type(exc).__name__
