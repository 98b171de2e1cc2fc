"""Parse the requests of clients to an HTTP proxy, and write those to the servers. No I/O.

The parser is strict (RFC 9112): a request that two programs could understand differently is refused
instead of repaired, so that no request can hide in another one. A connection carries one request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from steno.errors import InvalidValue
from steno.tools.shell.domain_rules import format_host_and_port, normalize_host

HEAD_END: Final = b"\r\n\r\n"
"""The end of the head of a request or response."""
LAST_CHUNK: Final = b"0\r\n\r\n"
"""The end of a chunked body."""

_HTTP_PORT: Final = 80
_MAX_PORT: Final = 65_535
_MAX_FIELDS: Final = 200
_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE: Final = re.compile(rf"({_NAME}) ([!-~]+) HTTP/(1\.[01])")
_STATUS_LINE: Final = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: .*)?")
_FIELD: Final = re.compile(rf"({_NAME}):(.*)")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""The characters that a line must not contain; among them the lone line feed and the lone return."""
_URL: Final = re.compile(r"http://([^/?#@]+)(/[^#]*|\?[^#]*|)", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_CONNECTION_FIELDS: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Fields about one connection, which a proxy does not pass on (RFC 9110, 7.6.1)."""
_REWRITTEN_FIELDS: Final = _CONNECTION_FIELDS | {"host", "content-length"}
"""Fields that `build_request` leaves out or writes itself."""


class BadRequest(Exception):
    """A request that the proxy does not understand or pass on; the text explains the rule."""


class BadResponse(Exception):
    """A response that the proxy does not understand."""


class ProxyRequest(NamedTuple):
    """The head of a request to the proxy."""

    method: str
    host: str
    """The host, as `normalize_host` returns it."""
    port: int
    path: str = ""
    """The path and query for the server; empty for a tunnel."""
    version: str = "1.1"
    fields: tuple[tuple[str, str], ...] = ()
    """The header fields for the server, without those that `build_request` writes."""
    body_bytes: int | None = None
    """The size of the body, if the request states it."""
    is_chunked: bool = False

    @property
    def is_tunnel(self) -> bool:
        """Whether the client asks for a tunnel."""
        return self.method == "CONNECT"


class ResponseHead(NamedTuple):
    """The head of a response, for the client."""

    data: bytes
    is_final: bool
    """Whether no other head follows, as after `100 Continue`."""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse the head of a request, including the empty line at its end. Raises BadRequest."""
    first, *lines = _split_lines(head)
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadRequest("the request line is malformed")
    method, target, version = found.groups()
    fields = _parse_fields(lines)
    body_bytes, is_chunked = _parse_body_size(fields, version)
    if method == "CONNECT":
        host, port = _parse_authority(target, None)
        if body_bytes or is_chunked:
            raise BadRequest("a CONNECT request has no body")
        return ProxyRequest(method, host, port)
    host, port, path = _parse_url(target, method)
    named = [_parse_authority(text, _HTTP_PORT) for name, text in fields if name == "host"]
    if named != [(host, port)] and (named or version != "1.0"):
        raise BadRequest("the Host field must be present once and equal the host of the URL")
    return ProxyRequest(
        method,
        host,
        port,
        path,
        version,
        tuple(_select_fields(fields)),
        body_bytes,
        is_chunked,
    )


def _split_lines(head: bytes) -> list[str]:
    """Return the lines of a head, without the empty line at its end. Raises BadRequest."""
    lines = head.removesuffix(HEAD_END).decode("latin-1").split("\r\n")
    if any(map(_CONTROL.search, lines)):
        raise BadRequest("the head contains control characters or lone line ends")
    return lines


def _parse_fields(lines: list[str]) -> list[tuple[str, str]]:
    """Return the header fields, with names in lower case. Raises BadRequest."""
    if len(lines) > _MAX_FIELDS:
        raise BadRequest(f"the request has more than {_MAX_FIELDS} header fields")
    fields = []
    for line in lines:
        # This also refuses a field that continues on a second line, and a space before the colon.
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadRequest("a header field is malformed")
        fields.append((found[1].lower(), found[2].strip(" \t")))
    return fields


def _parse_body_size(fields: list[tuple[str, str]], version: str) -> tuple[int | None, bool]:
    """Return the size of the body and whether it is chunked. Raises BadRequest if unclear."""
    lengths = [text for name, text in fields if name == "content-length"]
    encodings = [text for name, text in fields if name == "transfer-encoding"]
    if encodings:
        if lengths or encodings[0].lower() != "chunked" or len(encodings) > 1 or version == "1.0":
            raise BadRequest("the size of the body is ambiguous")
        return None, True
    if not lengths:
        return None, False
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise BadRequest("the size of the body is ambiguous")
    return int(lengths[0]), False


def _parse_url(target: str, method: str) -> tuple[str, int, str]:
    found = _URL.fullmatch(target)
    if found is None:
        raise BadRequest("a proxy accepts CONNECT HOST:PORT, and http:// URLs without a user")
    host, port = _parse_authority(found[1], _HTTP_PORT)
    if not found[2]:
        return host, port, "*" if method == "OPTIONS" else "/"
    return host, port, found[2] if found[2].startswith("/") else f"/{found[2]}"


def _parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(text)
    port = None if found is None else found[2] or default_port
    if found is None or port is None or not 0 < int(port) <= _MAX_PORT or not text.isascii():
        raise BadRequest("the host and port are malformed")
    try:
        return normalize_host(found[1]), int(port)
    except InvalidValue as exc:
        raise BadRequest("the host and port are malformed") from exc


def _select_fields(fields: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the fields for the server, without those that Connection names."""
    named = {
        option.strip(" \t").lower()
        for name, text in fields
        if name in ("connection", "proxy-connection")
        for option in text.split(",")
    }
    for name, text in fields:
        if name not in _REWRITTEN_FIELDS and name not in named:
            yield name, text


def build_request(
    request: ProxyRequest, *, to_proxy: bool = False, proxy_authorization: str | None = None
) -> bytes:
    """Return the head of a request for the server, or for another proxy if `to_proxy`."""
    if request.port != _HTTP_PORT:
        host = format_host_and_port(request.host, request.port)
    else:
        host = f"[{request.host}]" if ":" in request.host else request.host
    path = "" if request.path == "*" else request.path
    target = f"http://{host}{path}" if to_proxy else request.path
    lines = [f"{request.method} {target} HTTP/{request.version}", f"host: {host}"]
    lines += [f"{name}: {text}" for name, text in request.fields]
    if request.is_chunked:
        lines.append("transfer-encoding: chunked")
    elif request.body_bytes is not None:
        lines.append(f"content-length: {request.body_bytes}")
    if proxy_authorization is not None:
        lines.append(f"proxy-authorization: {proxy_authorization}")
    lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def build_connect(host: str, port: int, proxy_authorization: str | None) -> bytes:
    """Return the request for a tunnel through another proxy."""
    target = format_host_and_port(host, port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy_authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy_authorization}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def parse_chunk_size(line: bytes) -> int:
    """Return the size in the first line of a chunk, including its line end. Raises BadRequest."""
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise BadRequest("the size of a chunk is malformed")
    return int(found[1], 16)


def parse_status(head: bytes) -> int:
    """Return the status in the head of a response. Raises BadResponse."""
    found = _STATUS_LINE.fullmatch(head.partition(b"\r\n")[0].decode("latin-1"))
    if found is None:
        raise BadResponse
    return int(found[1])


def rewrite_response_head(head: bytes) -> ResponseHead:
    """Return the head of a response for the client, which announces the end of the connection.

    The fields about the connection to the server are left out, except for the encoding of the body,
    which is passed on as it is. Raises BadResponse.
    """
    status = parse_status(head)
    first, *lines = head.removesuffix(HEAD_END).split(b"\r\n")
    if any(line.startswith((b" ", b"\t")) for line in lines):
        raise BadResponse
    if 100 <= status < 200 and status != 101:
        return ResponseHead(head, is_final=False)
    dropped = _CONNECTION_FIELDS - {"transfer-encoding", "trailer"}
    kept = [
        line for line in lines if line.partition(b":")[0].decode("latin-1").lower() not in dropped
    ]
    data = b"\r\n".join([first, *kept, b"Connection: close"]) + HEAD_END
    return ResponseHead(data, is_final=True)
