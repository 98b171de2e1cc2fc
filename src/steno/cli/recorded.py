"""Read what was recorded: the body of an answer or of a request, from a file or from stdin.

Recordings come with things around the body. What can be left out is: a byte order mark, and the
headers that `curl -i` prints. What has to be unpacked first is refused with how to do that. This
file knows no protocol.
"""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path
from typing import Final

from steno.cli.paper import note
from steno.errors import InvalidValue

_MOST_BYTES: Final = 256 * 1024 * 1024
"""More than this nobody asks or answers; it would be held in memory more than once."""
_HEAD: Final = re.compile(
    rb"(?:(?:HTTP/[\d.]+ \d{3}|[A-Z]+ \S+ HTTP/[\d.]+).*\n(?:.+\n)*?\r?(?:\n|\Z))+"
)
"""Headers, up to their empty line; those of a proxy or of an answer to `100-continue` before."""
_OTHER_FORMS: Final = {
    b"\x1f\x8b": "it is compressed (gzip); unpack it first: gzip -dc, or curl --compressed",
    b"\x28\xb5\x2f\xfd": "it is compressed (zstd); unpack it first: zstd -dc",
    b"PK\x03\x04": "it is an archive (zip); unpack it first",
    codecs.BOM_UTF16_LE: "it is UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "it is UTF-16; save it as UTF-8",
    b'"': "it is a JSON string with the body inside; take it out first: jq -r .",
}
"""What to do about data that begins with this, which no body does."""


def read_recorded(name: str) -> bytes:
    """Return the body in a file, or in stdin (`-`). Raises InvalidValue if it is packed."""
    data = _read(name).removeprefix(codecs.BOM_UTF8)
    head = _HEAD.match(data)
    if head is not None:
        data = data[head.end() :]
    start = data[:64].lstrip()
    for mark, advice in _OTHER_FORMS.items():
        if start.startswith(mark):
            raise InvalidValue(f"input: {advice}")
    if not start and not data.strip():
        raise InvalidValue("input: there is nothing in it; name a file, or pipe the body in")
    return data


def _read(name: str) -> bytes:
    if name == "-":
        if sys.stdin.isatty():
            note("reading stdin; Ctrl-D ends it (to read a file, name it)")
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InvalidValue(
            f"input: more than {_MOST_BYTES:,} bytes; give the body of one answer or request"
        )
    return data
