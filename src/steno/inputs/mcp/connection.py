"""A server that can be asked at any time: started by the first question, and again if it is gone.

Everything has a bound. Until a server has answered, and until it has listed what it has,
`start_timeout_s` may pass; a call, a resource and a prompt may take `call_timeout_s`, and progress
that is reported on the way does not make that longer: a server could report it for ever.
What any answer means is not known here, nor who asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar, final

from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.client_session import CLOSED_MESSAGE, McpClientSession, explain_failure
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
from steno.inputs.mcp.sdk import MAX_MESSAGE_BYTES, McpSdk, load_mcp_sdk
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.untrusted_data import escape_text, is_encodable

# -- pace ------------------------------------------------------------------------------------------
#
# Passes words on at a pace that people can follow: some servers report progress without a pause.


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


MAX_STARTS: Final = 3
"""How often in a row a server is started without an answer to any question."""


_RESTART_DELAY_S: Final = 60
"""How long it is left alone after that."""


_MAX_PAGES: Final = 100


_STDERR_WAIT_S: Final = 3


_GONE_MESSAGES: Final = (CLOSED_MESSAGE, "Session terminated")
"""What the SDK says when a server is gone, or does not know of us any more."""


_BROKEN_STREAM_PREFIX: Final = "SSE stream"
"""How it begins when one answer has broken off."""


T = TypeVar("T")


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
            raise ServerFailed(f"mcp {self.name}: {exc}") from exc

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
                f"mcp {self.name}: it cannot be asked this: a name or a value is no valid Unicode"
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
                f"mcp {self.name}: the server asks for something in return, which is not offered"
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
            raise ServerFailed(f"mcp {self.name}: no answer within {timeout_s:g} s") from exc
        except loaded.MCPError as exc:
            raise await self._explain_error(exc, link, loaded) from exc
        except (ValueError, RuntimeError, OSError) as exc:
            raise ServerFailed(explain_failure(self.spec, "cannot be asked", str(exc))) from exc
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
            raise ServerFailed(f"mcp {self.name}: the session is over")
        if not self.spec.is_usable:
            raise ServerFailed(f"mcp {self.name}: {self.spec.problem or 'it is switched off'}")
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
                    f"mcp {self.name}: it was started {MAX_STARTS} times in a row and has not "
                    f"answered; it is left alone for {_RESTART_DELAY_S} s"
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
        is_over = exc.message in _GONE_MESSAGES or not await link.is_session_known()
        if is_over:
            link.disconnect()
            # What it said last may still be on its way.
            await asyncio.wait([link.task], timeout=_STDERR_WAIT_S)
        if is_over or (
            exc.code == loaded.types.CONNECTION_CLOSED
            and exc.message.startswith(_BROKEN_STREAM_PREFIX)
        ):
            what = "the server went away in the middle of a call"
            return ServerFailed(explain_failure(self.spec, what, tail=link.tail))
        self._starts = 0
        return ServerFailed(explain_failure(self.spec, "the server says no", exc.message))

    async def aclose(self) -> None:
        """End the server, with all that it has started. May be called again."""
        self._is_closed = True
        await asyncio.gather(*[link.aclose() for link in [*self._sessions]])


# -- servers ---------------------------------------------------------------------------------------
#
# All servers of a session: by name, started when they are needed, ended together.


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
            raise ServerFailed(f"mcp {name}: {spec.problem or 'it is switched off'}")
        known = ", ".join(self._connections) or "none"
        raise ServerFailed(f"mcp: there is no server of this name; those there are: {known}")

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
