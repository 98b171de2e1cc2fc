"""Resolve resources of MCP servers: read with permission, cached while they are fresh.

A server states how long a resource stays fresh; where it does not, the user's setting for its type
counts, else an hour. The cache holds what the log holds, so a session that is resumed another day
starts with the resources in its log.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.errors import InvalidValue, ServerFailed, ToolFailed
from steno.ids import utc_now
from steno.inputs.mcp.protocol import McpServer, ResourceContents
from steno.inputs.mcp.resource_blocks import ResourceLimits, build_resource_blocks, clean_mime_type
from steno.inputs.mcp.resource_uri import normalize_uri, redact_uri, shorten_uri
from steno.inputs.mcp.server_spec import matches_wildcard
from steno.inputs.mcp.tool_definitions import mcp_server_name
from steno.messages.content import Image, ImageData, Opaque, Resource, Text
from steno.ports import Capability, PrepareImage, ResolveContext, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus

RESOURCE_KIND: Final = "resource"
"""The `kind` in the details of a resolved resource."""
_HOUR_S: Final = 3_600.0
_MAX_TTL_S: Final = 24 * _HOUR_S
"""No server is believed for longer."""


_DEFAULT_LIMITS: Final = ResourceLimits()


@final
class ResourceResolver:
    """Resolves the resources of messages."""

    def __init__(
        self,
        server_of: Callable[[str], McpServer],
        *,
        ttl_s: Mapping[str, Mapping[str, float]] = {},
        default_ttl_s: float = _HOUR_S,
        limits: ResourceLimits = _DEFAULT_LIMITS,
        prepare_image: PrepareImage | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Take a function that returns a server by name or raises ServerFailed.

        `ttl_s` maps a server to the seconds that its resources stay fresh, by type (`text/*`) or
        `*`. Without `prepare_image` no image is shown. Raises InvalidValue for an invalid time.
        """
        for seconds in [default_ttl_s, *[s for types in ttl_s.values() for s in types.values()]]:
            if not 0 <= seconds < math.inf:
                raise InvalidValue(
                    "how long a resource holds is a number of 0 or more",
                    code="invalid_ttl",
                    place="ttl_s",
                )
        self._server_of = server_of
        self._ttl_s = ttl_s
        self._default_ttl_s = default_ttl_s
        self._limits = limits
        self._prepare_image = prepare_image
        self._now = now
        self._cache = _ResourceCache(limits.max_bytes)

    async def resolve(self, resource: Resource, context: ResolveContext) -> ResolvedReference:
        """Return the content of a resource. A failure is a result with an error."""
        if resource.text is not None or resource.data is not None:
            contents = (
                ResourceContents(resource.uri, resource.mime_type, resource.text, resource.data),
            )
            retrieved_at = resource.retrieved_at or self._now()
            return _build_resolved_reference(
                await self._build_cached(resource, contents, None, retrieved_at)
            )
        try:
            return await self._resolve(replace(resource, uri=normalize_uri(resource.uri)), context)
        except (InvalidValue, ServerFailed, ToolFailed) as exc:
            return ResolvedReference(error=str(exc), error_code=exc.code)

    async def _resolve(self, resource: Resource, context: ResolveContext) -> ResolvedReference:
        server = self._server_of(resource.server)
        allowed_by = await _require_read_permission(context, resource, server)
        cached = self._cache.get(_cache_key(resource))
        if cached is not None and self._is_fresh(cached.details):
            return _build_resolved_reference(cached, allowed_by=allowed_by, from_cache=True)
        uri = shorten_uri(resource.uri)
        context.report_progress(f"reading {uri} from the MCP server {server.name}")
        response = await server.read(resource.uri)
        if all(part.text is None and part.data is None for part in response.contents):
            raise ServerFailed(
                f"there is nothing in {uri}", code="resource_empty", place=f"mcp {server.name}"
            )
        ttl_s = self._choose_ttl(resource, response.contents[0].mime_type, response.ttl_s)
        fetched = await self._build_cached(resource, response.contents, ttl_s, self._now())
        self._cache.put(_cache_key(resource), fetched)
        return _build_resolved_reference(fetched, allowed_by=allowed_by)

    def is_current(
        self, resource: Resource, resolution: Resolution, context: ResolveContext
    ) -> bool:
        """Return whether a resource that was read is still fresh."""
        del resource, context  # details of the resolution suffice
        return self._is_valid(resolution)

    async def changes(
        self, resource: Resource, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return nothing: only the server knows whether it has changed."""
        del resource, resolution
        return ()

    def add_to_cache(self, resource: Resource, resolution: Resolution) -> None:
        """Add a resource from the log to the cache, while it is fresh."""
        try:
            key = _cache_key(replace(resource, uri=normalize_uri(resource.uri)))
        except InvalidValue:  # it cannot be requested again
            return
        details, cached = resolution.details or {}, self._cache.get(key)
        is_newer = cached is None or _retrieved_at(cached.details) < _retrieved_at(details)
        if is_newer and details.get("ttl_s") is not None and self._is_valid(resolution):
            self._cache.put(key, _CachedResource(resolution.content, details))

    # -- freshness ----------------------------------------------------------------------------

    def _choose_ttl(
        self, resource: Resource, mime_type: str | None, server_ttl_s: float | None
    ) -> float:
        if server_ttl_s is not None and server_ttl_s >= 0:  # NaN fails the comparison
            return min(server_ttl_s, _MAX_TTL_S)
        kind = (clean_mime_type(mime_type) or "").partition(";")[0].strip().lower()
        types = self._ttl_s.get(resource.server, {})
        if kind in types:
            return types[kind]
        # The longest pattern wins, not the first.
        matching = [pattern for pattern in types if matches_wildcard(pattern.lower(), kind)]
        return types[max(matching, key=len)] if matching else self._default_ttl_s

    def _is_valid(self, resolution: Resolution) -> bool:
        details = resolution.details
        if resolution.status is not ResolutionStatus.RESOLVED or details is None:
            return False
        # Content that came with a message does not expire.
        is_part_of_message = details.get("ttl_s", 0) is None
        return details.get("kind") == RESOURCE_KIND and (
            is_part_of_message or self._is_fresh(details)
        )

    def _is_fresh(self, details: Mapping[str, Any]) -> bool:
        ttl_s = details.get("ttl_s")
        age_s = (self._now() - _retrieved_at(details)).total_seconds()
        return isinstance(ttl_s, (int, float)) and 0 <= age_s < ttl_s

    # -- content -----------------------------------------------------------------------------

    async def _build_cached(
        self,
        resource: Resource,
        contents: tuple[ResourceContents, ...],
        ttl_s: float | None,
        retrieved_at: datetime,
    ) -> _CachedResource:
        parts = await asyncio.to_thread(
            build_resource_blocks,
            contents,
            resource,
            limits=self._limits,
            prepare_image=self._prepare_image,
            retrieved_at=retrieved_at,
        )
        details = {
            "kind": RESOURCE_KIND,
            "server": resource.server,
            "uri": redact_uri(resource.uri),
            "mime_type": clean_mime_type(contents[0].mime_type),
            "sha256": parts.sha256,
            "bytes": parts.size,
            "retrieved_at": retrieved_at.isoformat(),
            "ttl_s": ttl_s,
            "shortened": parts.shortened,
            "parts": len(contents),
        }
        notice = "; ".join(parts.notices)
        return _CachedResource(parts.content, details, notice and f"{details['uri']}: {notice}")


async def _require_read_permission(
    context: ResolveContext, resource: Resource, server: McpServer
) -> str:
    """Return what allows a resource to be read. Raises ToolFailed."""
    uri = shorten_uri(resource.uri)
    return await context.require_permission(
        mcp_server_name(server.name),
        Capability.READ,
        redact_uri(resource.uri),  # rules are not about the user in a URI
        name=uri,
        preview=f"read {uri} from the MCP server {server.name}",
    )


def _build_resolved_reference(
    resource: _CachedResource, *, allowed_by: str | None = None, from_cache: bool = False
) -> ResolvedReference:
    """Return the result; content that came with a message needs no permission."""
    details = {**resource.details, "from_cache": from_cache}
    if allowed_by is not None:
        details["allowed_by"] = allowed_by
    return ResolvedReference(content=resource.content, details=details, notice=resource.notice)


def _retrieved_at(details: Mapping[str, Any]) -> datetime:
    """Return the time of the read; the earliest time if the log has none."""
    try:
        when = datetime.fromisoformat(str(details.get("retrieved_at")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


# -- cache ----------------------------------------------------------------------------------------

_ResolvedContent: TypeAlias = tuple[Text | Image | Resource | Opaque, ...]


class _CachedResource(NamedTuple):
    """A resource as it was found once."""

    content: _ResolvedContent
    details: Mapping[str, Any]
    notice: str = ""


@final
class _ResourceCache:
    """Resources in memory, up to a size; the least recently used are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[tuple[str, str], tuple[_CachedResource, int]] = OrderedDict()

    def get(self, key: tuple[str, str]) -> _CachedResource | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: tuple[str, str], resource: _CachedResource) -> None:
        size = sum(map(_block_size, resource.content))
        self._size += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = resource, size
        while self._size > self._max_bytes:
            _, (_, evicted_size) = self._entries.popitem(last=False)
            self._size -= evicted_size


def _cache_key(resource: Resource) -> tuple[str, str]:
    return resource.server, resource.uri


def _block_size(part: Text | Image | Resource | Opaque) -> int:
    match part:
        case Text():
            return len(part.text)
        case Resource():
            return len(part.text or "") + len(part.data or b"")
        case Image():
            return len(part.source.data) if isinstance(part.source, ImageData) else 0
        case Opaque():
            return len(part.raw)
