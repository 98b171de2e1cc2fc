"""The state of a prompt: sanitized pastes, placeholders, the history, and completion.

Both interfaces use this module, and the first paint waits for it, so it imports no widget and
nothing slow.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, final
from urllib.parse import unquote, urlsplit

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from steno.app.commands.table import (
    SLASH_COMMANDS_BY_NAME,
    Suggestion,
    match_commands,
    parse_slash_command,
)
from steno.invisible import remove_hidden
from steno.regular_file import open_regular_file
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, truncate_to_width

# -- pasted text ------------------------------------------------------------------------------
#
# Invisible characters are removed: the model must not receive text that the user cannot see.

# ECMA-48 sequences: CSI, control strings such as OSC and DCS, and shorter escape sequences.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Every character that line editors and `str.splitlines` treat as a line end.
_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_IMAGE: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\Z", re.IGNORECASE)
_MAX_PATHS_LENGTH: Final = 16_000
_MAX_PATHS: Final = 50


class PastedText(NamedTuple):
    """Sanitized pasted text, and the number of invisible characters that were removed."""

    text: str
    removed_characters: int
    """The number of removed characters, without escape sequences and lone surrogates."""


def sanitize_pasted(text: str) -> PastedText:
    """Return the visible part of a pasted text, with every line break as a line feed."""
    # A lone surrogate is half a character; it can be neither shown nor encoded.
    clean = _BREAK.sub("\n", strip_escape_sequences(text)).encode(errors="ignore").decode()
    visible = remove_hidden(clean)
    return PastedText(visible, len(clean) - len(visible))


def strip_escape_sequences(text: str) -> str:
    """Return a text without its terminal escape sequences."""
    return _SEQUENCE.sub("", text)


def image_files(text: str) -> Sequence[Path]:
    """Return the image files that a pasted text names; empty if it contains anything else.

    Terminals paste dropped files as absolute paths, quoted or escaped with backslashes and
    separated by spaces, or as file URLs, one per line. The files must exist; a very long list is
    ignored.
    """
    if len(text) > _MAX_PATHS_LENGTH:
        return ()
    for names in _split_paths(text.strip()):
        files = [_image_file(name) for name in names[: _MAX_PATHS + 1]]
        found = [file for file in files if file is not None]
        if found and len(found) == len(files) <= _MAX_PATHS:
            return found
    return ()


def _split_paths(text: str) -> Iterator[list[str]]:
    yield [text]
    yield [line.strip() for line in text.splitlines() if line.strip()]
    with suppress(ValueError):  # a quote is not closed
        yield shlex.split(text)


def _image_file(name: str) -> Path | None:
    if not _IMAGE.search(name):
        return None
    if name.startswith("file:"):
        address = urlsplit(name)
        if address.netloc not in ("", "localhost"):
            return None
        name = unquote(address.path)
    try:
        path = Path(name).expanduser()
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, no home directory, or a NUL
        return None


# -- placeholders of pastes -------------------------------------------------------------------

PromptImage: TypeAlias = str | bytes
"""The path of an image file, or the bytes of a pasted image."""
_MAX_IMAGE_NAME: Final = 40
# A prompt that returns to the input contains its image placeholders as ordinary text.
_IMAGE_PLACEHOLDER: Final = re.compile(r"\[image [0-9]+: ([^\[\]\n]*)\]")


class ExpandedPrompt(NamedTuple):
    """A prompt with its placeholders expanded."""

    text: str
    """The text with pasted texts in place of their placeholders. Image placeholders remain, so that
    the text can refer to the images."""
    images: tuple[PromptImage, ...]
    """The images in the order of their placeholders."""
    text_without_images: str
    """`text` without image placeholders, for the history, which stores no images."""
    typed: str
    """The text as typed, before its placeholders were expanded."""


@final
class PastePlaceholders:
    """The placeholders of one prompt, and the texts and images that they represent."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, PromptImage] = {}

    def add_text(self, text: str) -> str:
        """Add a long text; return its placeholder."""
        lines = text.removesuffix("\n").count("\n") + 1
        size = format_count(lines, "line", "lines")
        if lines == 1:
            size = format_count(len(text), "character", "characters")
        placeholder = f"[pasted {len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = text
        return placeholder

    def add_image(self, image: PromptImage) -> str:
        """Add an image; return its placeholder."""
        number = len(self._images) + 1
        while (placeholder := f"[image {number}: {_image_label(image)}]") in self._images:
            number += 1  # a loaded text may contain a placeholder with this number
        self._images[placeholder] = image
        return placeholder

    def load(self, text: str, images: Iterable[PromptImage]) -> str:
        """Register the images of a text; return the text with a placeholder for each image."""
        unassigned = {match[0]: match[1] for match in _IMAGE_PLACEHOLDER.finditer(text)}
        added: list[str] = []
        for image in images:
            label = _image_label(image)
            placeholder = next((key for key, name in unassigned.items() if name == label), None)
            if placeholder is None:
                added.append(self.add_image(image))
            else:
                del unassigned[placeholder]
                self._images[placeholder] = image
        return " ".join([*([text] if text else []), *added])

    def clear(self) -> None:
        """Remove all placeholders, with their texts and images."""
        self._texts.clear()
        self._images.clear()

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each placeholder in a line."""
        if pattern := self._pattern():
            yield from (match.span() for match in pattern.finditer(line))

    def expand(self, text: str) -> ExpandedPrompt:
        """Return a text with its placeholders expanded."""
        pattern = self._pattern()
        if pattern is None:
            return ExpandedPrompt(text, (), text, text)
        found = [match[0] for match in pattern.finditer(text)]
        images = {name: self._images[name] for name in found if name in self._images}
        return ExpandedPrompt(
            pattern.sub(lambda match: self._texts.get(match[0], match[0]), text),
            (*images.values(),),
            pattern.sub(lambda match: self._texts.get(match[0], ""), text),
            text,
        )

    def _pattern(self) -> re.Pattern[str] | None:
        names = [*self._texts, *self._images]
        return re.compile("|".join(map(re.escape, names))) if names else None


def _image_label(image: PromptImage) -> str:
    if isinstance(image, bytes):
        return "clipboard"
    name = terminal_line(Path(image).name) or "image"
    return truncate_to_width(name.translate({ord("["): "(", ord("]"): ")"}), _MAX_IMAGE_NAME)


# -- history ----------------------------------------------------------------------------------
#
# The history is a file of JSON lines, to which several terminals may write. Each line is appended
# in one write and never changes. The prompt also works if the file cannot be read or written.

_MAX_ENTRIES: Final = 1_000
_MAX_ENTRY_LENGTH: Final = 20_000
_TAIL_BYTES: Final = 2_000_000
"""The maximum number of bytes to read from the end of the history file."""


class _HistoryLine(Struct):
    text: str


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(_HistoryLine)


@final
class PromptHistory:
    """The history of typed prompts, latest last. The history file is read on first use."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: list[str] | None = None
        self._is_failure_reported = False

    def entries(self) -> Sequence[str]:
        """Return the prompts, latest last."""
        if self._entries is None:
            self._entries = [] if self._file is None else _read_history(self._file)
        return self._entries

    def add(self, text: str) -> str | None:
        """Add a prompt; return a notice the first time that the file cannot be written.

        Blank and very long prompts, and repetitions of the last prompt, are not added.
        """
        entries = self.entries()
        if not text.strip() or len(text) > _MAX_ENTRY_LENGTH or (entries and entries[-1] == text):
            return None
        self._entries = [*entries[1 - _MAX_ENTRIES :], text]
        if self._file is None:
            return None
        try:
            _append_line(self._file, text)
        except OSError as exc:
            was_reported, self._is_failure_reported = self._is_failure_reported, True
            if not was_reported:
                return f"{self._file}: the prompt history cannot be saved ({exc.strerror})"
        return None

    def search(self, search: str) -> list[str]:
        """Return the distinct prompts that contain a text, ignoring case, latest first."""
        folded = search.casefold()
        found = [entry for entry in reversed(self.entries()) if folded in entry.casefold()]
        return [*dict.fromkeys(found)]


@final
class HistoryCursor:
    """A cursor in the history that starts at the draft and preserves the edits to each prompt."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries
        self._index = len(entries)
        self._changed: dict[int, str] = {}

    def move(self, step: int, current: str) -> str | None:
        """Move to the previous (-1) or next (1) prompt and return its text; None if there is none.

        The draft follows the latest prompt. `current` is the displayed text, including edits.
        """
        index = self._index + step
        if not 0 <= index <= len(self._entries):
            return None
        self._changed[self._index] = current
        self._index = index
        return self._changed[index] if index in self._changed else self._entries[index]


def _read_history(file: Path) -> list[str]:
    try:
        with open_regular_file(file) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            lines = stream.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return []
    if size > _TAIL_BYTES:
        del lines[0]  # the first line may start before the tail
    entries: list[str] = []
    for line in lines:
        try:
            text = _DECODER.decode(line).text
        except (MsgspecError, UnicodeDecodeError):
            continue  # blank, or truncated by a crash
        if text.strip() and (not entries or entries[-1] != text):
            entries.append(text)
    return entries[-_MAX_ENTRIES:]


def _append_line(file: Path, text: str) -> None:
    """Append a line in one write, so that it does not mix with lines from other processes."""
    line = _ENCODER.encode(_HistoryLine(text)) + b"\n"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        # Without the lock, a line that another process is writing looks like a truncated one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # end the truncated line first
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


# -- completion -------------------------------------------------------------------------------
#
# Completes commands after `/`, and files and resources after `@`. This module knows the commands;
# the caller supplies all other suggestions.

# The `@` must follow white space, an opening bracket or quote, or a separator, so that email
# addresses do not match. Spaces in a path must be quoted or escaped with a backslash.
_MENTION: Final = re.compile(
    r"""(?<! [^\s(\[{<"',;] ) @ (?: "[^"]*\Z | '[^']*\Z | (?: \\[ ] | [^\s`"'<>|] )* ) \Z""",
    re.VERBOSE,
)
_REST: Final = re.compile(r"""[^\s`"'<>|]*""")
_MAX_WORD_LENGTH: Final = 500
"""The maximum number of characters between the `@` and the cursor."""
_QUOTES: Final = ('"', "'")


class TypedWord(NamedTuple):
    """The word to complete, and its position in the line."""

    typed: str
    """The text from the `@` or `/` to the cursor."""
    start: int
    end: int
    """The end of the word, at the cursor or after it."""


def word_at(line: str, column: int, *, is_whole_text: bool) -> TypedWord | None:
    """Return the word to complete at a column; None if no word can be completed there.

    Commands are completed only if the line is the whole text.
    """
    before = line[:column]
    rest = _REST.match(line, column)
    end = rest.end() if rest else column
    if mention := _MENTION.search(line, max(0, column - _MAX_WORD_LENGTH), column):
        typed = mention[0]
        is_closed = typed[1:2] in _QUOTES and line[end : end + 1] == typed[1]
        return TypedWord(typed, mention.start(), end + is_closed)
    if not is_whole_text or not before.startswith("/"):
        return None
    if " " not in before:
        return TypedWord(before, 0, end)
    command = parse_slash_command(before)
    is_known = command is not None and command.name in SLASH_COMMANDS_BY_NAME
    return TypedWord(before, 0, len(line)) if is_known else None


def insertion_text(choice: Suggestion) -> str:
    """Return the text to insert for a suggestion, with a space unless it is an incomplete path."""
    is_path = choice.expects_more and not choice.text.startswith("/")
    return choice.text if is_path else f"{choice.text} "


@final
class CompletionState:
    """The word under the cursor, and the suggestions for it."""

    def __init__(self) -> None:
        self.word: TypedWord | None = None
        self._suggestions: list[Suggestion] = []
        self._dismissed_at: int | None = None
        """The start of the word whose suggestions the user has closed."""

    @property
    def choices(self) -> list[Suggestion]:
        """The suggestions: an exact match, then commands, then others; empty if they are closed."""
        if self.word is None or self._dismissed_at is not None:
            return []
        typed = self.word.typed
        commands = _command_choices(typed) if typed.startswith("/") else []
        known = {choice.text for choice in commands}
        choices = commands + [choice for choice in self._suggestions if choice.text not in known]
        return sorted(choices, key=lambda choice: choice.text != typed)

    def set_word(self, word: TypedWord | None) -> bool:
        """Set the word under the cursor; return whether suggestions should be requested."""
        if word is None or word.start != self._dismissed_at:
            self._dismissed_at = None
        if word is None:
            self._suggestions = []
        elif self.word is None or word.typed != self.word.typed:
            # Earlier suggestions that still match stay until new ones arrive.
            typed = word.typed.lower()
            self._suggestions = [
                choice for choice in self._suggestions if choice.text.lower().startswith(typed)
            ]
        self.word = word
        return word is not None and self._dismissed_at is None

    def set_suggestions(self, typed: str, suggestions: Iterable[Suggestion]) -> bool:
        """Set the suggestions for `typed`; return False if it is no longer the current word."""
        if self.word is None or self.word.typed != typed:
            return False
        self._suggestions = [
            suggestion._replace(text=text, description=terminal_line(suggestion.description))
            for suggestion in suggestions
            if (text := sanitize_pasted(suggestion.text).text) and "\n" not in text
        ]
        return True

    def dismiss(self) -> None:
        """Close the suggestions for this word."""
        self._dismissed_at = None if self.word is None else self.word.start

    def reopen(self) -> None:
        """Show suggestions again after `dismiss`."""
        self._dismissed_at = None


def _command_choices(typed: str) -> list[Suggestion]:
    name, blank, argument = typed[1:].partition(" ")
    if not blank:
        return [
            Suggestion(f"/{found.name}", found.description, bool(found.argument), found.argument)
            for found in match_commands(name)
        ]
    command = SLASH_COMMANDS_BY_NAME.get(name)
    choices = () if command is None else command.choices
    beginning = argument.lower()
    return [Suggestion(f"/{name} {choice}") for choice in choices if choice.startswith(beginning)]
