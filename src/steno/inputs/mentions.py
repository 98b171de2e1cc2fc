r"""What a prompt points at with `@`: files, folders, patterns, images, resources of servers.

    @src/main.py:10-20   @"a name with blanks.txt"   @docs/   @src/**/*.py   @~/notes.md
    @shot.png   @https://example.org/chart.png   @server:scheme://what

Lines may be written as compilers have them (`:10:5`), or GitHub (`#L10-L20`). The text stays as it
was typed, but for the backslash of `\@`, which points at nothing; the blocks stand behind it.
Nothing is opened here: it is only asked whether there is such a name.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
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

# Behind white space, or what opens or separates something (the numbers are quotes, brackets and
# commas of other languages), so that no mail address is a mention. Quotes and the like end a path
# that does not stand in quotes itself: code is full of `@name("/path")`.
_SEPARATORS: Final = r",;\u3001\uff0c\uff1b"
_BEFORE: Final = rf"""\s(\[{{<"'\u201c\u201e\u2018\u201a\xab\u2039\uff08\u300c{_SEPARATORS}"""
# What may stand close to an `@` that counts only if there is such a file: what is written without
# blanks between words (Chinese, Japanese, Korean), dashes and dots, `name:`, `name=`, and markup.
_CLOSE: Final = r":=\u2010-\u2027\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_MARKUP: Final = "*_"
_EDGE: Final = re.compile(f"[{_BEFORE}{_CLOSE}]")
_MENTION: Final = re.compile(
    rf"""
    (?: (?<! [^{_BEFORE}] ) | (?P<is_close> (?<= [{_MARKUP}{_CLOSE}] ) ) ) (?P<escape> \\? ) @
    (?(is_close) (?P<close> [^\s`"'<>|@]+ ) | (?:
        (?P<quote> ["'] ) (?P<quoted> (?: (?!(?P=quote)) [^\n] )+ ) (?P=quote)
        (?: : (?P<lines> [0-9]+ (?: - [0-9]* )? ) )?
      | (?P<bare>
            (?: \\[ ](?=\S) | [^\s`"'<>|@] )
            (?: \\[ ](?=\S) | (?! [{_SEPARATORS}]@ ) [^\s`"'<>|] )*
        )
      | (?P<unclosed> ["'] [^\s`"'<>|@]+ )
    ) )
    """,
    re.VERBOSE,
)
_LINES: Final = (
    re.compile("(?P<path>.+):(?P<lines>[0-9]+(?:-[0-9]*)?)"),
    re.compile("(?P<path>.+):(?P<lines>[0-9]+):[0-9]+"),  # the column of a compiler's message
    re.compile("(?P<path>.+)#(?P<lines>L[0-9]+(?:-L?[0-9]+)?)"),  # GitHub
)
_HERE: Final = (".", "./")
_HOME: Final = "~/"
_SURELY_PATHS: Final = ("/", "./", _HOME)
_MOST_DIGITS: Final = 9
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_OF_SERVER: Final = re.compile(r"(?P<server>[^:/]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*://.*)")

_OPENED_BY: Final = {")": "(", "]": "[", "}": "{"}
_MOST_TRIED: Final = 3
"""How many characters that look like punctuation are taken for part of a name, if one is there."""
_LONGEST_WORD: Final = 200
_MOST_NOTES: Final = 20

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
    """What the person should know: what was not taken for a mention."""
    unsure: frozenset[Pointer] = frozenset()
    """Blocks for paths that are not there, and may not have been meant as paths."""


def is_address(text: str) -> bool:
    """Tell whether something is to be fetched rather than opened as a file."""
    return _ADDRESS.match(text) is not None


def image_at(address: str) -> ImageUrl:
    """Return an address of an image in the spelling that messages have. Raises InvalidMessage."""
    scheme, colon, rest = address.partition(":")
    return ImageUrl(scheme.lower() + colon + rest)


def read_mentions(
    text: str, *, workspace: Workspace | None, servers: Collection[str] = ()
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
            named = reader.first_existing(_close_readings(found))
            if found["close"] and named is None:
                continue
            if found["escape"]:
                kept.append(text[at : found.start()])
                at = found.end("escape")
            elif named is not None:
                with suppress(InvalidValue):  # perhaps no path was meant
                    reader.take_path(*named)
            elif found["bare"] is not None:
                reader.take_word(found["bare"])
            elif found["quoted"] is not None:
                reader.take_path(found["quoted"], found["lines"] or "")
            else:
                reader.note(found["unclosed"], "its quote is not closed; left as text")
    kept.append(text[at:])
    unsure = frozenset(reader.unsure)
    return Mentions("".join(kept), tuple(reader.blocks), _few([*reader.notes]), unsure)


def _close_readings(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield what an `@` close to something may mean: the word, or as far as markup goes.

    Nothing where the markup stands behind a letter: `joe_@example.org` is a mail address.
    """
    word, text, end = found["close"], found.string, found.start()
    start = end
    while start and text[start - 1] in _MARKUP:
        start -= 1
    if word is None or (start < end and start and not _EDGE.match(text, start - 1)):
        return
    markup = text[start:end][::-1]
    for each in (word, word.rpartition(markup)[0] if markup else ""):
        if bare := _without_punctuation(each):
            yield from _readings(each, bare)


def _few(notes: list[str]) -> tuple[str, ...]:
    """Return some notes, and how many more there would be: what is pasted can be full of `@`."""
    if len(notes) <= _MOST_NOTES:
        return tuple(notes)
    return (
        *notes[:_MOST_NOTES],
        f"{len(notes) - _MOST_NOTES:,} more words with an @ are like that",
    )


class _Reader:
    """Gathers what is pointed at. Each thing counts once, and so does each note."""

    def __init__(self, workspace: Workspace | None, servers: Collection[str]) -> None:
        self._workspace = workspace
        self._servers = servers
        self._existing: dict[str, bool] = {}
        self.blocks: dict[Pointer, None] = {}
        self.unsure: set[Pointer] = set()
        self.notes: dict[str, None] = {}

    def take_word(self, word: str) -> None:
        """Take what stands behind an `@`, up to the next blank: perhaps a path, or only a word."""
        word = word.replace("\\ ", " ")
        bare = word if word in _HERE else _without_punctuation(word)
        if not bare:
            return
        if is_address(bare):
            self._take_address(bare)
        elif of_server := _OF_SERVER.fullmatch(bare):
            self._take_resource(of_server["server"], of_server["uri"])
        elif found := self.first_existing(_readings(word, bare)):
            self.take_path(*found)
        else:
            self._take_missing(bare)

    def first_existing(self, readings: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the first path that names something, and its lines; None if none does."""
        return next(filter(self._is_existing, readings), None)

    def take_path(self, path: str, lines: str) -> Pointer:
        """Take a path that is meant as one, and some of its lines."""
        path = _at_home(path)
        normal = posixpath.normpath(path)
        if normal == ".." or normal.startswith("../"):
            raise InvalidValue(
                f"@{quoted(path)}: .. leads out of the working folder; add the folder with"
                " --add-dir, and write its absolute path"
            )
        is_image = not lines and _IMAGE.search(path) is not None
        if is_image and is_pattern(path):
            is_image = self._exists(path)
        block: Pointer
        try:
            if is_image:
                block = Image(source=ImageFile(path))
            else:
                first, last = _numbers(path, lines)
                block = FileReference(path=path, start_line=first, end_line=last)
        except InvalidMessage as exc:
            raise InvalidValue(f"@{quoted(path)}: {exc}") from exc
        self.blocks[block] = None
        return block

    def note(self, word: str, text: str) -> None:
        """Tell the person something about a word."""
        short = word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
        self.notes[f"@{short}: {text}"] = None

    def _take_missing(self, word: str) -> None:
        *_, (path, lines) = _splits(word)
        if lines or self._looks_like_a_path(path):
            block = self.take_path(path, lines)
            if not is_pattern(path):
                self.unsure.add(block)
        else:
            self.note(word, "there is no such file; left as text")

    def _looks_like_a_path(self, word: str) -> bool:
        if word.startswith(_SURELY_PATHS) or "*" in word or _FILE.search(word):
            return True
        folder, slash, _ = word.partition("/")  # packages are called so, too: `@types/node`
        return bool(slash) and self._exists(folder)

    def _take_address(self, address: str) -> None:
        try:
            is_image = _IMAGE.search(urlsplit(address).path) is not None
        except ValueError:
            is_image = False
        if is_image:
            self.blocks[Image(source=image_at(address))] = None
        else:
            self.note(address, "only images are fetched from addresses; left as text")

    def _take_resource(self, server: str, uri: str) -> None:
        if server not in self._servers:
            near = get_close_matches(server, self._servers, n=1)
            advice = f"do you mean {quoted(near[0])}? Or" if near else "configure it, or"
            raise InvalidValue(
                f"@{quoted(server)}: there is no such server; {advice} write \\@ if none is meant"
            )
        self.blocks[Resource(server=server, uri=uri)] = None

    def _is_existing(self, reading: tuple[str, str]) -> bool:
        return self._exists(_at_home(reading[0]))

    def _exists(self, path: str) -> bool:
        if path not in self._existing:
            self._existing[path] = self._workspace is not None and _exists(self._workspace, path)
        return self._existing[path]


def _exists(workspace: Workspace, path: str) -> bool:
    """Tell whether there is something of a name, also if it may not be opened."""
    try:
        return workspace.exists(path)
    except ToolFailed:
        return os.path.lexists(workspace.root / path)


def _at_home(path: str) -> str:
    """Return a path with the home folder in place of `~`, if it begins with that."""
    if not path.startswith(_HOME):
        return path
    return os.path.expanduser(path)  # noqa: PTH111 - Path would raise where there is no home


def _readings(word: str, bare: str) -> Iterator[tuple[str, str]]:
    """Yield what a word can mean: punctuation belongs to the sentence, unless such a file exists."""
    for end in range(min(len(word), len(bare) + _MOST_TRIED), len(bare) - 1, -1):
        yield from _splits(word[:end])


def _splits(word: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the lines that a word may name, the longest path first."""
    yield word, ""
    for kind in _LINES:
        if found := kind.fullmatch(word):
            yield found["path"], found["lines"].replace("L", "")


def _numbers(path: str, lines: str) -> tuple[int | None, int | None]:
    """Read `10` or `10-20`. Whether there are such lines is seen when they are opened."""
    if not lines:
        return None, None
    first, dash, last = lines.partition("-")
    rule = ""
    if max(len(first), len(last)) > _MOST_DIGITS:
        lines, rule = lines[:40], "no file has so many"
    elif dash and not last:
        rule = f"name the last one as well, such as {first}-{int(first) + 20}"
    elif int(first) == 0:
        rule = "they are counted from 1"
    elif dash and int(last) < int(first):
        rule = "the second must not be smaller"
    if rule:
        raise InvalidValue(f"@{quoted(path)}: lines {lines}: {rule}")
    return int(first), int(last) if dash else None


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
