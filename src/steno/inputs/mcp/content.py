"""What came of a call, as blocks of ours: what a model can read, and everything else kept.

In place of what no model can be shown stands a note that says so, and behind it the block as the
server sent it: in the record, or beside it if it is large. Numbers and texts that JSON has no
words for are replaced. Escape sequences stay as they are: whoever prints them has to strip them.
Nothing here knows a server, or how images are made to fit.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from steno.aside import LARGE_IMAGE
from steno.content import Image, Opaque, Resource, Text
from steno.inputs.mcp.definitions import cleaned
from steno.inputs.mcp.foreign import from_base64, lawful
from steno.inputs.mcp.said import Called
from steno.json_object import encode_json
from steno.message import ResultBlock
from steno.outcome import Outcome
from steno.ports import Fit, Stage, ToolOutput
from steno.tools.truncate import MOST_BYTES, MOST_LINES, output_of

MOST_BLOCKS: Final = 100
MOST_IMAGES: Final = 20
MOST_IMAGE_BYTES: Final = 20 * 1024 * 1024

_ORIGIN: Final = "mcp"
_LEAST_LINES: Final = 10
_LEAST_BYTES: Final = 500
"""What is shown of every text, however much was said before it."""
_LONGEST_WORD: Final = 100
_LONGEST_LINK: Final = 500
_NO_IMAGES: Final = "that nobody can look at here: pip install 'steno[images]'"


def output_of_call(
    called: Called, *, server: str, stage: Stage, fit: Fit | None = None
) -> ToolOutput:
    """Return what a model sees of a call and what is recorded. Decodes images, and may block.

    The details hold `structured`, where the server gave that; `beside`, what else it said of its
    blocks, such as annotations; `kept`, where the whole of a block lies that is not shown as it
    is. `block` is its number among those that the server sent.
    """
    reader = _Reader(server=server, stage=stage, fit=fit)
    for number, block in enumerate(called.content[:MOST_BLOCKS]):
        reader.add(number, lawful(block))
    if rest := called.content[MOST_BLOCKS:]:
        said = f"{len(rest):,} more blocks, which are too many to be shown"
        reader.keep(MOST_BLOCKS, {"type": "more", "content": lawful(rest)}, said)
    if called.structured is not None:
        reader.add_structured(lawful(called.structured))
    if not reader.content:
        said = "The server reports an error and does not say which." if called.is_error else "done"
        reader.content.append(Text(said))
    return ToolOutput(
        content=tuple(reader.content),
        outcome=Outcome.ERROR if called.is_error else Outcome.OK,
        details=reader.details(),
    )


@final
class _Reader:
    """Reads the blocks of one result, and counts how much there was."""

    def __init__(self, *, server: str, stage: Stage, fit: Fit | None) -> None:
        self.content: list[ResultBlock] = []
        self._server = server
        self._stage = stage
        self._fit = fit
        self._lines, self._bytes = MOST_LINES, MOST_BYTES
        self._images, self._image_bytes = MOST_IMAGES, MOST_IMAGE_BYTES
        self._texts: list[str] = []
        self._details: dict[str, Any] = {}
        self._extra_members: list[dict[str, Any]] = []
        self._stored: list[dict[str, Any]] = []

    def details(self) -> dict[str, Any] | None:
        """Return what is recorded beside the blocks."""
        if self._extra_members:
            self._record("beside", self._extra_members)
        kept = {"kept": self._stored} if self._stored else {}
        return {**self._details, **kept} or None

    def add(self, number: int, block: Any) -> None:
        """Read one block."""
        carried: tuple[str, ...]
        inner: dict[str, Any] = {}
        match block:
            case {"type": "text", "text": str(text)}:
                if text:  # some providers refuse an empty one
                    self.content.append(Text(self._truncate(number, text)))
                self._texts.append(text)
                carried = ("text",)
            case {"type": "image", "data": str(data)}:
                self._add_image(number, block, data)
                carried = ("data", "mimeType")
            case {"type": "resource_link", "uri": str(uri)} if uri:
                self._add_link(uri, block)
                carried = ("uri", "mimeType")
            case {"type": "resource", "resource": {"uri": str(uri)}} if uri:
                self._add_resource(number, uri, block)
                carried = ("resource",)
                inner = _without(block["resource"], "uri", "text", "blob", "mimeType")
            case {"type": "audio", "data": str(data)}:
                self.keep(number, block, f"a sound ({_about(block, data)}) that you cannot hear")
                return
            case _:
                kind = cleaned(_kind_of(block), _LONGEST_WORD) or "nothing known"
                self.keep(number, block, f"a block of the kind {kind} that cannot be shown to you")
                return
        rest = _without(block, "type", *carried) | _without({"resource": inner})
        if rest:
            self._extra_members.append({**rest, "block": number})

    def add_structured(self, value: Any) -> None:
        """Take the JSON that stands beside the blocks; a text mostly says the same."""
        self._record("structured", value)
        if not is_said(value, self._texts):
            said = encode_json(value).decode()
            self.content.append(Text(self._truncate("structured", said)))

    def keep(self, number: int, block: Any, what: str) -> None:
        """Put a note in the place of a block that cannot be shown, and keep the block."""
        self.content.append(Text(f"[{what}; it is kept with the record]"))
        raw = encode_json(block)
        if len(raw) < LARGE_IMAGE:
            kind = _kind_of(block)[:_LONGEST_WORD]
            self.content.append(Opaque(kind=kind, raw=raw.decode(), origin=_ORIGIN))
        else:
            self._store_blob(number, raw)

    # -- kinds of blocks ---------------------------------------------------------------------

    def _add_image(self, number: int, block: Any, data: str) -> None:
        try:
            self.content.append(self._image(data))
        except _UnshownError as exc:
            self.keep(number, block, f"an image {exc}")

    def _image(self, data: str) -> Image:
        if self._fit is None:
            raise _UnshownError(_NO_IMAGES)
        size = _size_of(data)
        if not self._images or size > self._image_bytes:
            raise _UnshownError("that is one too many, or too large")
        self._images, self._image_bytes = self._images - 1, self._image_bytes - size
        decoded = from_base64(data)
        if decoded is None:
            raise _UnshownError("that is not in base64")
        try:
            return self._fit(decoded)
        except ImportError as exc:
            raise _UnshownError(_NO_IMAGES) from exc
        except Exception as exc:  # what a decoder of images raises is anybody's guess
            raise _UnshownError("that cannot be read") from exc

    def _add_link(self, uri: str, block: dict[str, Any]) -> None:
        parts = [block.get("title") or block.get("name"), block.get("description")]
        words = ": ".join([part for part in parts if isinstance(part, str) and part])
        if words:
            self.content.append(Text(f"[a link to {cleaned(words, _LONGEST_LINK)}]"))
        self.content.append(self._resource(uri, block))

    def _add_resource(self, number: int, uri: str, block: dict[str, Any]) -> None:
        inner = block["resource"]
        text, data = inner.get("text"), inner.get("blob")
        if isinstance(text, str):
            shown = self._truncate(number, text)
            self.content.append(self._resource(uri, inner, text=shown))
            return
        self.content.append(self._resource(uri, inner))
        if not isinstance(data, str):
            return
        if str(inner.get("mimeType")).startswith("image/"):
            self._add_image(number, block, data)
        else:
            self.keep(number, block, f"bytes ({_about(inner, data)}) that you cannot read")

    def _resource(self, uri: str, members: dict[str, Any], *, text: str | None = None) -> Resource:
        kind = members.get("mimeType")
        mime_type = kind if isinstance(kind, str) else None
        return Resource(server=self._server, uri=uri, mime_type=mime_type, text=text)

    # -- what is long ------------------------------------------------------------------------

    def _truncate(self, number: int | str, text: str) -> str:
        """Return what is shown of a text: the more was said before it, the less."""
        shown, kept = output_of(
            text,
            self._stage,
            most_lines=max(self._lines, _LEAST_LINES),
            most_bytes=max(self._bytes, _LEAST_BYTES),
        )
        self._lines -= shown.count("\n") + 1
        self._bytes -= len(shown.encode())
        if kept:
            self._stored.append({"block": number, **kept})
        return shown

    def _record(self, name: str, value: Any) -> None:
        raw = encode_json(value)
        if len(raw) < LARGE_IMAGE:
            self._details[name] = value
        else:
            self._store_blob(name, raw)

    def _store_blob(self, number: int | str, raw: bytes) -> None:
        sha256 = self._stage.put_blob(raw)
        self._stored.append({"block": number, "full_output": sha256, "bytes": len(raw)})


class _UnshownError(Exception):
    """An image cannot be shown; the message goes on from "an image"."""


def is_said(value: Any, texts: list[str]) -> bool:
    """Tell whether texts say what a value says, one of them or all together.

    What is no object often stands in one as its only member, since it once had to be an object.
    """
    values = [value]
    if isinstance(value, dict) and len(value) == 1:
        values += value.values()
    parsed = [_parsed(text) for text in texts]
    return any(one in texts or one in parsed or one in (texts, parsed) for one in values)


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _kind_of(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _without(members: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return what says something among members, but for these."""
    return {k: v for k, v in members.items() if k not in names and v not in (None, {}, [])}


def _about(members: dict[str, Any], data: str) -> str:
    kind = cleaned(str(members.get("mimeType") or "of no kind"), _LONGEST_WORD)
    return f"{kind}, {_size_of(data):,} bytes"


def _size_of(data: str) -> int:
    """Return how many bytes base64 stands for, more or less."""
    return len(data) * 3 // 4
