r"""What a prompt points at with `@`: files, folders, patterns, images, resources of servers.

    @src/main.py:10-20   @"a name with blanks.txt"   @docs/   @src/**/*.py
    @shot.png   @https://example.org/chart.png   @server:scheme://what

The text stays as it was typed, but for the backslash of `\@`, which points at nothing; the blocks
stand behind it. Nothing is opened here: it is only asked whether there is such a name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator
from typing import Final, NamedTuple
from unicodedata import category
from urllib.parse import urlsplit

from steno.content import FileReference, Image, ImageFile, ImageUrl, Resource
from steno.errors import InvalidMessage, InvalidValue, ToolFailed
from steno.inputs.listing import is_pattern
from steno.inputs.prose import prose
from steno.ports import Pointer
from steno.tools.descent import quoted
from steno.tools.workspace import Workspace

# Behind white space or what opens something (the numbers are quotes and brackets of other
# languages), so that no mail address is a mention. Quotes and the like end a path that does not
# stand in quotes itself: code is full of `@name("/path")`.
_MENTION: Final = re.compile(
    r"""
    (?<! [^\s(\[{<"'\u201c\u201e\u2018\u201a\xab\u2039\uff08\u300c] ) (?P<escape> \\? ) @
    (?:
        (?P<quote> ["'] ) (?P<quoted> (?: (?!(?P=quote)) [^\n] )+ ) (?P=quote)
        (?: : (?P<lines> [0-9]+ (?: - [0-9]+ )? ) )?
      | (?P<bare> [^\s`"'<>|@] [^\s`"'<>|]* )
    )
    """,
    re.VERBOSE,
)
_WITH_LINES: Final = re.compile("(?P<path>.+):(?P<lines>[0-9]+(?:-[0-9]+)?)")
_HERE: Final = (".", "./")
_MOST_DIGITS: Final = 9
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_OF_SERVER: Final = re.compile(r"(?P<server>[^:/]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*://.*)")

_OPENED_BY: Final = {")": "(", "]": "[", "}": "{"}
_MOST_TRIED: Final = 3
"""How many characters that look like punctuation are taken for part of a name, if one is there."""
_LONGEST_WORD: Final = 200

_IMAGE: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\Z", re.IGNORECASE)
# Other names with a dot need not be files: `@pytest.fixture`, `@first.last`.
_FILE: Final = re.compile(
    r"""
    \. (?: bmp | c | cc | cfg | conf | cpp | cs | css | csv | diff | env | gif | go | h | hpp | htm
    | html | ini | ipynb | java | jpe?g | js | jsonl? | jsx | kt | lock | log | lua | md | mjs
    | patch | pdf | php | pl | png | proto | ps1 | pyi? | r | rb | rs | rst | scss | sh | sql | svg
    | swift | tex | tiff? | toml | tsx? | txt | vue | webp | xml | ya?ml | zig ) \Z
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Mentions(NamedTuple):
    """A prompt, and what it points at."""

    text: str
    """As it was typed, without the backslash of `\\@`."""
    blocks: tuple[Pointer, ...]
    """In the order in which they are mentioned, each once."""
    notes: tuple[str, ...]
    """What the person should know: what was not taken for a mention, or might not be one."""


def read_mentions(
    text: str, *, workspace: Workspace | None, servers: Container[str] = ()
) -> Mentions:
    """Find what a prompt points at. May block, since it looks for files.

    What is not there but looks like a path is pointed at all the same, and fails when it is
    opened; any other word is left as text. Raises InvalidValue for what can never be opened:
    paths that climb out with `..`, lines that run backwards, servers that there are not.
    """
    reader = _Reader(workspace, servers)
    kept: list[str] = []
    at = 0
    for start, end in prose(text):
        for found in _MENTION.finditer(text, start, end):
            if found["escape"]:
                kept.append(text[at : found.start()])
                at = found.end("escape")
            elif found["bare"] is not None:
                reader.take_word(found["bare"])
            else:
                reader.take_path(found["quoted"], _lines_of(found["lines"]))
    kept.append(text[at:])
    return Mentions("".join(kept), tuple(reader.blocks), tuple(reader.notes))


class _Lines(NamedTuple):
    first: int | None = None
    last: int | None = None


_ALL: Final = _Lines()


class _Reader:
    """Gathers what is pointed at. Each thing counts once, and so does each note."""

    def __init__(self, workspace: Workspace | None, servers: Container[str]) -> None:
        self._workspace = workspace
        self._servers = servers
        self._there: dict[str, bool] = {}
        self.blocks: dict[Pointer, None] = {}
        self.notes: dict[str, None] = {}

    def take_word(self, word: str) -> None:
        """Take what stands behind an `@`, up to the next blank: perhaps a path, or only a word."""
        bare = word if word in _HERE else _without_punctuation(word)
        if not bare:
            return
        if _ADDRESS.match(bare):
            self._take_address(bare)
        elif of_server := _OF_SERVER.fullmatch(bare):
            self._take_resource(of_server["server"], of_server["uri"])
        elif found := next(filter(self._names_something, _readings(word, bare)), None):
            self.take_path(*found)
        else:
            self._take_missing(bare)

    def take_path(self, path: str, lines: _Lines) -> None:
        """Take a path that is meant as one."""
        normal = posixpath.normpath(path)
        if normal == ".." or normal.startswith("../"):
            raise InvalidValue(
                f"@{quoted(path)}: .. leads out of the working folder; add the folder with"
                " --add-dir, and write its absolute path"
            )
        is_image = lines == _ALL and _IMAGE.search(path) is not None
        if is_image and is_pattern(path):
            is_image = self._is_there(path)
        block: Pointer
        try:
            if is_image:
                block = Image(source=ImageFile(path))
            else:
                block = FileReference(path=path, start_line=lines.first, end_line=lines.last)
        except InvalidMessage as exc:
            raise InvalidValue(f"@{quoted(path)}: {exc}") from exc
        self.blocks[block] = None

    def _take_missing(self, word: str) -> None:
        path, lines = _split(word)
        if lines == _ALL and "/" not in path and "*" not in path and not _FILE.search(path):
            self._note(word, "there is no such file; left as text")
            return
        self.take_path(path, lines)
        if self._workspace is not None and not is_pattern(path):
            self._note(word, "there is no such file; write \\@ if none is meant")

    def _take_address(self, address: str) -> None:
        try:
            is_image = _IMAGE.search(urlsplit(address).path) is not None
        except ValueError:
            is_image = False
        if not is_image:
            self._note(address, "only images are fetched from addresses; left as text")
            return
        scheme, colon, rest = address.partition(":")
        self.blocks[Image(source=ImageUrl(scheme.lower() + colon + rest))] = None

    def _take_resource(self, server: str, uri: str) -> None:
        if server not in self._servers:
            raise InvalidValue(
                f"@{quoted(server)}: there is no such server; configure it, or write \\@ if none"
                " is meant"
            )
        self.blocks[Resource(server=server, uri=uri)] = None

    def _note(self, word: str, text: str) -> None:
        short = word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
        self.notes[f"@{short}: {text}"] = None

    def _names_something(self, reading: tuple[str, _Lines]) -> bool:
        return self._is_there(reading[0])

    def _is_there(self, path: str) -> bool:
        if path not in self._there:
            self._there[path] = self._workspace is not None and _exists(self._workspace, path)
        return self._there[path]


def _exists(workspace: Workspace, path: str) -> bool:
    try:
        return workspace.exists(path)
    except ToolFailed:
        return False  # outside, or no path at all


def _readings(word: str, bare: str) -> Iterator[tuple[str, _Lines]]:
    """Yield what a word can mean: punctuation belongs to the sentence, unless such a file exists."""
    for end in range(min(len(word), len(bare) + _MOST_TRIED), len(bare) - 1, -1):
        yield word[:end], _ALL
        path, lines = _split(word[:end])
        if lines != _ALL:
            yield path, lines


def _split(word: str) -> tuple[str, _Lines]:
    found = _WITH_LINES.fullmatch(word)
    return (word, _ALL) if found is None else (found["path"], _lines_of(found["lines"]))


def _lines_of(text: str | None) -> _Lines:
    """Read `10` or `10-20`. Whether there are such lines is seen when they are opened."""
    if text is None:
        return _ALL
    first, dash, last = text.partition("-")
    if max(len(first), len(last)) > _MOST_DIGITS:
        raise InvalidValue(f"@...:{text[:40]}: no file has so many lines")
    return _Lines(int(first), int(last) if dash else None)


def _without_punctuation(word: str) -> str:
    """Return a word without what ends a sentence or closes a bracket that it does not open."""
    unopened = {end: word.count(end) - word.count(begin) for end, begin in _OPENED_BY.items()}
    length = len(word)
    while length and _is_punctuation(last := word[length - 1]):
        if last in unopened:
            if unopened[last] <= 0:
                break
            unopened[last] -= 1
        length -= 1
    return word[:length]


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return character in ".,;:!?)]}"  # others are common in paths
    return category(character).startswith("P")
