"""Resources of MCP servers that a person points at: read with permission, and kept while fresh.

How long one holds is said by the server; where it is not, by the user for its type; else it is
an hour. What is kept is what the record keeps, so that a conversation that goes on another day
can begin with what its log already holds.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.content import Image, ImageData, Opaque, Resource, Text
from steno.entry import Resolution, ResolutionStatus
from steno.errors import InvalidValue, ServerFailed, ToolFailed
from steno.identity import utc_now
from steno.inputs.mcp.names import name_of_server
from steno.inputs.mcp.parts import ResourceLimits, parts_of, type_of
from steno.inputs.mcp.patterns import fits
from steno.inputs.mcp.said import Contents, Server
from steno.inputs.mcp.uris import normal_uri, short_uri, shown_uri
from steno.inputs.permitting import permitted
from steno.ports import Capability, Finding, Fit, Viewer

KIND: Final = "resource"
"""What the details of such a finding call it."""
_HOUR_S: Final = 3_600.0
_LONGEST_TTL_S: Final = 24 * _HOUR_S
"""No server is believed for longer."""
_LIMITS: Final = ResourceLimits()

_Content: TypeAlias = tuple[Text | Image | Resource | Opaque, ...]


class _Fetched(NamedTuple):
    """A resource as it was found once."""

    content: _Content
    details: Mapping[str, Any]
    note: str = ""


@final
class Resources:
    """Finds out what is behind the resources that messages point at."""

    def __init__(
        self,
        server_of: Callable[[str], Server],
        *,
        ttl_s: Mapping[str, Mapping[str, float]] = {},
        default_ttl_s: float = _HOUR_S,
        limits: ResourceLimits = _LIMITS,
        fit: Fit | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Take who knows the servers by name, and raises ServerFailed.

        `ttl_s` has for a server how many seconds its resources hold, by their type (`text/*`) or
        `*`. `fit` makes images small and clean; without it none is shown. Raises InvalidValue
        for times that are none.
        """
        for seconds in [default_ttl_s, *[s for types in ttl_s.values() for s in types.values()]]:
            if not 0 <= seconds < math.inf:
                raise InvalidValue("ttl_s: how long a resource holds is a number of 0 or more")
        self._server_of = server_of
        self._ttl_s = ttl_s
        self._default_ttl_s = default_ttl_s
        self._limits = limits
        self._fit = fit
        self._now = now
        self._cache = _Cache(limits.most_bytes)

    async def resolve(self, resource: Resource, viewer: Viewer) -> Finding:
        """Return what a server holds there. What cannot be read is a finding with an error."""
        if resource.text is not None or resource.data is not None:
            contents = (Contents(resource.uri, resource.mime_type, resource.text, resource.data),)
            retrieved_at = resource.retrieved_at or self._now()
            return _finding(await self._build_cached(resource, contents, None, retrieved_at))
        try:
            return await self._resolve(replace(resource, uri=normal_uri(resource.uri)), viewer)
        except (InvalidValue, ServerFailed, ToolFailed) as exc:
            return Finding(error=str(exc))

    async def _resolve(self, resource: Resource, viewer: Viewer) -> Finding:
        server = self._server_of(resource.server)
        allowed_by = await _permitted(viewer, resource, server)
        kept = self._cache.get(_key(resource))
        if kept is not None and self._is_fresh(kept.details):
            return _finding(kept, allowed_by=allowed_by, from_cache=True)
        uri = short_uri(resource.uri)
        viewer.report_progress(f"reading {uri} from the MCP server {server.name}")
        read = await server.read(resource.uri)
        if all(part.text is None and part.data is None for part in read.contents):
            raise ServerFailed(f"mcp {server.name}: there is nothing in {uri}")
        ttl_s = self._choose_ttl(resource, read.contents[0].mime_type, read.ttl_s)
        fetched = await self._build_cached(resource, read.contents, ttl_s, self._now())
        self._cache.put(_key(resource), fetched)
        return _finding(fetched, allowed_by=allowed_by)

    def is_current(self, resource: Resource, resolution: Resolution, viewer: Viewer) -> bool:
        """Tell whether what was read is still fresh."""
        del resource, viewer  # the record says it all
        return self._is_valid(resolution)

    async def changes(
        self, resource: Resource, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return nothing: whether it has changed is known only to the server."""
        del resource, resolution
        return ()

    def remember(self, resource: Resource, resolution: Resolution) -> None:
        """Take what the log of a conversation holds, to be used again while it is fresh."""
        try:
            key = _key(replace(resource, uri=normal_uri(resource.uri)))
        except InvalidValue:  # nobody will ask for it again
            return
        details, kept = resolution.details or {}, self._cache.get(key)
        is_newer = kept is None or _retrieved_at(kept.details) < _retrieved_at(details)
        if is_newer and details.get("ttl_s") is not None and self._is_valid(resolution):
            self._cache.put(key, _Fetched(resolution.content, details))

    # -- how long it holds -------------------------------------------------------------------

    def _choose_ttl(self, resource: Resource, mime_type: str | None, given_s: float | None) -> float:
        if given_s is not None and given_s >= 0:  # also not if it is no number
            return min(given_s, _LONGEST_TTL_S)
        kind = (type_of(mime_type) or "").partition(";")[0].strip().lower()
        types = self._ttl_s.get(resource.server, {})
        if kind in types:
            return types[kind]
        # The pattern that says the most counts, not the one that happens to stand first.
        found = [pattern for pattern in types if fits(pattern.lower(), kind)]
        return types[max(found, key=len)] if found else self._default_ttl_s

    def _is_valid(self, resolution: Resolution) -> bool:
        details = resolution.details
        if resolution.status is not ResolutionStatus.RESOLVED or details is None:
            return False
        # What came with a message holds as long as that.
        is_part_of_message = details.get("ttl_s", 0) is None
        return details.get("kind") == KIND and (is_part_of_message or self._is_fresh(details))

    def _is_fresh(self, details: Mapping[str, Any]) -> bool:
        ttl_s = details.get("ttl_s")
        age_s = (self._now() - _retrieved_at(details)).total_seconds()
        return isinstance(ttl_s, (int, float)) and 0 <= age_s < ttl_s

    # -- what was read -----------------------------------------------------------------------

    async def _build_cached(
        self,
        resource: Resource,
        contents: tuple[Contents, ...],
        ttl_s: float | None,
        retrieved_at: datetime,
    ) -> _Fetched:
        parts = await asyncio.to_thread(
            parts_of,
            contents,
            resource,
            limits=self._limits,
            fit=self._fit,
            retrieved_at=retrieved_at,
        )
        details = {
            "kind": KIND,
            "server": resource.server,
            "uri": shown_uri(resource.uri),
            "mime_type": type_of(contents[0].mime_type),
            "sha256": parts.sha256,
            "bytes": parts.size,
            "retrieved_at": retrieved_at.isoformat(),
            "ttl_s": ttl_s,
            "shortened": parts.shortened,
            "parts": len(contents),
        }
        note = "; ".join(parts.notes)
        return _Fetched(parts.content, details, note and f"{details['uri']}: {note}")


@final
class _Cache:
    """What was fetched, as much as there is room for; what was not used for longest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], tuple[_Fetched, int]] = OrderedDict()

    def get(self, key: tuple[str, str]) -> _Fetched | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: tuple[str, str], fetched: _Fetched) -> None:
        size = sum(map(_size_of, fetched.content))
        self._size += size - self._kept.pop(key, (None, 0))[1]
        self._kept[key] = fetched, size
        while self._size > self._most:
            _, (_, gone) = self._kept.popitem(last=False)
            self._size -= gone


def _size_of(part: Text | Image | Resource | Opaque) -> int:
    match part:
        case Text():
            return len(part.text)
        case Resource():
            return len(part.text or "") + len(part.data or b"")
        case Image():
            return len(part.source.data) if isinstance(part.source, ImageData) else 0
        case Opaque():
            return len(part.raw)


def _key(resource: Resource) -> tuple[str, str]:
    return resource.server, resource.uri


async def _permitted(viewer: Viewer, resource: Resource, server: Server) -> str:
    """Return what allows a resource to be read. Raises ToolFailed."""
    uri = short_uri(resource.uri)
    return await permitted(
        viewer,
        name_of_server(server.name),
        Capability.READ,
        shown_uri(resource.uri),  # who reads it is nothing that a rule is about
        name=uri,
        preview=f"read {uri} from the MCP server {server.name}",
    )


def _finding(
    fetched: _Fetched, *, allowed_by: str | None = None, from_cache: bool = False
) -> Finding:
    """Return what was found; what came with a message had to be allowed by nobody."""
    details = {**fetched.details, "from_cache": from_cache}
    if allowed_by is not None:
        details["allowed_by"] = allowed_by
    return Finding(content=fetched.content, details=details, note=fetched.note)


def _retrieved_at(details: Mapping[str, Any]) -> datetime:
    """Return when something was read; long ago if a record does not say so as we do."""
    try:
        when = datetime.fromisoformat(str(details.get("retrieved_at")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
