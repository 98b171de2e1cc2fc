"""Resolve MCP resources, which are read with permission and cached while they are fresh.

The user's setting for the type of a resource decides how long it stays fresh, else the time that
the server states, else one hour. A run keeps each resource that it has received, so it reads a
resource at most once and sees one state of it. A message keeps the content that was read for it. A
resumed session starts with a cache of the fresh resources in its log.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from string import ascii_letters, digits
from typing import Any, Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.bounded_text import truncate_middle
from steno.errors import InvalidValue, ServerFailed, ToolFailed, install_command
from steno.ids import utc_now
from steno.inputs.mcp.protocol import McpServer, ResourceContents
from steno.inputs.mcp.server_spec import matches_wildcard
from steno.inputs.mcp.tools import mcp_server_name
from steno.inputs.mcp.untrusted_data import clean_text
from steno.invisible import is_visible
from steno.messages.content import Image, ImageData, Opaque, Resource, Text
from steno.messages.framed_text import describe_target
from steno.ports import Capability, PrepareImage, ResolveContext, ResolvedReference, strip_url_user
from steno.records.entry import Resolution, ResolutionStatus
from steno.tools.workspace import Fingerprint
from steno.values import replace_lone_surrogates

RESOURCE_KIND: Final = "resource"
"""The `kind` in the details of a resolved resource."""
_HOUR_S: Final = 3_600.0
_MAX_TTL_S: Final = 24 * _HOUR_S
"""The maximum cache time that is accepted from a server."""


@final
class ResourceResolver:
    """Resolves the MCP resources in user messages."""

    def __init__(
        self,
        server_of: Callable[[str], McpServer],
        *,
        ttl_s: Mapping[str, Mapping[str, float]] = {},
        default_ttl_s: float = _HOUR_S,
        limits: ResourceLimits | None = None,
        prepare_image: PrepareImage | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Create a resolver; `server_of` returns a server by its name, or raises ServerFailed.

        `ttl_s` maps a server to the seconds that its resources stay fresh, by MIME type (`text/*`)
        or `*`. Without `prepare_image`, images are not sent to the model. Raises InvalidValue if a
        time is negative, infinite or NaN.
        """
        for seconds in [default_ttl_s, *[s for types in ttl_s.values() for s in types.values()]]:
            if not 0 <= seconds < math.inf:
                message = (
                    "the time that a resource stays fresh must be a finite number of seconds,"
                    " 0 or more"
                )
                raise InvalidValue(message, code="invalid_ttl", place="ttl_s")
        self._server_of = server_of
        self._ttl_s = ttl_s
        self._default_ttl_s = default_ttl_s
        self._limits = ResourceLimits() if limits is None else limits
        self._prepare_image = prepare_image
        self._now = now
        self._cache = _ResourceCache(self._limits.max_bytes)

    async def resolve(self, resource: Resource, context: ResolveContext) -> ResolvedReference:
        """Return the content of a resource; a failure is returned as a result with an error."""
        if resource.text is not None or resource.data is not None:
            part = ResourceContents(resource.uri, resource.mime_type, resource.text, resource.data)
            retrieved_at = resource.retrieved_at or self._now()
            return _as_reference(await self._build_cached(resource, (part,), None, retrieved_at))
        uri = resource.uri
        try:
            uri = normalize_uri(uri)
            return await self._resolve(replace(resource, uri=uri), context)
        except (InvalidValue, ServerFailed, ToolFailed) as exc:
            name = shorten_uri(uri)
            error = f"{name}: {exc.text_unless_at(name, _URI_PLACE)}"
            return ResolvedReference(error=error, error_code=exc.code)

    async def _resolve(self, resource: Resource, context: ResolveContext) -> ResolvedReference:
        server = self._server_of(resource.server)
        uri = shorten_uri(resource.uri)
        allowed_by = await context.require_permission(
            mcp_server_name(server.name),
            Capability.READ,
            redact_uri(resource.uri),  # rules do not match a user name in a URI
            name=uri,
            preview=f"read {uri} from the MCP server {server.name}",
        )
        key = _cache_key(resource)
        cached = self._find_cached(key, context)
        if cached is not None:
            self._keep_for_run(key, cached, context)
            return _as_reference(cached, allowed_by=allowed_by, from_cache=True)
        context.report_progress(f"reading {uri} from the MCP server {server.name}")
        response = await server.read(resource.uri)
        if all(part.text is None and part.data is None for part in response.contents):
            message = "the resource is empty"
            raise ServerFailed(message, code="resource_empty", place=f"mcp {server.name}")
        ttl_s = self._choose_ttl(resource, response.contents[0].mime_type, response.ttl_s)
        fetched = await self._build_cached(resource, response.contents, ttl_s, self._now())
        self._cache.put(key, fetched)
        self._keep_for_run(key, fetched, context)
        return _as_reference(fetched, allowed_by=allowed_by)

    def _find_cached(self, key: _CacheKey, context: ResolveContext) -> _CachedResource | None:
        """Return the resource that the run has received before, else a fresh one of any run."""
        if context.run_cache is not None:
            kept: _CachedResource | None = context.run_cache.get((self, key))
            if kept is not None:
                return kept
        cached = self._cache.get(key)
        return cached if cached is not None and self._is_fresh(cached.details) else None

    def _keep_for_run(
        self, key: _CacheKey, resource: _CachedResource, context: ResolveContext
    ) -> None:
        """Keep a resource until the end of the run, even if the shared cache drops it."""
        if context.run_cache is not None:
            context.run_cache[self, key] = resource

    def is_current(
        self, resource: Resource, resolution: Resolution, context: ResolveContext
    ) -> bool:
        """Return whether a resource was read; a message keeps the content that was read for it."""
        return resolution.status is ResolutionStatus.RESOLVED

    def is_fresh(self, resolution: Resolution) -> bool:
        """Return whether the content in a resolution can be used for a new reference.

        Content that is part of a message is always fresh.
        """
        details = resolution.details
        if resolution.status is not ResolutionStatus.RESOLVED or details is None:
            return False
        is_part_of_message = details.get("ttl_s", 0) is None
        is_resource = details.get("kind") == RESOURCE_KIND
        return is_resource and (is_part_of_message or self._is_fresh(details))

    async def changes(
        self, resource: Resource, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return an empty tuple, because only the server knows whether a resource has changed."""
        return ()

    def add_to_cache(self, resource: Resource, resolution: Resolution) -> None:
        """Add a resource from the log to the cache, if it is still fresh."""
        details = resolution.details or {}
        if details.get("ttl_s") is None or not self.is_fresh(resolution):
            return
        try:
            key = resource.server, normalize_uri(resource.uri)
        except InvalidValue:  # the resource cannot be requested again
            return
        cached = self._cache.get(key)
        if cached is None or _retrieved_at(cached.details) < _retrieved_at(details):
            self._cache.put(key, _CachedResource(resolution.content, details))

    # -- freshness ----------------------------------------------------------------------------

    def _choose_ttl(
        self, resource: Resource, mime_type: str | None, server_ttl_s: float | None
    ) -> float:
        configured_s = self._configured_ttl(resource.server, _clean_mime_type(mime_type))
        if configured_s is not None:
            return configured_s
        # The protocol requires a time, and the SDKs send 0 for a server that sets none. So 0 does
        # not mean that the server forbids caching. NaN fails the comparison.
        if server_ttl_s is not None and server_ttl_s > 0:
            return min(server_ttl_s, _MAX_TTL_S)
        return self._default_ttl_s

    def _configured_ttl(self, server: str | None, mime_type: str | None) -> float | None:
        """Return the user's setting for a type of resource; None if there is none."""
        kind = (mime_type or "").partition(";")[0].strip().lower()
        types = {} if server is None else self._ttl_s.get(server, {})
        if kind in types:
            return types[kind]
        # The longest pattern wins, not the first.
        matching = [pattern for pattern in types if matches_wildcard(pattern.lower(), kind)]
        return types[max(matching, key=len)] if matching else None

    def _is_fresh(self, details: Mapping[str, Any]) -> bool:
        # The setting may have changed since the resource was read.
        server, mime_type = _text_detail(details, "server"), _text_detail(details, "mime_type")
        configured_s = self._configured_ttl(server, mime_type)
        ttl_s = details.get("ttl_s") if configured_s is None else configured_s
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
        builder = _ResourceBlockBuilder(resource, self._limits, self._prepare_image, retrieved_at)
        size, sha256 = await asyncio.to_thread(builder.add_all, contents)
        details = {
            "kind": RESOURCE_KIND,
            "server": resource.server,
            "uri": redact_uri(resource.uri),
            "mime_type": _clean_mime_type(contents[0].mime_type),
            "sha256": sha256,
            "bytes": size,
            "retrieved_at": retrieved_at.isoformat(),
            "ttl_s": ttl_s,
            "shortened": builder.shortened,
            "parts": len(contents),
        }
        notice = "; ".join(dict.fromkeys(builder.notices))
        content = tuple(builder.content)
        return _CachedResource(content, details, notice and f"{details['uri']}: {notice}")


def _as_reference(
    resource: _CachedResource, *, allowed_by: str | None = None, from_cache: bool = False
) -> ResolvedReference:
    """Return a resource as the result of a reference.

    `allowed_by` is the permission rule. It is None for content that is part of a message, which
    needs no permission.
    """
    details = {**resource.details, "from_cache": from_cache}
    if allowed_by is not None:
        details["allowed_by"] = allowed_by
    return ResolvedReference(content=resource.content, details=details, notice=resource.notice)


def _text_detail(details: Mapping[str, Any], name: str) -> str | None:
    """Return a detail of a recorded resolution; None if it is missing or not a text."""
    detail = details.get(name)
    return detail if isinstance(detail, str) else None


def _retrieved_at(details: Mapping[str, Any]) -> datetime:
    """Return the time when a resource was read; `datetime.min` in UTC if it is unknown."""
    try:
        when = datetime.fromisoformat(_text_detail(details, "retrieved_at") or "")
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


# -- cache ----------------------------------------------------------------------------------------

_ResolvedContent: TypeAlias = tuple[Text | Image | Resource | Opaque, ...]


class _CachedResource(NamedTuple):
    """The content of a resource, with the details and the notice for its resolution."""

    content: _ResolvedContent
    details: Mapping[str, Any]
    notice: str = ""


_CacheKey: TypeAlias = tuple[str, str]
"""The server and the normalized URI of a resource."""


@final
class _ResourceCache:
    """A cache of limited size, shared by all runs, that drops the least recently used first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[_CacheKey, tuple[_CachedResource, int]] = OrderedDict()

    def get(self, key: _CacheKey) -> _CachedResource | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: _CacheKey, resource: _CachedResource) -> None:
        size = sum(map(_block_size, resource.content))
        self._size += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = resource, size
        while self._size > self._max_bytes:
            _, (_, dropped_size) = self._entries.popitem(last=False)
            self._size -= dropped_size


def _cache_key(resource: Resource) -> _CacheKey:
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


# -- content of resources ------------------------------------------------------------------------


MAX_TYPE_CHARACTERS: Final = 100
_MIN_TEXT_CHARACTERS: Final = 200
"""The minimum length of an excerpt; a shorter excerpt is useless."""
_MAX_IMAGES: Final = 20
_HEAD_SHARE: Final = 2 / 3
"""The fraction of an excerpt that is from the beginning of a text; the rest is from its end."""


class ResourceLimits(NamedTuple):
    """The limits for cached and resolved resources."""

    max_bytes: int = 32 * 1024 * 1024
    """The maximum size of the cache that runs share; each run also keeps what it has received."""
    max_text_characters: int = 64 * 1024
    """The maximum number of characters of one resource that are sent to a model."""
    max_data_bytes: int = 1024 * 1024
    """The maximum number of bytes of one resource that are recorded, besides text and images."""
    max_parts: int = 100


def _clean_mime_type(mime_type: str | None) -> str | None:
    """Return a MIME type that is safe to record and print; None if it is empty."""
    return clean_text(mime_type or "", MAX_TYPE_CHARACTERS) or None


@final
class _ResourceBlockBuilder:
    """Converts the parts of a resource to blocks, within limits for the whole resource."""

    def __init__(
        self,
        reference: Resource,
        limits: ResourceLimits,
        prepare_image: PrepareImage | None,
        retrieved_at: datetime,
    ) -> None:
        self.content: list[Text | Image | Resource] = []
        self.notices: list[str] = []
        """Notices for the user."""
        self.shortened = 0
        """The number of characters of text that were left out."""
        self._reference = reference
        self._max_parts = limits.max_parts
        self._prepare_image = prepare_image
        self._retrieved_at = retrieved_at
        target = describe_target(replace(reference, uri=redact_uri(reference.uri)))
        self._whole_hint = f"the MCP server {reference.server} has the complete {target}"
        self._text = limits.max_text_characters
        self._data = limits.max_data_bytes
        self._images = _MAX_IMAGES

    def add_all(self, contents: tuple[ResourceContents, ...]) -> Fingerprint:
        """Add as many parts as the limits allow; return the fingerprint of all parts."""
        for number, part in enumerate(contents):
            is_full = self._text < _MIN_TEXT_CHARACTERS and bool(self.content)
            if number == self._max_parts or is_full:
                self._leave_out(contents[number:])
                break
            text = _part_text(part)
            if text is not None:
                self.content.append(self._resource(part, text=self._truncate(text)))
            elif part.data is not None:
                self._add_bytes(part, part.data)
        return Fingerprint.of(b"".join(map(part_bytes, contents)))

    def _leave_out(self, rest: tuple[ResourceContents, ...]) -> None:
        """Add a note about parts that exceed the limits."""
        self.shortened += sum([len(_part_text(part) or "") for part in rest])
        parts = "1 more part" if len(rest) == 1 else f"{len(rest):,} more parts"
        self.content.append(Text(f"[{parts} left out here: {self._whole_hint}]"))
        self.notices.append(f"{parts} not shown")

    def _resource(
        self, part: ResourceContents, *, text: str | None = None, data: bytes | None = None
    ) -> Resource:
        return Resource(
            server=self._reference.server,
            uri=redact_uri(part.uri) or redact_uri(self._reference.uri) or "?",
            mime_type=_clean_mime_type(part.mime_type),
            text=text,
            data=data,
            retrieved_at=self._retrieved_at,
        )

    def _truncate(self, text: str) -> str:
        remaining, self._text = self._text, max(0, self._text - len(text))
        if len(text) <= remaining:
            return text
        head = int(remaining * _HEAD_SHARE)
        self.shortened += len(text) - remaining
        self.notices.append("only its beginning and its end are shown")
        note = f"\n[… {{omitted}} characters left out here: {self._whole_hint} …]\n"
        return truncate_middle(text, max_head=head, max_tail=remaining - head, note=note)

    def _add_bytes(self, part: ResourceContents, data: bytes) -> None:
        kind = _clean_mime_type(part.mime_type) or "unknown type"
        if kind.lower().startswith("image/") and (image := self._image(data)) is not None:
            self.content.append(image)
        elif len(data) <= self._data:
            self._data -= len(data)
            self.content.append(self._resource(part, data=data))
        else:
            note = f"{kind}, {len(data):,} bytes, not shown and not stored: {self._whole_hint}"
            self.content.append(Text(f"[{note}]"))

    def _image(self, data: bytes) -> Image | None:
        if self._prepare_image is None:
            self.notices.append(
                f"an image of the resource is not shown: {install_command('images')}"
            )
            return None
        if not self._images:
            self.notices.append(f"only {_MAX_IMAGES} images of the resource are shown")
            return None
        self._images -= 1
        try:
            return self._prepare_image(data)
        except Exception as exc:  # noqa: BLE001 - an image decoder may raise anything
            self.notices.append(f"one of its images cannot be shown: {clean_text(str(exc), 200)}")
            return None


def _part_text(part: ResourceContents) -> str | None:
    """Return the text of a part, even if it was sent as bytes; None if it is not text."""
    if part.text is not None:
        return replace_lone_surrogates(part.text)
    kind = _clean_mime_type(part.mime_type) or ""
    if part.data is None or not kind.lower().startswith("text/"):
        return None
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        return None


def part_bytes(part: ResourceContents) -> bytes:
    """Return the content of a part as bytes; text is encoded as UTF-8."""
    if part.text is not None:
        return replace_lone_surrogates(part.text).encode()
    return part.data or b""


# -- addresses -----------------------------------------------------------------------------------


MAX_URI_CHARACTERS: Final = 2_000
_URI_PLACE: Final = "resource"
"""The place of errors about the URI of a resource."""
_MAX_SHOWN_CHARACTERS: Final = 200
_UNRESERVED: Final = frozenset(f"{ascii_letters}{digits}-._~")
"""Characters that mean the same with and without percent-encoding (RFC 3986, 2.3)."""
_PERCENT_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_HTTP_HOST: Final = re.compile(r"(https?://(?:[^/?#@]*@)?)([^/?#@]*)")
_PATH_END: Final = re.compile(r"[?#]")
_SLASHES: Final = re.compile(r"/|\\|%2F|%5C")
_TEMPLATE_VARIABLES: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")


def redact_uri(uri: str) -> str:
    """Return a URI that is safe to record and print, without a user name or password."""
    return strip_url_user(clean_text(uri, MAX_URI_CHARACTERS))


def shorten_uri(uri: str) -> str:
    """Return a redacted URI that is short enough for one line of output."""
    return clean_text(redact_uri(uri), _MAX_SHOWN_CHARACTERS)


def check_uri(uri: str) -> None:
    """Raise InvalidValue if a URI is too long, a template, or has invisible characters."""
    if len(uri) > MAX_URI_CHARACTERS:
        message = f"the URI is longer than {MAX_URI_CHARACTERS:,} characters"
        raise _uri_error(message, code="uri_too_long")
    if not is_visible(uri) or clean_text(uri, MAX_URI_CHARACTERS) != uri:
        message = "the URI contains invisible characters; remove them"
        raise _uri_error(message, code="uri_has_hidden_characters")
    names = [name for part in _TEMPLATE_VARIABLES.findall(uri) for name in part.split(",")]
    if names:
        listed = ", ".join([name.partition(":")[0].rstrip("*").strip() for name in names])
        raise _uri_error(
            f"the URI is a template; replace each name in braces with a value: {listed}",
            code="uri_is_template",
        )


def normalize_uri(uri: str) -> str:
    """Return the canonical form of a URI, which permission rules match (RFC 3986, 6.2.2).

    Host names become lower case only for http and https, because case may matter in other schemes.
    Raises InvalidValue if `check_uri` does, or if the path contains `.` or `..` as a segment, an
    encoded slash or a backslash, which servers handle differently.
    """
    check_uri(uri)
    scheme, colon, rest = uri.partition(":")
    normal = f"{scheme.lower()}{colon}{_PERCENT_ENCODED.sub(_decode_unreserved, rest)}"
    normal = _HTTP_HOST.sub(lambda found: f"{found[1]}{found[2].lower()}", normal, count=1)
    path = _PATH_END.split(normal, maxsplit=1)[0]
    parts = _SLASHES.split(path)
    if "." in parts or ".." in parts:
        message = "the path contains . or ..; write the URI without them"
        raise _uri_error(message, code="uri_has_dot_steps")
    if len(parts) > path.count("/") + 1:
        message = "the path contains an encoded slash or a backslash; write / instead"
        raise _uri_error(message, code="uri_has_encoded_slashes")
    return normal


def _uri_error(message: str, *, code: str) -> InvalidValue:
    return InvalidValue(message, code=code, place=_URI_PLACE)


def _decode_unreserved(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in _UNRESERVED else found[0].upper()
