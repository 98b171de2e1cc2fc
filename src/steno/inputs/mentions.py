r"""Parse the mentions of files, folders, patterns, images and MCP resources in a prompt.

    @src/main.py:10-20   @"a name with spaces.txt"   @docs/   @src/**/*.py   @~/notes.md
    @shot.png   @https://example.org/chart.png   @server:scheme://what

Lines may also be written as in compiler messages (`:10:5`) or on GitHub (`#L10-L20`). The text
stays as it was typed, except that `\@`, which means a literal @, loses its backslash; the blocks
follow the text. Code in fences or backticks contains no mentions. The parser opens no file; it
only checks whether paths exist.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from unicodedata import category
from urllib.parse import urlsplit

from steno.errors import InvalidMessage, InvalidValue, ToolFailed
from steno.inputs.file_references import is_glob
from steno.markdown_lines import LineKind, classify_lines
from steno.messages.content import FileReference, Image, ImageFile, ImageUrl, Resource
from steno.ports import ReferenceBlock, SetupNotice
from steno.suggest import closest_name
from steno.tools.safe_open import quote_path
from steno.tools.workspace import Workspace


class Mentions(NamedTuple):
    """A prompt, and the blocks for its mentions."""

    text: str
    """The prompt as it was typed, without the backslash of `\\@`."""
    blocks: tuple[ReferenceBlock, ...]
    """The blocks in the order of their mentions, without duplicates."""
    notices: tuple[SetupNotice, ...]
    """Notices about words with an @ that were left as text."""
    uncertain: frozenset[ReferenceBlock] = frozenset()
    """Blocks for missing paths that the user may not have meant as paths."""


def is_url(text: str) -> bool:
    """Return whether a text is an HTTP or HTTPS URL rather than the path of a file."""
    return _URL.match(text) is not None


def build_image_url(address: str) -> ImageUrl:
    """Return an image URL with its scheme in lower case. Raises InvalidMessage if it is invalid."""
    scheme, colon, rest = address.partition(":")
    return ImageUrl(scheme.lower() + colon + rest)


def parse_mentions(
    text: str, *, workspace: Workspace | None, servers: Collection[str] = ()
) -> Mentions:
    """Find the mentions in a prompt. This may block, because it checks whether files exist.

    A word that names no file becomes a block if it is a pattern or looks like a path; a reference
    to a missing file then fails when it is resolved. Any other word stays text. Raises InvalidValue
    if a path, a line range or a URL is invalid, if a path leaves the workspace with `..`, or if a
    server is unknown.
    """
    collector = _MentionCollector(workspace, servers)
    pieces: list[str] = []
    position = 0
    for start, end in find_prose_spans(text):
        for found in _MENTION.finditer(text, start, end):
            existing = collector.first_existing(_adjacent_candidates(found))
            if found["close"] and existing is None:
                continue
            if found["escape"]:
                pieces.append(text[position : found.start()])
                position = found.end("escape")
            elif existing is not None:
                with suppress(InvalidValue):  # the word may not be meant as a path
                    collector.add_path(*existing)
            elif found["bare"] is not None:
                collector.add_word(found["bare"])
            elif found["quoted"] is not None:
                collector.add_path(found["quoted"], found["lines"] or "")
            else:
                reason = "the quote is not closed; left as text"
                collector.add_notice("quote_not_closed", found["unclosed"], reason)
    pieces.append(text[position:])
    notices = [*collector.notices]
    if len(notices) > _MAX_NOTICES:  # a pasted text may be full of `@`
        rest = len(notices) - _MAX_NOTICES
        words = "1 more word with an @ was" if rest == 1 else f"{rest:,} more words with an @ were"
        more = f"{words} left as text"
        notices[_MAX_NOTICES:] = [SetupNotice("more_mentions_left_as_text", more)]
    uncertain = frozenset(collector.uncertain)
    return Mentions("".join(pieces), tuple(collector.blocks), tuple(notices), uncertain)


# -- syntax ---------------------------------------------------------------------------------------

# A mention follows whitespace, or an opening or separating character (the escapes are quotes,
# brackets and commas of other languages), so that no email address is a mention. Quotes and
# backticks end an unquoted path, because code is full of `@name("/path")`.
_SEPARATORS: Final = r",;\u3001\uff0c\uff1b"
_OPENING_CHARACTERS: Final = (
    rf"""\s(\[{{<"'\u201c\u201e\u2018\u201a\xab\u2039\uff08\u300c{_SEPARATORS}"""
)
# Directly after these characters, an `@` is a mention only if the file exists: characters of
# scripts without spaces between words (Chinese, Japanese, Korean), dashes, dots, the last character
# of `name:` and `name=`, and markup.
_ADJACENT_CHARACTERS: Final = r":=\u2010-\u2027\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_MARKUP_CHARACTERS: Final = "*_"
_MENTION_EDGE: Final = re.compile(f"[{_OPENING_CHARACTERS}{_ADJACENT_CHARACTERS}]")
_MENTION: Final = re.compile(
    rf"""
    (?: (?<! [^{_OPENING_CHARACTERS}] ) | (?P<is_close> (?<= [{_MARKUP_CHARACTERS}{_ADJACENT_CHARACTERS}] ) ) ) (?P<escape> \\? ) @
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
_LINE_SUFFIXES: Final = (
    re.compile("(?P<path>.+):(?P<lines>[0-9]+(?:-[0-9]*)?)"),
    re.compile("(?P<path>.+):(?P<lines>[0-9]+):[0-9]+"),  # the column of a compiler's message
    re.compile("(?P<path>.+)#(?P<lines>L[0-9]+(?:-L?[0-9]+)?)"),  # GitHub
)
_CURRENT_FOLDER: Final = (".", "./")
_HOME_PREFIX: Final = "~/"
_PATH_PREFIXES: Final = ("/", "./", _HOME_PREFIX)
_MAX_DIGITS: Final = 9
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_SERVER_URI: Final = re.compile(r"(?P<server>[^:/]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*://.*)")
_OPENING_BRACKETS: Final = {")": "(", "]": "[", "}": "{"}
_MAX_PUNCTUATION: Final = 3
"""The number of trailing punctuation characters that are tried as part of a file name."""
_IMAGE_SUFFIX: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\Z", re.IGNORECASE)
# Words with other suffixes are often not files: `@pytest.fixture`, `@first.last`.
_FILE_SUFFIX: Final = re.compile(
    r"""
    \. (?: bmp | c | cc | cfg | conf | cpp | cs | css | csv | diff | env | gif | go | h | hpp | htm
    | html | ini | ipynb | java | jpe?g | js | jsonl? | jsx | kt | lock | log | lua | md | mjs
    | patch | pdf | php | pl | png | proto | ps1 | pyi? | r | rb | rs | rst | scss | sh | sql | svg
    | swift | tex | tiff? | toml | tsx? | txt | vue | webp | xml | ya?ml | zig ) \Z
    """,
    re.VERBOSE | re.IGNORECASE,
)

_MAX_WORD_CHARACTERS: Final = 200
_MAX_NOTICES: Final = 20


class _MentionCollector:
    """Collects the blocks and notices of a prompt, without duplicates."""

    def __init__(self, workspace: Workspace | None, servers: Collection[str]) -> None:
        self._workspace = workspace
        self._servers = servers
        self._existing: dict[str, bool] = {}
        self.blocks: dict[ReferenceBlock, None] = {}
        self.uncertain: set[ReferenceBlock] = set()
        self.notices: dict[SetupNotice, None] = {}

    def add_word(self, word: str) -> None:
        """Add a block for the path, URL or resource after an `@`, or a notice for another word."""
        word = word.replace("\\ ", " ")
        bare = word if word in _CURRENT_FOLDER else _without_punctuation(word)
        if not bare:
            return
        if is_url(bare):
            self._add_address(bare)
        elif resource_match := _SERVER_URI.fullmatch(bare):
            self._add_resource(resource_match["server"], resource_match["uri"])
        elif found := self.first_existing(_path_candidates(word, bare)):
            self.add_path(*found)
        else:
            self._add_missing(bare)

    def first_existing(self, candidates: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the first candidate (a path and its lines) that exists; None if none exists."""
        existing = (found for found in candidates if self._exists(_expand_home(found[0])))
        return next(existing, None)

    def add_path(self, path: str, lines: str) -> ReferenceBlock:
        """Add a block for a path, or for some of its lines, and return the block.

        Raises InvalidValue if the path or the line range is invalid.
        """
        path = _expand_home(path)
        place = f"@{quote_path(path)}"
        if posixpath.normpath(path).split("/")[0] == "..":
            advice = "add the folder with --add-dir and use its absolute path"
            message = f"the path leaves the working directory; {advice}"
            raise InvalidValue(message, code="outside_workspace", place=place)
        is_image = not lines and _IMAGE_SUFFIX.search(path) is not None
        if is_image and is_glob(path):
            is_image = self._exists(path)
        block: ReferenceBlock
        try:
            if is_image:
                block = Image(source=ImageFile(path))
            else:
                first, last = _parse_line_range(lines, place)
                block = FileReference(path=path, start_line=first, end_line=last)
        except InvalidMessage as exc:
            raise InvalidValue(f"{exc}", code="invalid_path", place=place) from exc
        self.blocks[block] = None
        return block

    def add_notice(self, code: str, word: str, reason: str) -> None:
        """Add a notice about the word after an `@`."""
        short = word if len(word) <= _MAX_WORD_CHARACTERS else f"{word[:_MAX_WORD_CHARACTERS]}…"
        self.notices[SetupNotice(code, f"@{short}: {reason}")] = None

    def _add_missing(self, word: str) -> None:
        *_, (path, lines) = _split_line_suffix(word)
        if lines or self._looks_like_a_path(path):
            block = self.add_path(path, lines)
            if not is_glob(path):
                self.uncertain.add(block)
        else:
            self.add_notice("mention_left_as_text", word, "no such file; left as text")

    def _looks_like_a_path(self, word: str) -> bool:
        if word.startswith(_PATH_PREFIXES) or "*" in word or _FILE_SUFFIX.search(word):
            return True
        folder, slash, _ = word.partition("/")  # packages also have names like `@types/node`
        return bool(slash) and self._exists(folder)

    def _add_address(self, address: str) -> None:
        try:
            is_image = _IMAGE_SUFFIX.search(urlsplit(address).path) is not None
        except ValueError:
            is_image = False
        if is_image:
            self.blocks[Image(source=build_image_url(address))] = None
        else:
            reason = "only URLs of images are fetched; left as text"
            self.add_notice("address_left_as_text", address, reason)

    def _add_resource(self, server: str, uri: str) -> None:
        if server not in self._servers:
            closest = closest_name(server, self._servers)
            advice = f"did you mean {quote_path(closest)}?" if closest else "configure it first"
            message = f"unknown MCP server; {advice} (write \\@ for a literal @)"
            raise InvalidValue(message, code="server_not_found", place=f"@{quote_path(server)}")
        self.blocks[Resource(server=server, uri=uri)] = None

    def _exists(self, path: str) -> bool:
        """Return whether a path exists, even if opening it is not allowed."""
        if self._workspace is None:
            return False
        if path not in self._existing:
            try:
                self._existing[path] = self._workspace.exists(path)
            except ToolFailed:
                self._existing[path] = os.path.lexists(self._workspace.root / path)
        return self._existing[path]


def _expand_home(path: str) -> str:
    """Return a path with a leading `~/` expanded to the home folder."""
    if not path.startswith(_HOME_PREFIX):
        return path
    return os.path.expanduser(path)  # noqa: PTH111 - Path would raise where there is no home


def _adjacent_candidates(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield the possible paths after an `@` that directly follows another character.

    If that character is markup, the path may end before the same markup. Nothing is yielded if the
    markup follows a letter, because `joe_@example.org` is an email address.
    """
    word, text, end = found["close"], found.string, found.start()
    start = end
    while start and text[start - 1] in _MARKUP_CHARACTERS:
        start -= 1
    if word is None or (start < end and start and not _MENTION_EDGE.match(text, start - 1)):
        return
    markup = text[start:end][::-1]
    for candidate in (word, word.rpartition(markup)[0] if markup else ""):
        if bare := _without_punctuation(candidate):
            yield from _path_candidates(candidate, bare)


def _path_candidates(word: str, bare: str) -> Iterator[tuple[str, str]]:
    """Yield the possible paths and lines of a word, with and without its trailing punctuation."""
    for end in range(min(len(word), len(bare) + _MAX_PUNCTUATION), len(bare) - 1, -1):
        yield from _split_line_suffix(word[:end])


def _split_line_suffix(word: str) -> Iterator[tuple[str, str]]:
    """Yield each way to split a word into a path and lines, the longest path first."""
    yield word, ""
    for kind in _LINE_SUFFIXES:
        if found := kind.fullmatch(word):
            yield found["path"], found["lines"].replace("L", "")


def _parse_line_range(lines: str, place: str) -> tuple[int | None, int | None]:
    """Parse a range such as `10` or `10-20`. Raises InvalidValue if the range is invalid."""
    if not lines:
        return None, None
    first, dash, last = lines.partition("-")
    problem = ""
    if max(len(first), len(last)) > _MAX_DIGITS:
        lines, problem = lines[:40], "the numbers are too large"
    elif dash and not last:
        problem = f"add the last line, such as {first}-{int(first) + 20}"
    elif int(first) == 0:
        problem = "lines are counted from 1"
    elif dash and int(last) < int(first):
        problem = "the last line is before the first"
    if problem:
        raise InvalidValue(f"lines {lines}: {problem}", code="invalid_lines", place=place)
    return int(first), int(last) if dash else None


def _without_punctuation(word: str) -> str:
    """Return a word without trailing punctuation and trailing brackets that it does not open."""
    unopened = {
        end: word.count(end) - word.count(begin) for end, begin in _OPENING_BRACKETS.items()
    }
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
        return character in ".,;:!?)]}"  # other punctuation is common in paths
    return category(character).startswith("P")


# -- prose and code -------------------------------------------------------------------------------

_BACKTICKS: Final = re.compile("`+")


def find_prose_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a text that is not code, in order."""
    for start, end in _find_paragraph_spans(text):
        runs = [*_BACKTICKS.finditer(text, start, end)]
        # Each run of backticks, and the next run of the same length, which ends the code.
        partners: dict[int, int] = {}
        last: dict[int, int] = {}
        for number in reversed(range(len(runs))):
            length = len(runs[number][0])
            if length in last:
                partners[number] = last[length]
            last[length] = number
        at, number = start, 0
        while number < len(runs):
            if (partner := partners.get(number)) is not None:
                yield at, runs[number].start()
                at, number = runs[partner].end(), partner
            number += 1
        yield at, end


def _find_paragraph_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each paragraph outside of code fences."""
    start = at = 0
    for kind, line, _ in classify_lines(text):
        end = at + len(line)
        if kind is LineKind.OPENING_FENCE or (kind is LineKind.PROSE and not line.strip()):
            yield start, at
        if kind is not LineKind.PROSE or not line.strip():
            start = end
        at = end
    yield start, at
