"""URIs of MCP resources: checked, spelled in one way, and redacted.

A URI can be spelled in many ways (`%70rivate` is `private`), so there is one spelling that rules
are about and servers are asked for.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits
from typing import Final

from steno.errors import InvalidValue
from steno.inputs.mcp.untrusted_data import clean_text
from steno.ports import strip_url_user

MAX_URI_CHARACTERS: Final = 2_000
_MAX_SHOWN_CHARACTERS: Final = 200
_UNRESERVED: Final = frozenset(f"{ascii_letters}{digits}-._~")
"""Characters that mean the same with and without percent-encoding (RFC 3986, 2.3)."""
_PERCENT_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_HTTP_HOST: Final = re.compile(r"(https?://(?:[^/?#@]*@)?)([^/?#@]*)")
_PATH_END: Final = re.compile(r"[?#]")
_SLASHES: Final = re.compile(r"/|\\|%2F|%5C")
_TEMPLATE_VARIABLES: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")


def redact_uri(uri: str) -> str:
    """Return a URI as it may be recorded and shown: without a name and a password in it."""
    return strip_url_user(clean_text(uri, MAX_URI_CHARACTERS))


def shorten_uri(uri: str) -> str:
    """Return a URI for a line of output."""
    return clean_text(redact_uri(uri), _MAX_SHOWN_CHARACTERS)


def check_uri(uri: str) -> None:
    """Raise InvalidValue for a URI that cannot be read, with a remedy."""
    if len(uri) > MAX_URI_CHARACTERS:
        raise InvalidValue(
            f"its URI is longer than {MAX_URI_CHARACTERS:,} characters",
            code="uri_too_long",
            place="resource",
        )
    if not uri.isprintable() or clean_text(uri, MAX_URI_CHARACTERS) != uri:
        raise InvalidValue(
            "its URI holds characters that nobody can see; remove them",
            code="uri_has_hidden_characters",
            place="resource",
        )
    names = [name for part in _TEMPLATE_VARIABLES.findall(uri) for name in part.split(",")]
    if names:
        listed = ", ".join([name.partition(":")[0].rstrip("*").strip() for name in names])
        raise InvalidValue(
            f"{shorten_uri(uri)} is a template; "
            f"put a value in the place of each name in braces: {listed}",
            code="uri_is_template",
            place="resource",
        )


def normalize_uri(uri: str) -> str:
    """Return the one spelling of a URI that rules are about, as RFC 3986 has it (6.2.2).

    The names of hosts keep their case unless the web is meant: elsewhere they may be anything.
    Raises InvalidValue for what has no such spelling: `..`, and slashes that do not look like
    one, which some servers follow and some do not.
    """
    check_uri(uri)
    scheme, colon, rest = uri.partition(":")
    normal = f"{scheme.lower()}{colon}{_PERCENT_ENCODED.sub(_decode_unreserved, rest)}"
    normal = _HTTP_HOST.sub(lambda found: f"{found[1]}{found[2].lower()}", normal, count=1)
    path = _PATH_END.split(normal, maxsplit=1)[0]
    parts = _SLASHES.split(path)
    if "." in parts or ".." in parts:
        raise InvalidValue(
            f"{shorten_uri(uri)}: write it without . and .. in its path",
            code="uri_has_dot_steps",
            place="resource",
        )
    if len(parts) > path.count("/") + 1:
        raise InvalidValue(
            f"{shorten_uri(uri)}: write every slash in its path as /",
            code="uri_has_encoded_slashes",
            place="resource",
        )
    return normal


def _decode_unreserved(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in _UNRESERVED else found[0].upper()
