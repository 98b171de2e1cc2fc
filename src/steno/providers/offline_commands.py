r"""The commands of the offline assistant: a sentence becomes steps, each a call of one tool.

Sentences end at line breaks, semicolons and the word "then". Text in quotes, in backticks or in a
fence is one word; in double quotes `\n`, `\t`, `\"` and `\\` have their usual meaning. Every verb
is a row of a table. Nothing is guessed: if one sentence fits no row, nothing of the whole request
is done. Where the message has attachments, some sentences only ask about those, and call no tool.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

HELP: Final = """\
I understand:
- list files in DIR
- read FILE, or read FILE lines 10-20
- find *.py in DIR
- search for "TEXT" in DIR
- replace "OLD" with "NEW" in FILE
- create FILE with "TEXT"
- run COMMAND
- call TOOL key=value, or call TOOL {"key": "value"}
- what is in @FILE, or anything else about what you point at: I show how it begins

Several of them, one a line or joined by "then", are done in order; one that begins with \
"if it fails" is done only if the one before it failed."""
_QUOTED: Final = (
    r"```[^\n`]*\n(?P<fence>.*?)^[ \t]*```"
    r"|(?<![^\s(=,:{\[])(?:"  # a quote begins a word: an apostrophe is none
    r'"(?P<double>(?:[^"\\]|\\.)*)"'
    r"|'(?P<single>[^'\n]*)'(?![^\s.,;:!?)])"
    r"|`(?P<code>[^`\n]*)`)"
)
_WORD: Final = re.compile(rf"{_QUOTED}|(?P<plain>\S+)", re.DOTALL | re.MULTILINE)
_SENTENCE_BREAK: Final = re.compile(
    rf"(?P<quoted>{_QUOTED})"
    r"|(?P<end>\n|;|(?<=\s)(?:and\s+)?then[,:]?(?=\s))",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_PREFIX: Final = re.compile(
    r"(?:\d{1,3}[.)]\s+|[-*•]\s+"
    r"|(?:please|and|now|first|next|finally|also|then|can you|could you|would you)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_FINAL_PUNCTUATION: Final = re.compile(r"(?<=[\w\"'`)])[.,?!]+$")
_CONDITION: Final = re.compile(r"if\s+(?:it|that|this)\s+fails[,:]?\s+", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t"}
_READ_TOOLS: Final = frozenset({"read", "glob", "grep"})
_REGEX_SPECIAL: Final = re.compile(r"[][\\.^$*+?{}()|]")
_LINE_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_CALL_SENTENCE: Final = re.compile(
    r"call\s+(?:the\s+)?(?:tool\s+)?`?(?P<name>[\w.-]+)`?(?:\s+with\b)?[:,]?(?:\s+(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)

Arguments: TypeAlias = Mapping[str, Any]


# -- steps -----------------------------------------------------------------------------------------


class ArgumentFormat(Enum):
    """The names and values of the arguments of a step."""

    ROLES = auto()
    """By role; the definition of the tool has the names."""
    JSON = auto()
    """As the tool has them."""
    WORDS = auto()
    """By the names of the tool, as text; its definition shows which are numbers."""


class OfflineStep(NamedTuple):
    """One call of a tool."""

    tool: str
    arguments: Arguments
    description: str
    """A description for people: "read `a.py`"."""
    only_if_failed: int | None = None
    """The number of the step whose failure this one waits for."""
    argument_format: ArgumentFormat = ArgumentFormat.ROLES

    @property
    def is_reader(self) -> bool:
        """Whether it only reads, and may run together with other readers."""
        return self.tool in _READ_TOOLS


class ParsedRequest(NamedTuple):
    """The steps of a request."""

    steps: tuple[OfflineStep, ...] = ()
    unparsed: str | None = None
    """The first sentence that fits no row; then there are no steps."""
    asks_about_attachments: bool = False
    """Whether it asks about the attachments."""


def parse_request(text: str, *, has_attachments: bool = False) -> ParsedRequest:
    """Return the steps of a request; none where it asks for help or for nothing.

    `has_attachments`: sentences may be about the attachments of the message.
    """
    steps: list[OfflineStep] = []
    asks_about_attachments = False
    for sentence in split_sentences(text):
        if has_attachments and _is_about_attachments(sentence.words()):
            asks_about_attachments = True
            continue
        found = _parse_sentence(sentence)
        if found is None or (sentence.is_condition and not steps):
            return ParsedRequest(unparsed=sentence.text)
        reason = _find_last_main_step(steps) if sentence.is_condition else None
        if len(found) > 1 and found[0].arguments["path"] in _find_read_files(steps, reason):
            found = found[1:]  # the file was read before, and once is enough
        steps += [step._replace(only_if_failed=reason) for step in found]
    return ParsedRequest(tuple(steps), asks_about_attachments=asks_about_attachments)


def _find_last_main_step(steps: list[OfflineStep]) -> int:
    """Return the number of the step that "it" refers to: the last one without a condition."""
    return max(number for number, step in enumerate(steps) if step.only_if_failed is None)


def _find_read_files(steps: list[OfflineStep], reason: int | None) -> set[object]:
    """Return the files that were read for certain after these steps."""
    known: set[object] = set()
    for step in steps:
        if step.tool == "bash" or step.argument_format is not ArgumentFormat.ROLES:
            known.clear()  # a command, or an unknown tool, may change any of them
        elif step.tool == "read" and step.only_if_failed in (None, reason):
            known.add(step.arguments["path"])
    return known


def _parse_sentence(sentence: RequestSentence) -> tuple[OfflineStep, ...] | None:
    words = sentence.words()
    if not words:
        return ()
    parse = _VERB_PARSERS.get(words[0].lower)
    return None if parse is None else parse(words[1:], sentence.text)


def _is_about_attachments(words: list[RequestWord]) -> bool:
    """Return whether a sentence is about the attachments: a question, or a command to read them."""
    if not words:
        return False
    first, rest = words[0], _drop_leading(words[1:], _FILLERS | {"file"})
    if first.text.startswith("@") or first.lower in _QUESTION_WORDS:
        return True
    if first.lower not in _READ_VERBS:
        return False
    return (
        not rest or rest[0].text.startswith("@") or rest[0].lower.rstrip(".?!") in _ATTACHMENT_WORDS
    )


# -- verbs -----------------------------------------------------------------------------------

Steps: TypeAlias = tuple[OfflineStep, ...]


def _parse_help(words: list[RequestWord], _: str) -> Steps | None:
    return None if words else ()


def _parse_list(words: list[RequestWord], _: str) -> Steps | None:
    named, folder = _split_at_last(
        _drop_leading(words, _FILLERS | {"files", "folders", "all"}, keep=0), _LOCATION_WORDS
    )
    path = folder or named
    if (named and folder) or len(path) > 1:
        return None
    place = path[0].text if path else "."
    return (
        OfflineStep(
            "glob", {"pattern": "*", "path": place}, f"list the files below {_format_code(place)}"
        ),
    )


def _parse_read(words: list[RequestWord], _: str) -> Steps | None:
    words = _drop_leading(words, _FILLERS | {"file"})
    if not words:
        return None
    path, rest = words[0].text, [word.lower for word in words[1:]]
    lines = _parse_line_range(rest)
    if lines is None:
        return None
    where = f", {' '.join(rest)}" if rest else ""
    return (OfflineStep("read", {"path": path, **lines}, f"read {_format_code(path)}{where}"),)


def _parse_find(words: list[RequestWord], _: str) -> Steps | None:
    named, folder = _split_at_last(words, _LOCATION_WORDS)
    named = _drop_leading(
        named, _FILLERS | {"files", "file", "named", "called", "matching", "all"}, keep=0
    )
    if len(named) > 1 or len(folder) > 1:
        return None
    pattern = named[0].text if named else "*"
    place = folder[0].text if folder else "."
    arguments = {"pattern": pattern if "/" in pattern else f"**/{pattern}", "path": place}
    return (
        OfflineStep("glob", arguments, f"find {_format_code(pattern)} in {_format_code(place)}"),
    )


def _parse_search(words: list[RequestWord], _: str) -> Steps | None:
    sought, folder = _split_at_last(_drop_leading(words, frozenset({"for"})), _LOCATION_WORDS)
    if not sought or len(folder) > 1:
        return None
    text = " ".join([word.text for word in sought])
    place = folder[0].text if folder else "."
    arguments = {"pattern": _REGEX_SPECIAL.sub(r"\\\g<0>", text), "path": place}
    return (
        OfflineStep("grep", arguments, f"search for {_format_code(text)} in {_format_code(place)}"),
    )


def _parse_replace(words: list[RequestWord], _: str) -> Steps | None:
    every = {"replace_all": True} if words and words[0].lower in ("all", "every") else {}
    match words[1:] if every else words:
        case [old, link, new, place, *rest] if link.lower in ("with", "by", "to") and (
            place.lower == "in"
        ):
            path = _drop_leading(rest, _FILLERS | {"file"})
        case _:
            return None
    if len(path) != 1 or not old.text:
        return None
    name = path[0].text
    change: Arguments = {"path": name, "old": old.text, "new": new.text, **every}
    return (
        OfflineStep("read", {"path": name}, f"read {_format_code(name)}"),
        OfflineStep(
            "edit",
            change,
            f"replace {_format_code(old.text)} with {_format_code(new.text)} in {_format_code(name)}",
        ),
    )


def _parse_create(words: list[RequestWord], _: str) -> Steps | None:
    match _drop_leading(words, _FILLERS | {"file", "new"}, keep=3):
        case [path, link, *rest] if link.lower in ("with", "containing"):
            content = _drop_leading(rest, _FILLERS | {"text", "content"})
        case [text, link, path] if text.is_quoted and link.lower in ("to", "into"):
            content = [text]
        case _:
            return None
    if len(content) != 1:
        return None
    arguments = {"path": path.text, "content": content[0].text}
    return (OfflineStep("write", arguments, f"write {_format_code(path.text)}"),)


def _parse_run(words: list[RequestWord], text: str) -> Steps | None:
    named = _drop_leading(words, _FILLERS | {"command"})
    command = text.split(None, 1)[1].strip() if words else ""
    if len(named) == 1 and named[0].is_quoted:
        command = named[0].text.strip()
    return (
        (OfflineStep("bash", {"command": command}, f"run {_format_code(command)}"),)
        if command
        else None
    )


def _parse_call(_: list[RequestWord], text: str) -> Steps | None:
    found = _CALL_SENTENCE.fullmatch(text)
    if found is None:
        return None
    rest = (found["rest"] or "").strip()
    words = RequestSentence(rest).words()
    if len(words) == 1 and words[0].is_quoted and words[0].text.lstrip().startswith("{"):
        rest = words[0].text.strip()  # a fence around it, or backticks
    is_json = rest.startswith("{")
    arguments = _parse_json_object(rest) if is_json else _parse_pairs(rest)
    if arguments is None:
        return None
    spelling = ArgumentFormat.JSON if is_json else ArgumentFormat.WORDS
    name = found["name"]
    return (OfflineStep(name, arguments, f"call {_format_code(name)}", argument_format=spelling),)


_READ_VERBS: Final = ("read", "show", "open", "print", "view", "cat")


_VERB_PARSERS: Final[Mapping[str, Callable[[list[RequestWord], str], Steps | None]]] = {
    **dict.fromkeys(("help", "help?", "?"), _parse_help),
    **dict.fromkeys(("list", "ls"), _parse_list),
    **dict.fromkeys(_READ_VERBS, _parse_read),
    **dict.fromkeys(("find", "glob"), _parse_find),
    **dict.fromkeys(("search", "grep"), _parse_search),
    **dict.fromkeys(("replace", "change"), _parse_replace),
    **dict.fromkeys(("create", "write"), _parse_create),
    **dict.fromkeys(("run", "execute", "$"), _parse_run),
    "call": _parse_call,
}


# -- parts of sentences ----------------------------------------------------------------------

_FILLERS: Final = frozenset({"the", "a", "an", "me", "of", "contents"})


_LOCATION_WORDS: Final = frozenset({"in", "under", "inside", "below"})


_QUESTION_WORDS: Final = frozenset(
    {"what", "what's", "which", "who", "why", "how", "where", "when", "is", "are", "does"}
    | {"summarise", "summarize", "explain", "describe", "tell", "look", "see"}
    | {"review", "compare", "translate", "transcribe"}
)
"""The first words of questions; without attachments they are no commands."""


_ATTACHMENT_WORDS: Final = frozenset(
    {"it", "this", "that", "these", "them", "text", "resource"}
    | {"image", "images", "picture", "screenshot"}
)
"""Words for attachments."""


def _drop_leading(
    words: list[RequestWord], fillers: frozenset[str], *, keep: int = 1
) -> list[RequestWord]:
    """Return the words without fillers at the beginning, but at least `keep` words."""
    start = 0
    while start < len(words) - keep and words[start].lower in fillers:
        start += 1
    return words[start:]


def _split_at_last(
    words: list[RequestWord], links: frozenset[str]
) -> tuple[list[RequestWord], list[RequestWord]]:
    """Return the words before the last link, and those after it."""
    for position in range(len(words) - 1, -1, -1):
        if words[position].lower in links:
            return words[:position], _drop_leading(
                words[position + 1 :], _FILLERS | {"folder", "directory"}
            )
    return words, []


def _parse_line_range(rest: list[str]) -> dict[str, int] | None:
    """Return offset and limit of a range of lines; empty for all lines, None if it is no range."""
    if not rest:
        return {}
    match rest:
        case ["line" | "lines", numbers]:
            found = _LINE_RANGE.fullmatch(numbers)
            first, last = (found[1], found[2] or found[1]) if found else ("", "")
        case ["lines", first, "to" | "-", last]:
            pass
        case _:
            return None
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        return None
    return {"offset": int(first), "limit": int(last) - int(first) + 1}


def _parse_json_object(text: str) -> Arguments | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _parse_pairs(text: str) -> Arguments | None:
    """Return the arguments of `key=value "key=two words"`; None if it is no such text."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # a quote without another one
        return None
    pairs = {name: value for name, sign, value in words if name and sign}
    return pairs if len(pairs) == len(words) else None


def _format_code(text: str) -> str:
    """Return a text as code on one line."""
    line = " ".join(text.split())
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    return f"`{shown}`"


# -- sentences and words ---------------------------------------------------------------------------


class RequestWord(NamedTuple):
    """A word, or everything between two quotes."""

    text: str
    is_quoted: bool = False

    @property
    def lower(self) -> str:
        """The word for comparisons; empty for a quoted one, which is no keyword."""
        return "" if self.is_quoted else self.text.lower().rstrip(",:")


class RequestSentence(NamedTuple):
    """One sentence of a request."""

    text: str
    """The text without numbering and polite words."""
    is_condition: bool = False
    """Whether it is done only if the step before it fails."""

    def words(self) -> list[RequestWord]:
        """Return its words, without the punctuation at the end."""
        return list(_split_words(self.text))


def split_sentences(text: str) -> list[RequestSentence]:
    """Return the sentences of a text."""
    return [sentence for part in _split_parts(text) if (sentence := _build_sentence(part)).text]


def _split_parts(text: str) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_BREAK.finditer(text):
        if found["end"] is not None and not _precedes_fence(text, found):
            yield text[start : found.start()]
            start = found.end()
    yield text[start:]


def _precedes_fence(text: str, found: re.Match[str]) -> bool:
    """Return whether a line break stands before a fence that belongs to the sentence."""
    return found["end"] == "\n" and text[found.end() : found.end() + 3] == "```"


def _build_sentence(part: str) -> RequestSentence:
    text = part.strip()
    if (polite := _PREFIX.match(text)) is not None:
        text = text[polite.end() :]
    text = _FINAL_PUNCTUATION.sub("", text)
    condition = _CONDITION.match(text)
    return RequestSentence(text[condition.end() :] if condition else text, condition is not None)


def _split_words(text: str) -> Iterator[RequestWord]:
    for found in _WORD.finditer(text):
        if (plain := found["plain"]) is not None:
            is_stop = found.start() > 0 and not text[found.start() - 1].isspace()
            if not (is_stop and plain in ".,:!?"):
                yield RequestWord(plain)
        elif found["double"] is not None:
            yield RequestWord(_ESCAPE.sub(_unescape, found["double"]), is_quoted=True)
        else:
            quoted = (found["fence"], found["single"], found["code"])
            yield RequestWord(next(text for text in quoted if text is not None), is_quoted=True)


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])
