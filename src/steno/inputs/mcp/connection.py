"""Connections to MCP servers, which start with the first request and restart if they end.

Every wait has a limit. `start_timeout_s` limits the first response and the listing of tools,
resources and prompts. `call_timeout_s` limits all other requests; reported progress does not extend
it, because a server could report progress forever. An `McpConnection` lasts as long as the session
of steno, and an `McpClientSession` from one start of a server to its end. This module knows neither
its callers nor the meaning of responses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar, final

from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.protocol import (
    CallToolResult,
    ListedPrompt,
    ListedResource,
    ListedTool,
    PromptMessage,
    ReadResourceResult,
    decode_call_result,
    decode_prompt_messages,
    decode_prompts,
    decode_resource,
    decode_resources,
    decode_templates,
    decode_tools,
    estimate_size,
)
from steno.inputs.mcp.sdk import (
    MAX_MESSAGE_BYTES,
    McpSdk,
    is_connection_closed,
    is_session_gone,
    is_stream_broken,
    load_mcp_sdk,
)
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.transports import StderrTail, open_http, open_stdio
from steno.inputs.mcp.untrusted_data import escape_text, is_encodable
from steno.lazy_task import start_task
from steno.ports import SetupNotice, strip_url_secrets

MAX_STARTS: Final = 3
"""The maximum number of consecutive starts without a response to a request."""
_RESTART_DELAY_S: Final = 60
"""The time to wait after `MAX_STARTS` before the server is started again."""
_MAX_PAGES: Final = 100
_STDERR_WAIT_S: Final = 3

T = TypeVar("T")


@final
class McpServers:
    """The configured servers, which start with their first request; `async with` ends them.

    If two specs have the same name, the later one is used. Iterating yields the connections to the
    usable servers.
    """

    def __init__(
        self,
        specs: Iterable[McpServerSpec],
        *,
        folder: Path,
        notify: Callable[[SetupNotice], object] = lambda _: None,
    ) -> None:
        by_name = {spec.name: spec for spec in specs}
        self.specs: Final[Mapping[str, McpServerSpec]] = MappingProxyType(by_name)
        """Every server by its name, including those that cannot be used."""
        self._connections = {
            spec.name: McpConnection(spec, folder=folder, notify=notify)
            for spec in by_name.values()
            if spec.is_usable
        }

    def __iter__(self) -> Iterator[McpConnection]:
        return iter(self._connections.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the usable servers."""
        return tuple(self._connections)

    def get(self, name: str) -> McpConnection:
        """Return the connection to a server. Raises ServerFailed if it is unknown or unusable."""
        if (connection := self._connections.get(name)) is not None:
            return connection
        if (spec := self.specs.get(name)) is not None:
            raise _unusable_error(spec)
        known = ", ".join(self._connections) or "none"
        message = f"unknown server; known servers: {known}"
        raise ServerFailed(message, code="server_not_found", place="mcp")

    async def aclose(self) -> None:
        """End all servers concurrently."""
        await asyncio.gather(*[server.aclose() for server in self._connections.values()])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


@final
class McpConnection:
    """A connection to one server (`McpServer`), which starts with the first request.

    `notify` receives notices for the user. Any number of tasks may send requests concurrently.
    """

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        folder: Path,
        notify: Callable[[SetupNotice], object] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec: Final = spec
        self._folder = folder
        self._notify = notify
        self._now = now
        self._session: McpClientSession | None = None
        self._sessions: set[McpClientSession] = set()
        self._starts = 0
        """The number of starts since the last response."""
        self._started_at = 0.0
        self._uses_old_protocol = False
        """Whether the server accepts only the older protocol."""
        self._is_closed = False
        self._notified: set[SetupNotice] = set()

    @property
    def name(self) -> str:
        """The name that the user gave the server."""
        return self.spec.name

    @property
    def read_only_tools(self) -> tuple[str, ...]:
        """Tools that the user declares read-only: names, or patterns with `*`."""
        return self.spec.reads

    @property
    def protocol(self) -> str | None:
        """The negotiated version of the protocol; None before the first response."""
        session = None if self._session is None else self._session.session
        version = getattr(session, "protocol_version", None)
        return version if isinstance(version, str) else None

    @property
    def is_connected(self) -> bool:
        """Whether the server has responded and is still running."""
        client = self._session
        return client is not None and client.session is not None and not client.is_gone

    # -- requests of the protocol ------------------------------------------------------------

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return all tools. Raises ServerFailed if the request fails."""
        return await self._list_all("list_tools", decode_tools, "tools")

    async def resources(self) -> tuple[ListedResource, ...]:
        """Return all resources and templates. Raises ServerFailed if a request fails."""
        resources = await self._list_all("list_resources", decode_resources, "resources")
        return resources + await self._list_all(
            "list_resource_templates", decode_templates, "resources"
        )

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        """Return all prompts. Raises ServerFailed if the request fails."""
        return await self._list_all("list_prompts", decode_prompts, "prompts")

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> CallToolResult:
        """Call a tool, as described in `McpServer`. Raises ServerFailed if the request fails."""
        self._check_sendable(tool, arguments)
        throttle = Throttle(progress)

        async def report(current: float, total: float | None, message: str | None) -> None:
            total_text = "" if total is None else f"/{total:g}"
            throttle(f"{current:g}{total_text} {escape_text(message or '', 200)}".strip())

        async def send(client: McpClientSession, types: Any) -> dict[str, Any]:
            params = {"name": tool, "arguments": dict(arguments)}
            try:
                return await client.send("CallTool", params, progress_callback=report)
            except client.sdk.MCPError as exc:
                if exc.code != types.HEADER_MISMATCH:
                    raise
            # The server also needs some arguments in headers, which only its list of tools names.
            await self.tools()
            return await client.send("CallTool", params, progress_callback=report)

        with throttle:
            return decode_call_result(await self._request_result(send))

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource; the result is not cached. Raises ServerFailed if the request fails."""
        response = await self._ask("ReadResource", uri=uri)
        try:
            return decode_resource(response)
        except InvalidValue as exc:
            raise self._error(str(exc), code=exc.code) from exc

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return a prompt with arguments filled in. Raises ServerFailed if the request fails."""
        response = await self._ask("GetPrompt", name=name, arguments=dict(arguments))
        return decode_prompt_messages(response)

    # -- requests ----------------------------------------------------------------------------

    async def _ask(self, kind: str, **params: object) -> dict[str, Any]:
        """Send a request; `kind` is the SDK's name for it, such as `ReadResource`."""
        self._check_sendable(params)
        return await self._request_result(lambda client, _: client.send(kind, params))

    def _error(self, message: str, *, code: str) -> ServerFailed:
        return ServerFailed(message, code=code, place=f"mcp {self.name}")

    def _check_sendable(self, *values: object) -> None:
        if not is_encodable(values):
            message = "the request cannot be sent: a name or a value is not valid Unicode"
            raise self._error(message, code="not_sendable")

    async def _list_all(
        self, method: str, decode_items: Callable[[Mapping[str, Any]], Iterable[T]], capability: str
    ) -> tuple[T, ...]:
        """Return the items of all pages; no items if the server lacks the capability."""

        async def send(client: McpClientSession, types: Any) -> tuple[T, ...]:
            if getattr(client.session.server_capabilities, capability, None) is None:
                return ()
            listed: list[T] = []
            async for page in self._pages(client, getattr(client.session, method), types):
                listed += decode_items(page)
            return tuple(listed)

        return await self._request(send, timeout_s=self.spec.start_timeout_s)

    async def _pages(
        self, client: McpClientSession, list_page: Callable[..., Awaitable[object]], types: Any
    ) -> AsyncIterator[dict[str, Any]]:
        cursor: str | None = None
        remaining_bytes = MAX_MESSAGE_BYTES  # all pages together are limited like one message
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            try:
                page = await client.request(list_page(params=params))
            except client.sdk.MCPError as exc:
                if exc.code == types.METHOD_NOT_FOUND:
                    return
                raise
            yield page
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return
            remaining_bytes -= estimate_size(page)
            if remaining_bytes < 0:
                break
        text = (
            f"mcp {self.name}: the server lists more than {_MAX_PAGES} pages or "
            f"{MAX_MESSAGE_BYTES >> 20} MB; further items are left out"
        )
        notice = SetupNotice("server_list_truncated", text)
        if notice not in self._notified:
            self._notified.add(notice)
            self._notify(notice)

    async def _request_result(
        self, send: Callable[[McpClientSession, Any], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return the complete response to a request. Raises ServerFailed if the request fails."""
        response = await self._request(send, timeout_s=self.spec.call_timeout_s)
        if response.get("resultType", "complete") != "complete":
            message = "the server requests input, which steno does not support"
            raise self._error(message, code="server_needs_input")
        return response

    async def _request(
        self, send: Callable[[McpClientSession, Any], Awaitable[T]], *, timeout_s: float
    ) -> T:
        """Start the server if necessary, and send a request. Raises ServerFailed if that fails."""
        # Loading the SDK takes a second, and should not block other tasks.
        sdk = await asyncio.to_thread(load_mcp_sdk)
        client = await self._ready_session(sdk)
        try:
            async with asyncio.timeout(timeout_s):
                response = await send(client, sdk.types)
        except TimeoutError as exc:
            raise self._error(f"no response within {timeout_s:g} s", code="server_timeout") from exc
        except sdk.MCPError as exc:
            raise await self._explain_error(exc, client, sdk) from exc
        except (ValueError, RuntimeError, OSError) as exc:
            problem, reason = "the request cannot be sent", str(exc)
            raise build_failure(self.spec, problem, reason, code="server_not_askable") from exc
        self._starts = 0
        return response

    async def _ready_session(self, sdk: McpSdk) -> McpClientSession:
        client = self._current_session(sdk)
        try:
            return await client.ready()
        except ServerFailed:
            if not client.closed_on_handshake:
                raise
        self._uses_old_protocol = True
        return await self._current_session(sdk).ready()

    def _current_session(self, sdk: McpSdk) -> McpClientSession:
        """Return the current session, or start one. Raises ServerFailed if none may be started."""
        if self._is_closed:
            raise self._error("the session is closed", code="session_closed")
        if not self.spec.is_usable:
            raise _unusable_error(self.spec)
        if self._session is None or self._session.is_gone:
            self._count_start()
            self._session = client = McpClientSession(
                self.spec, folder=self._folder, sdk=sdk, uses_old_protocol=self._uses_old_protocol
            )
            self._sessions.add(client)
            client.task.add_done_callback(lambda _: self._sessions.discard(client))
        return self._session

    def _count_start(self) -> None:
        if self._starts >= MAX_STARTS:
            if self._now() - self._started_at < _RESTART_DELAY_S:
                raise self._error(
                    f"the server was started {MAX_STARTS} times without responding; "
                    f"steno does not start it again for {_RESTART_DELAY_S} s",
                    code="too_many_starts",
                )
            self._starts = 0
        # If the session never responded, its caller has already received an error.
        if self._session is not None and self._session.session is not None:
            text = f"mcp {self.name}: the server has ended and is restarted"
            self._notify(SetupNotice("server_restarted", text))
        self._starts += 1
        self._started_at = self._now()

    async def _explain_error(self, exc: Any, client: McpClientSession, sdk: McpSdk) -> ServerFailed:
        """Return the error for a lost connection, or for a request that the server refused."""
        is_over = is_session_gone(exc) or not await client.is_session_known()
        if is_over:
            client.disconnect()
            # The last output of the server may still arrive.
            await asyncio.wait([client.task], timeout=_STDERR_WAIT_S)
        if is_over or is_stream_broken(exc, sdk):
            problem = "the connection to the server was lost during a call"
            return build_failure(self.spec, problem, code="server_gone", tail=client.tail)
        self._starts = 0
        problem = "the server refused the request"
        return build_failure(self.spec, problem, exc.message, code="server_refused")

    async def aclose(self) -> None:
        """End the server and every process that it started. This may be called more than once."""
        self._is_closed = True
        await asyncio.gather(*[client.aclose() for client in [*self._sessions]])


# -- one session with a server --------------------------------------------------------------------

_CLOSE_TIMEOUT_S: Final = 5
_PING_TIMEOUT_S: Final = 3
_MAX_SERVER_REQUESTS: Final = 1_000
"""The maximum number of requests that a server may send without responding to one of steno's."""
_RESPONSES: Final[ContextVar[list[dict[str, Any]] | None]] = ContextVar(
    "steno_mcp_responses", default=None
)


@final
class McpClientSession:
    """One session with a server, from its start to its end. `ready` waits for the handshake.

    The task that enters a scope of the SDK must also leave it, so one task owns all scopes, and
    other tasks send requests through its session. Responses are recorded as received, because the
    SDK refuses a whole list of tools if one of them is invalid. With `uses_old_protocol`, the
    session begins with the handshake of the older protocol.
    """

    def __init__(
        self, spec: McpServerSpec, *, folder: Path, sdk: McpSdk, uses_old_protocol: bool = False
    ) -> None:
        self._spec = spec
        self._uses_old_protocol = uses_old_protocol
        self._folder = folder
        self.sdk: Final = sdk
        self._handshake_done = asyncio.Event()
        self._disconnecting = asyncio.Event()
        self._failure: ServerFailed | None = None
        self.session: Any = None
        self._has_server_session = False
        """Whether the server stores a session, which it may lose."""
        self.closed_on_handshake: bool = False
        """Whether the server ended at the handshake, as some older servers do."""
        self.tail: Final = StderrTail()
        self.task: Final = start_task(self._run(), name=f"mcp {spec.name}")
        self.task.add_done_callback(self._on_task_done)  # even if cancelled before it starts

    @property
    def is_gone(self) -> bool:
        """Whether the session has ended."""
        return self._disconnecting.is_set() or self.task.done()

    async def ready(self) -> Self:
        """Wait until the handshake is done. Raises ServerFailed if the handshake fails."""
        await self._handshake_done.wait()
        if self._failure is not None:
            failure = self._failure
            raise ServerFailed(failure.message, code=failure.code, place=failure.place)
        return self

    async def request(self, request: Awaitable[object]) -> dict[str, Any]:
        """Await a request of the SDK's session, and return the response as received.

        Exceptions of the SDK propagate.
        """
        responses: list[dict[str, Any]] = []
        token = _RESPONSES.set(responses)
        try:
            await request
        except self.sdk.ValidationError:
            if not responses:
                raise
        finally:
            _RESPONSES.reset(token)
        return responses[-1]

    async def send(self, kind: str, params: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Send a request, and return the response; `kind` is the SDK's name for the request."""
        types = self.sdk.types
        request_params = getattr(types, f"{kind}RequestParams")(**params)
        request = getattr(types, f"{kind}Request")(params=request_params)
        return await self.request(self.session.send_request(request, types.EmptyResult, **options))

    async def is_session_known(self) -> bool:
        """Return whether the server still knows the session; True if the server stores no sessions.

        After a restart, a server refuses every request of an old session, with an error text that
        differs between servers. A server that does not respond in time counts as knowing the
        session.
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
            pass  # a slow server still has its session
        return True

    def disconnect(self) -> None:
        """Request that the session ends."""
        self._disconnecting.set()

    async def aclose(self) -> None:
        """End the session, and wait until the server has ended."""
        self.disconnect()
        if not self._handshake_done.is_set():
            self.task.cancel()  # there was no response yet, so there is no session to close
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
                # Without callbacks for sampling, elicitation and roots, the SDK does not offer
                # them, and refuses requests for them.
                async with self.sdk.ClientSession(
                    dispatcher=dispatcher, client_info=info
                ) as session:
                    # A newer server supports `discover`, an older one only `initialize`.
                    with self.sdk.anyio.fail_after(self._spec.start_timeout_s):
                        if self._uses_old_protocol or not await self._discover(session):
                            await self._initialize(session)
                    # An older server refused the newer handshake first, which is not an error.
                    self.tail.clear_notes()
                    self.session = session
                    self._handshake_done.set()
                    await self._disconnecting.wait()
        except Exception as exc:  # noqa: BLE001 - any exception ends the session
            self._fail_on(_first_exception(exc))

    def _on_task_done(self, _: asyncio.Task[None]) -> None:
        if not self._handshake_done.is_set() and self._failure is None:
            self._fail("the server was stopped", code="server_stopped")
        self._disconnecting.set()
        self._handshake_done.set()

    def _transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._spec.command:
            return open_stdio(self._spec, folder=self._folder, tail=self.tail, sdk=self.sdk)
        return open_http(self._spec, tail=self.tail, sdk=self.sdk)

    async def _discover(self, session: Any) -> bool:
        try:
            await session.discover()
        except self.sdk.MCPError as exc:
            self.closed_on_handshake = bool(self._spec.command) and is_connection_closed(exc)
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
            # A newer server that started so slowly that `discover` timed out.
            await session.discover()

    def _fail_on(self, exc: BaseException) -> None:
        was_reached = isinstance(exc, self.sdk.MCPError)
        if isinstance(exc, TimeoutError):
            code = "server_start_timeout"
        elif not self._spec.url:
            code = "server_not_started"
        else:
            code = "server_unusable" if was_reached else "server_unreachable"
        self._fail(_failure_reason(exc), code=code, was_reached=was_reached)

    def _fail(self, reason: str, *, code: str, was_reached: bool = False) -> None:
        """Store a failure of the handshake for the waiting tasks.

        After the handshake, the reason is added to the tail as a note instead.
        """
        if self._handshake_done.is_set():
            self.tail.add_note(self._spec.redact_secrets(reason))
            return
        problem = "cannot be started"
        if self._spec.url:
            address = self._spec.redact_secrets(strip_url_secrets(self._spec.url) or "the URL")
            problem = f"{address} cannot be {'used' if was_reached else 'reached'}"
        self._failure = build_failure(self._spec, problem, reason, code=code, tail=self.tail)


class _RecordingDispatcher:
    """A wrapper of the SDK's dispatcher that records raw responses.

    The session ends when the dispatcher ends, or when the server sends too many requests without a
    response.
    """

    def __init__(self, inner: Any, client: McpClientSession) -> None:
        self._inner = inner
        self._client = client
        self._request_count = 0

    async def run(self, on_request: Callable[..., Any], *args: Any, **options: Any) -> None:
        scope = self._client.sdk.anyio.CancelScope()

        async def handle_request(*arguments: Any) -> Any:
            # Each request is a task that waits until the server reads the response, maybe never.
            self._request_count += 1
            if self._request_count > _MAX_SERVER_REQUESTS:
                self._client.tail.add_note(
                    f"the server sent {_MAX_SERVER_REQUESTS:,} requests and no response"
                )
                scope.cancel()
            return await on_request(*arguments)

        try:
            with scope:
                await self._inner.run(handle_request, *args, **options)
        finally:
            self._client.disconnect()

    async def notify(self, *args: Any, **options: Any) -> None:
        await self._inner.notify(*args, **options)

    async def send_raw_request(self, *args: Any, **options: Any) -> dict[str, Any]:
        response: dict[str, Any] = await self._inner.send_raw_request(*args, **options)
        self._request_count = 0
        if (responses := _RESPONSES.get()) is not None:
            responses.append(dict(response))
        return response


def build_failure(
    spec: McpServerSpec,
    problem: str,
    reason: str = "",
    *,
    code: str,
    tail: StderrTail | None = None,
) -> ServerFailed:
    """Return an error with the problem, the reason and the last output of a server."""
    # Redact before truncating, because half of a secret would not be found.
    shown = escape_text(spec.redact_secrets(reason))
    parts = [problem, shown, spec.redact_secrets(str(tail or ""))]
    message = ": ".join([part for part in parts if part])
    return ServerFailed(message, code=code, place=f"mcp {spec.name}")


def _unusable_error(spec: McpServerSpec) -> ServerFailed:
    place = f"mcp {spec.name}"
    if spec.problem:
        return ServerFailed(spec.problem, code="server_misconfigured", place=place)
    return ServerFailed("the server is disabled", code="server_disabled", place=place)


def _first_exception(exc: BaseException) -> BaseException:
    """Return the first exception in a group, or the exception itself if it is not a group."""
    return _first_exception(exc.exceptions[0]) if isinstance(exc, BaseExceptionGroup) else exc


def _failure_reason(exc: BaseException) -> str:
    """Return the reason for a failure as text."""
    match exc:
        case FileNotFoundError() | NotADirectoryError() | PermissionError():
            return f"{exc.filename or 'command'}: {exc.strerror}"
        case TimeoutError():
            return "no response in time"
        case ValueError():
            return "the response of the server does not follow the protocol"
        case _:
            return str(exc) or type(exc).__name__


# -- progress -------------------------------------------------------------------------------------

THROTTLE_INTERVAL_S: Final = 0.1


@final
class Throttle:
    """A context manager that limits the rate of calls to a callback.

    The first text is passed on immediately. Of several texts in one interval, only the last is
    passed on. The last text of all is always passed on, at the latest when the block ends.
    """

    def __init__(
        self, callback: Callable[[str], object], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._callback = callback
        self._now = now
        self._next_at = now()
        self._pending: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Pass on a text, now or after the interval, unless a newer text replaces it."""
        self._pending = text
        left_s = self._next_at - self._now()
        if left_s <= 0:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending is not None:
            text, self._pending = self._pending, None
            self._next_at = self._now() + THROTTLE_INTERVAL_S
            self._callback(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._flush()
