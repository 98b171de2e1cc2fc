"""Connections to MCP servers: started by the first request, and again if the server is gone.

Everything has a bound. A server has `start_timeout_s` to respond for the first time and to list what
it offers; a call, a resource and a prompt may take `call_timeout_s`, and reported progress does not
extend that: a server could report it for ever. `McpConnection` lasts as long as the session of
steno, an `McpClientSession` from one start of a server until it is gone. This module knows neither
who asks nor what a response means.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType, TracebackType
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
from steno.ports import strip_url_secrets

MAX_STARTS: Final = 3
"""How often in a row a server is started without an answer to any question."""
_RESTART_DELAY_S: Final = 60
"""How long it is left alone after that."""
_MAX_PAGES: Final = 100
_STDERR_WAIT_S: Final = 3

T = TypeVar("T")


@final
class McpServers:
    """The servers that a user has set up; `async with` ends them. Constructing starts none.

    Of two specs of one name the later one counts. Iterating gives those that can be asked.
    """

    def __init__(
        self,
        specs: Iterable[McpServerSpec],
        *,
        folder: Path,
        notify: Callable[[str], object] = lambda _: None,
    ) -> None:
        by_name = {spec.name: spec for spec in specs}
        self.specs: Final[Mapping[str, McpServerSpec]] = MappingProxyType(by_name)
        """Every server by its name, also those that cannot be used."""
        self._connections = {
            spec.name: McpConnection(spec, folder=folder, notify=notify)
            for spec in by_name.values()
            if spec.is_usable
        }

    def __iter__(self) -> Iterator[McpConnection]:
        return iter(self._connections.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The servers that can be asked."""
        return tuple(self._connections)

    def get(self, name: str) -> McpConnection:
        """Return a server. Raises ServerFailed, which says which there are, or what it lacks."""
        if (connection := self._connections.get(name)) is not None:
            return connection
        if (spec := self.specs.get(name)) is not None:
            raise _unusable_error(spec)
        known = ", ".join(self._connections) or "none"
        raise ServerFailed(
            f"there is no server of this name; those there are: {known}",
            code="server_not_found",
            place="mcp",
        )

    async def aclose(self) -> None:
        """End all of them, at once."""
        await asyncio.gather(*[server.aclose() for server in self._connections.values()])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


@final
class McpConnection:
    """A `Server` of `said`, reached as its spec says. Constructing it starts nothing.

    `notify` is told what people may want to know. Any number of tasks may ask at once.
    """

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        folder: Path,
        notify: Callable[[str], object] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec: Final = spec
        self._folder = folder
        self._notify = notify
        self._now = now
        self._session: McpClientSession | None = None
        self._sessions: set[McpClientSession] = set()
        self._starts = 0
        """How many there were since the last answer."""
        self._started_at = 0.0
        self._uses_old_protocol = False
        """Whether it takes nothing but the words of the older protocol."""
        self._is_closed = False
        self._notified: set[str] = set()

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.spec.name

    @property
    def read_only_tools(self) -> tuple[str, ...]:
        """Tools of which the user says that they only read: names, or patterns with `*`."""
        return self.spec.reads

    @property
    def protocol(self) -> str | None:
        """The version of the protocol that was agreed on; None before the first answer."""
        version = (
            None
            if self._session is None
            else getattr(self._session.session, "protocol_version", None)
        )
        return version if isinstance(version, str) else None

    @property
    def is_connected(self) -> bool:
        """Whether it has answered, and is still there to be asked."""
        link = self._session
        return link is not None and link.session is not None and not link.is_gone

    # -- questions ---------------------------------------------------------------------------

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return all tools. Raises ServerFailed."""
        return await self._list_all("list_tools", decode_tools, part="tools")

    async def resources(self) -> tuple[ListedResource, ...]:
        """Return all resources and templates. Raises ServerFailed."""
        return (
            *await self._list_all("list_resources", decode_resources, part="resources"),
            *await self._list_all("list_resource_templates", decode_templates, part="resources"),
        )

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        """Return all prompts. Raises ServerFailed."""
        return await self._list_all("list_prompts", decode_prompts, part="prompts")

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> CallToolResult:
        """Call a tool. If cancelled, the server is told so. Raises ServerFailed."""
        self._check_sendable(tool, arguments)
        paced = Throttle(progress)

        async def report(done: float, total: float | None, message: str | None) -> None:
            of = "" if total is None else f"/{total:g}"
            paced(f"{done:g}{of} {escape_text(message or '', 200)}".strip())

        async def question(link: McpClientSession, types: Any) -> dict[str, Any]:
            params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
            request = types.CallToolRequest(params=params)
            ask = link.session.send_request
            try:
                return await link.ask(ask(request, types.EmptyResult, progress_callback=report))
            except load_mcp_sdk().MCPError as exc:
                if exc.code != types.HEADER_MISMATCH:
                    raise
            # It wants some arguments in headers too, and only its list of tools says which.
            await self.tools()
            return await link.ask(ask(request, types.EmptyResult, progress_callback=report))

        with paced:
            return decode_call_result(await self._ask_for_result(question))

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource; nothing is kept to be used again. Raises ServerFailed."""
        self._check_sendable(uri)

        async def question(link: McpClientSession, types: Any) -> dict[str, Any]:
            params = types.ReadResourceRequestParams(uri=uri)
            request = types.ReadResourceRequest(params=params)
            return await link.ask(link.session.send_request(request, types.EmptyResult))

        answer = await self._ask_for_result(question)
        try:
            return decode_resource(answer)
        except InvalidValue as exc:
            raise ServerFailed(str(exc), code=exc.code, place=f"mcp {self.name}") from exc

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return a prompt with its arguments filled in. Raises ServerFailed."""
        self._check_sendable(name, arguments)

        async def question(link: McpClientSession, types: Any) -> dict[str, Any]:
            params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
            request = types.GetPromptRequest(params=params)
            return await link.ask(link.session.send_request(request, types.EmptyResult))

        return decode_prompt_messages(await self._ask_for_result(question))

    # -- how they are asked ------------------------------------------------------------------

    def _check_sendable(self, *said: object) -> None:
        if not is_encodable(said):
            raise ServerFailed(
                "it cannot be asked this: a name or a value is no valid Unicode",
                code="not_sendable",
                place=f"mcp {self.name}",
            )

    async def _list_all(
        self, verb: str, items_in: Callable[[Mapping[str, Any]], Iterable[T]], *, part: str
    ) -> tuple[T, ...]:
        """Return what is on all pages; nothing if the server has no such part."""

        async def question(link: McpClientSession, types: Any) -> tuple[T, ...]:
            if getattr(link.session.server_capabilities, part, None) is None:
                return ()
            listed: list[T] = []
            async for page in self._pages(link, getattr(link.session, verb), types):
                listed += items_in(page)
            return tuple(listed)

        return await self._ask(question, timeout_s=self.spec.start_timeout_s)

    async def _pages(
        self, link: McpClientSession, list_page: Callable[..., Awaitable[object]], types: Any
    ) -> AsyncIterator[dict[str, Any]]:
        cursor: str | None = None
        room = MAX_MESSAGE_BYTES  # many pages may hold as much as one that is as large as can be
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            try:
                page = await link.ask(list_page(params=params))
            except load_mcp_sdk().MCPError as exc:
                if exc.code == types.METHOD_NOT_FOUND:
                    return
                raise
            yield page
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return
            room -= estimate_size(page)
            if room < 0:
                break
        self._notify_once(
            f"mcp {self.name}: it lists more than {_MAX_PAGES} pages, or "
            f"{MAX_MESSAGE_BYTES >> 20} MB; the rest is left out"
        )

    def _notify_once(self, text: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            self._notify(text)

    async def _ask_for_result(
        self, question: Callable[[McpClientSession, Any], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return the one answer to a question. Raises ServerFailed."""
        answer = await self._ask(question, timeout_s=self.spec.call_timeout_s)
        if answer.get("resultType", "complete") != "complete":
            raise ServerFailed(
                "the server asks for something in return, which is not offered",
                code="server_needs_input",
                place=f"mcp {self.name}",
            )
        return answer

    async def _ask(
        self, question: Callable[[McpClientSession, Any], Awaitable[T]], *, timeout_s: float
    ) -> T:
        """Ask a server that is there, within bounds. Raises ServerFailed."""
        # To load the SDK takes a second, in which others should not have to wait.
        loaded = await asyncio.to_thread(load_mcp_sdk)
        link = await self._ready_session(loaded)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await question(link, loaded.types)
        except TimeoutError as exc:
            raise ServerFailed(
                f"no answer within {timeout_s:g} s", code="server_timeout", place=f"mcp {self.name}"
            ) from exc
        except loaded.MCPError as exc:
            raise await self._explain_error(exc, link, loaded) from exc
        except (ValueError, RuntimeError, OSError) as exc:
            raise build_failure(
                self.spec, "cannot be asked", str(exc), code="server_not_askable"
            ) from exc
        self._starts = 0
        return answer

    async def _ready_session(self, loaded: McpSdk) -> McpClientSession:
        link = self._current_session(loaded)
        try:
            await link.ready()
        except ServerFailed:
            if not link.closed_on_handshake:
                raise
            self._uses_old_protocol = True
            link = self._current_session(loaded)
            await link.ready()
        return link

    def _current_session(self, loaded: McpSdk) -> McpClientSession:
        """Return the server as it runs, started if it does not. Raises ServerFailed."""
        if self._is_closed:
            raise ServerFailed(
                "the session is over", code="session_closed", place=f"mcp {self.name}"
            )
        if not self.spec.is_usable:
            raise _unusable_error(self.spec)
        if self._session is None or self._session.is_gone:
            self._count_start()
            self._session = link = McpClientSession(
                self.spec, folder=self._folder, sdk=loaded, is_older=self._uses_old_protocol
            )
            self._sessions.add(link)
            link.task.add_done_callback(lambda _: self._sessions.discard(link))
        return self._session

    def _count_start(self) -> None:
        if self._starts >= MAX_STARTS:
            if self._now() - self._started_at < _RESTART_DELAY_S:
                raise ServerFailed(
                    f"it was started {MAX_STARTS} times in a row and has not "
                    f"answered; it is left alone for {_RESTART_DELAY_S} s",
                    code="too_many_starts",
                    place=f"mcp {self.name}",
                )
            self._starts = 0
        # One that has never answered has failed, and whoever asked is told so.
        if self._session is not None and self._session.session is not None:
            self._notify(f"mcp {self.name}: it is gone, and is started again")
        self._starts += 1
        self._started_at = self._now()

    async def _explain_error(
        self, exc: Any, link: McpClientSession, loaded: McpSdk
    ) -> ServerFailed:
        """Say that the server is gone, or what it has against the question."""
        is_over = is_session_gone(exc) or not await link.is_session_known()
        if is_over:
            link.disconnect()
            # What it said last may still be on its way.
            await asyncio.wait([link.task], timeout=_STDERR_WAIT_S)
        if is_over or is_stream_broken(exc, loaded):
            what = "the server went away in the middle of a call"
            return build_failure(self.spec, what, code="server_gone", tail=link.tail)
        self._starts = 0
        return build_failure(self.spec, "the server says no", exc.message, code="server_refused")

    async def aclose(self) -> None:
        """End the server, with all that it has started. May be called again."""
        self._is_closed = True
        await asyncio.gather(*[link.aclose() for link in [*self._sessions]])


# -- one session with a server --------------------------------------------------------------------

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
        self._failure: ServerFailed | None = None
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
            failure = self._failure
            raise ServerFailed(failure.message, code=failure.code, place=failure.place)

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
            self._fail_on(_first_exception(exc))

    def _on_task_done(self, _: asyncio.Task[None]) -> None:
        if not self._settled.is_set() and self._failure is None:
            self._fail("it was stopped", code="server_stopped")
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
            # A newer server that started so slowly that we had stopped waiting for it.
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
        """Keep why the server cannot be asked: for the tasks that wait, or among its remarks."""
        if self._settled.is_set():
            self.tail.add_remark(self._spec.redact_secrets(reason))
        else:
            what = "cannot be started"
            if self._spec.url:
                address = self._spec.redact_secrets(strip_url_secrets(self._spec.url) or "its url")
                what = f"{address} cannot be {'used' if was_reached else 'reached'}"
            self._failure = build_failure(self._spec, what, reason, code=code, tail=self.tail)


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


def build_failure(
    spec: McpServerSpec, what: str, reason: str = "", *, code: str, tail: StderrTail | None = None
) -> ServerFailed:
    """Return an error that tells what went wrong with a server, why, and its last output."""
    # Redacted before it is cut: half of a secret would not be found.
    shown = escape_text(spec.redact_secrets(reason))
    parts = [what, shown, spec.redact_secrets(str(tail or ""))]
    message = ": ".join([part for part in parts if part])
    return ServerFailed(message, code=code, place=f"mcp {spec.name}")


def _unusable_error(spec: McpServerSpec) -> ServerFailed:
    place = f"mcp {spec.name}"
    if spec.problem:
        return ServerFailed(spec.problem, code="server_misconfigured", place=place)
    return ServerFailed("it is switched off", code="server_disabled", place=place)


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


# -- progress -------------------------------------------------------------------------------------

THROTTLE_INTERVAL_S: Final = 0.1


@final
class Throttle:
    """Tells somebody what it is told, while `with` lasts: of many words at once, the last.

    The first comes through at once, and the last for sure, at the end if not before.
    """

    def __init__(
        self, tell: Callable[[str], object], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._callback = tell
        self._now = now
        self._next_at = now()
        self._waiting: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Tell it, now or when it is time, unless something newer has come by then."""
        self._waiting = text
        left_s = self._next_at - self._now()
        if left_s <= 0:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            text, self._waiting = self._waiting, None
            self._next_at = self._now() + THROTTLE_INTERVAL_S
            self._callback(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()
