"""What the offline assistant understands: a sentence becomes steps, each a call of one tool.

Every verb is a row of a table. Nothing is guessed: a sentence that fits no row is not understood,
and then nothing of the whole request is done. Where something is shown beside the words, some
sentences only ask about that, and nothing is called for them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from steno.providers.offline_words import Sentence, Word, sentences_of

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

_READERS: Final = frozenset({"read", "glob", "grep"})
_SPECIAL: Final = re.compile(r"[][\\.^$*+?{}()|]")
_LINES: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_CALL: Final = re.compile(
    r"call\s+(?:the\s+)?(?:tool\s+)?`?(?P<name>[\w.-]+)`?(?:\s+with\b)?[:,]?(?:\s+(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)


Arguments: TypeAlias = Mapping[str, Any]


class Spelling(Enum):
    """How the arguments of a step are named, and what their values are."""

    ROLES = auto()
    """By role; what a tool calls them is in its definition."""
    JSON = auto()
    """As the tool has them."""
    WORDS = auto()
    """By the names that the tool has for them; which of them are numbers, it has to say."""


class Step(NamedTuple):
    """One call that is to be made."""

    tool: str
    arguments: Arguments
    description: str
    """What is done, in words: "read `a.py`"."""
    only_if_failed: int | None = None
    """The number of the step that has to fail before this one is done."""
    argument_format: Spelling = Spelling.ROLES

    @property
    def is_reader(self) -> bool:
        """Whether it changes nothing, and may be done together with its like."""
        return self.tool in _READERS


class Understood(NamedTuple):
    """What a request asks for."""

    steps: tuple[Step, ...] = ()
    unparsed: str | None = None
    """The first sentence that was not understood; then there are no steps."""
    asks_about_attachments: bool = False
    """Whether it asks about what is shown."""


def understand(text: str, *, is_shown: bool = False) -> Understood:
    """Return the steps that a request asks for; none at all where it asks for help or for nothing.

    `is_shown` says that there is something beside the words that they may be about.
    """
    steps: list[Step] = []
    looks = False
    for sentence in sentences_of(text):
        if is_shown and _asks_about_shown(sentence.words()):
            looks = True
            continue
        found = _steps_of(sentence)
        if found is None or (sentence.is_condition and not steps):
            return Understood(unparsed=sentence.text)
        reason = _tried_last(steps) if sentence.is_condition else None
        if len(found) > 1 and found[0].arguments["path"] in _read_before(steps, reason):
            found = found[1:]  # a file is read before it is edited, and once is enough
        steps += [step._replace(only_if_failed=reason) for step in found]
    return Understood(tuple(steps), asks_about_attachments=looks)


def _tried_last(steps: list[Step]) -> int:
    """Return the number of the step that "it" is: the last one that was not itself a remedy."""
    return max(number for number, step in enumerate(steps) if step.only_if_failed is None)


def _read_before(steps: list[Step], reason: int | None) -> set[object]:
    """Return the files whose content is known for certain once these steps are done."""
    known: set[object] = set()
    for step in steps:
        if step.tool == "bash" or step.argument_format is not Spelling.ROLES:
            known.clear()  # a command, or a tool that we do not know, may change any of them
        elif step.tool == "read" and step.only_if_failed in (None, reason):
            known.add(step.arguments["path"])
    return known


def _steps_of(sentence: Sentence) -> tuple[Step, ...] | None:
    words = sentence.words()
    if not words:
        return ()
    parse = _VERBS.get(words[0].lower)
    return None if parse is None else parse(words[1:], sentence.text)


def _asks_about_shown(words: list[Word]) -> bool:
    """Tell whether a sentence is about what is shown: it asks, or says to read what it points at."""
    if not words:
        return False
    first, rest = words[0], _drop(words[1:], _FILLERS | {"file"})
    if first.text.startswith("@") or first.lower in _ASKING:
        return True
    if first.lower not in _READING:
        return False
    return not rest or rest[0].text.startswith("@") or rest[0].lower.rstrip(".?!") in _SHOWN


# -- verbs -----------------------------------------------------------------------------------

Steps: TypeAlias = tuple[Step, ...]


def _help(words: list[Word], _: str) -> Steps | None:
    return None if words else ()


def _list(words: list[Word], _: str) -> Steps | None:
    named, folder = _split(_drop(words, _FILLERS | {"files", "folders", "all"}, keep=0), _IN)
    path = folder or named
    if (named and folder) or len(path) > 1:
        return None
    place = path[0].text if path else "."
    return (Step("glob", {"pattern": "*", "path": place}, f"list the files below {_code(place)}"),)


def _read(words: list[Word], _: str) -> Steps | None:
    words = _drop(words, _FILLERS | {"file"})
    if not words:
        return None
    path, rest = words[0].text, [word.lower for word in words[1:]]
    lines = _lines(rest)
    if lines is None:
        return None
    where = f", {' '.join(rest)}" if rest else ""
    return (Step("read", {"path": path, **lines}, f"read {_code(path)}{where}"),)


def _find(words: list[Word], _: str) -> Steps | None:
    named, folder = _split(words, _IN)
    named = _drop(named, _FILLERS | {"files", "file", "named", "called", "matching", "all"}, keep=0)
    if len(named) > 1 or len(folder) > 1:
        return None
    pattern = named[0].text if named else "*"
    place = folder[0].text if folder else "."
    arguments = {"pattern": pattern if "/" in pattern else f"**/{pattern}", "path": place}
    return (Step("glob", arguments, f"find {_code(pattern)} in {_code(place)}"),)


def _search(words: list[Word], _: str) -> Steps | None:
    sought, folder = _split(_drop(words, frozenset({"for"})), _IN)
    if not sought or len(folder) > 1:
        return None
    text = " ".join([word.text for word in sought])
    place = folder[0].text if folder else "."
    arguments = {"pattern": _SPECIAL.sub(r"\\\g<0>", text), "path": place}
    return (Step("grep", arguments, f"search for {_code(text)} in {_code(place)}"),)


def _replace(words: list[Word], _: str) -> Steps | None:
    every = {"replace_all": True} if words and words[0].lower in ("all", "every") else {}
    match words[1:] if every else words:
        case [old, link, new, place, *rest] if link.lower in ("with", "by", "to") and (
            place.lower == "in"
        ):
            path = _drop(rest, _FILLERS | {"file"})
        case _:
            return None
    if len(path) != 1 or not old.text:
        return None
    name = path[0].text
    change: Arguments = {"path": name, "old": old.text, "new": new.text, **every}
    return (
        Step("read", {"path": name}, f"read {_code(name)}"),
        Step("edit", change, f"replace {_code(old.text)} with {_code(new.text)} in {_code(name)}"),
    )


def _create(words: list[Word], _: str) -> Steps | None:
    match _drop(words, _FILLERS | {"file", "new"}, keep=3):
        case [path, link, *rest] if link.lower in ("with", "containing"):
            content = _drop(rest, _FILLERS | {"text", "content"})
        case [text, link, path] if text.is_quoted and link.lower in ("to", "into"):
            content = [text]
        case _:
            return None
    if len(content) != 1:
        return None
    arguments = {"path": path.text, "content": content[0].text}
    return (Step("write", arguments, f"write {_code(path.text)}"),)


def _run(words: list[Word], text: str) -> Steps | None:
    named = _drop(words, _FILLERS | {"command"})
    command = text.split(None, 1)[1].strip() if words else ""
    if len(named) == 1 and named[0].is_quoted:
        command = named[0].text.strip()
    return (Step("bash", {"command": command}, f"run {_code(command)}"),) if command else None


def _call(_: list[Word], text: str) -> Steps | None:
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    rest = (found["rest"] or "").strip()
    words = Sentence(rest).words()
    if len(words) == 1 and words[0].is_quoted and words[0].text.lstrip().startswith("{"):
        rest = words[0].text.strip()  # a fence around it, or backticks
    is_json = rest.startswith("{")
    arguments = _json_object(rest) if is_json else _pairs(rest)
    if arguments is None:
        return None
    spelling = Spelling.JSON if is_json else Spelling.WORDS
    name = found["name"]
    return (Step(name, arguments, f"call {_code(name)}", argument_format=spelling),)


_READING: Final = ("read", "show", "open", "print", "view", "cat")
_VERBS: Final[Mapping[str, Callable[[list[Word], str], Steps | None]]] = {
    **dict.fromkeys(("help", "help?", "?"), _help),
    **dict.fromkeys(("list", "ls"), _list),
    **dict.fromkeys(_READING, _read),
    **dict.fromkeys(("find", "glob"), _find),
    **dict.fromkeys(("search", "grep"), _search),
    **dict.fromkeys(("replace", "change"), _replace),
    **dict.fromkeys(("create", "write"), _create),
    **dict.fromkeys(("run", "execute", "$"), _run),
    "call": _call,
}

# -- parts of sentences ----------------------------------------------------------------------

_FILLERS: Final = frozenset({"the", "a", "an", "me", "of", "contents"})
_IN: Final = frozenset({"in", "under", "inside", "below"})
_ASKING: Final = frozenset(
    {"what", "what's", "which", "who", "why", "how", "where", "when", "is", "are", "does"}
    | {"summarise", "summarize", "explain", "describe", "tell", "look", "see"}
    | {"review", "compare", "translate", "transcribe"}
)
"""How sentences begin that ask about something; without anything shown they are not understood."""
_SHOWN: Final = frozenset(
    {"it", "this", "that", "these", "them", "text", "resource"}
    | {"image", "images", "picture", "screenshot"}
)
"""What somebody calls what is shown."""


def _drop(words: list[Word], idle: frozenset[str], *, keep: int = 1) -> list[Word]:
    """Return the words without those at the beginning that say nothing; so many are kept."""
    start = 0
    while start < len(words) - keep and words[start].lower in idle:
        start += 1
    return words[start:]


def _split(words: list[Word], links: frozenset[str]) -> tuple[list[Word], list[Word]]:
    """Return the words before the last link, and those behind it."""
    for position in range(len(words) - 1, -1, -1):
        if words[position].lower in links:
            return words[:position], _drop(
                words[position + 1 :], _FILLERS | {"folder", "directory"}
            )
    return words, []


def _lines(rest: list[str]) -> dict[str, int] | None:
    """Return which lines are meant, none of them for all; None if that is not what it says."""
    if not rest:
        return {}
    match rest:
        case ["line" | "lines", numbers]:
            found = _LINES.fullmatch(numbers)
            first, last = (found[1], found[2] or found[1]) if found else ("", "")
        case ["lines", first, "to" | "-", last]:
            pass
        case _:
            return None
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        return None
    return {"offset": int(first), "limit": int(last) - int(first) + 1}


def _json_object(text: str) -> Arguments | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _pairs(text: str) -> Arguments | None:
    """Return what `key=value "key=two words"` says; None if that is not what it is."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # a quote without another one
        return None
    pairs = {name: value for name, sign, value in words if name and sign}
    return pairs if len(pairs) == len(words) else None


def _code(text: str) -> str:
    """Show a text within a sentence, on one line."""
    line = " ".join(text.split())
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    return f"`{shown}`"
