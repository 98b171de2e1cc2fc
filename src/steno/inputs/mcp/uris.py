"""URIs of resources: which can be asked for, how they are spelled, and how they are shown.

A URI can be written in many ways (`%70rivate` is `private`), and a rule is about one of them. So
there is one spelling that rules are about and servers are asked for.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits
from typing import Final

from steno.captions import without_user
from steno.errors import InvalidValue
from steno.inputs.mcp.definitions import cleaned

LONGEST_URI: Final = 2_000
_LONGEST_SHOWN: Final = 200
_UNRESERVED: Final = frozenset(f"{ascii_letters}{digits}-._~")
"""What means the same whether it is written as `%xx` or not."""
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_HTTP_HOST: Final = re.compile(r"(https?://(?:[^/?#@]*@)?)([^/?#@]*)")
_BEHIND_PATH: Final = re.compile(r"[?#]")
_SLASHES: Final = re.compile(r"/|\\|%2F|%5C")
_IN_BRACES: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")


def shown_uri(uri: str) -> str:
    """Return a URI as it may be recorded and shown: without a name and a password in it."""
    return without_user(cleaned(uri, LONGEST_URI))


def short_uri(uri: str) -> str:
    """Return a URI as it may stand in a line for people."""
    return cleaned(shown_uri(uri), _LONGEST_SHOWN)


def check_uri(uri: str) -> None:
    """Refuse what nobody can read from a server. Raises InvalidValue, which says what to do."""
    if len(uri) > LONGEST_URI:
        raise InvalidValue(f"resource: its URI is longer than {LONGEST_URI:,} characters")
    if not uri.isprintable() or cleaned(uri, LONGEST_URI) != uri:
        raise InvalidValue("resource: its URI holds characters that nobody can see; remove them")
    names = [name for part in _IN_BRACES.findall(uri) for name in part.split(",")]
    if names:
        listed = ", ".join([name.partition(":")[0].rstrip("*").strip() for name in names])
        raise InvalidValue(
            f"resource: {short_uri(uri)} is a template; "
            f"put a value in the place of each name in braces: {listed}"
        )


def normal_uri(uri: str) -> str:
    """Return the one spelling of a URI that rules are about, as RFC 3986 has it (6.2.2).

    The names of hosts keep their case unless the web is meant: elsewhere they may be anything.
    Raises InvalidValue for what has no such spelling: `..`, and slashes that do not look like
    one, which some servers follow and some do not.
    """
    check_uri(uri)
    scheme, colon, rest = uri.partition(":")
    normal = f"{scheme.lower()}{colon}{_ENCODED.sub(_decoded, rest)}"
    normal = _HTTP_HOST.sub(lambda found: f"{found[1]}{found[2].lower()}", normal, count=1)
    path = _BEHIND_PATH.split(normal, maxsplit=1)[0]
    parts = _SLASHES.split(path)
    if "." in parts or ".." in parts:
        raise InvalidValue(f"resource: {short_uri(uri)}: write it without . and .. in its path")
    if len(parts) > path.count("/") + 1:
        raise InvalidValue(f"resource: {short_uri(uri)}: write every slash in its path as /")
    return normal


def _decoded(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in _UNRESERVED else found[0].upper()
