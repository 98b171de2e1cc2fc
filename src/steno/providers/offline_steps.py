"""What the offline assistant understands: a sentence becomes steps, each a call of one tool.

Every verb is a row of a table. Nothing is guessed: a sentence that fits no row is not understood,
and then nothing of the whole request is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

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
Several of them, one a line or joined by "then", are done in order; one that begins with \
"if it fails" is done only if the one before it failed."""

_READERS: Final = frozenset({"read", "glob", "grep"})
_SPECIAL: Final = re.compile(r"[][\\.^$*+?{}()|]")
_LINES: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


Arguments: TypeAlias = Mapping[str, str | int | bool]


class Step(NamedTuple):
    """One call that is to be made."""

    tool: str
    arguments: Arguments
    """By role; what a tool calls them is in its definition."""
    doing: str
    """What is done, in words: "read `a.py`"."""
    only_if_failed: int | None = None
    """The number of the step that has to fail before this one is done."""

    @property
    def is_reader(self) -> bool:
        """Whether it changes nothing, and may be done together with its like."""
        return self.tool in _READERS


class Understood(NamedTuple):
    """What a request asks for."""

    steps: tuple[Step, ...] = ()
    unclear: str | None = None
    """The first sentence that was not understood; then there are no steps."""


def understand(text: str) -> Understood:
    """Return the steps that a request asks for; none at all where it asks for help or for nothing."""
    steps: list[Step] = []
    for sentence in sentences_of(text):
        found = _steps_of(sentence)
        if found is None or (sentence.is_condition and not steps):
            return Understood(unclear=sentence.text)
        reason = _tried_last(steps) if sentence.is_condition else None
        if len(found) > 1 and found[0].arguments["path"] in _read_before(steps, reason):
            found = found[1:]  # a file is read before it is edited, and once is enough
        steps += [step._replace(only_if_failed=reason) for step in found]
    return Understood(tuple(steps))


def _tried_last(steps: list[Step]) -> int:
    """Return the number of the step that "it" is: the last one that was not itself a remedy."""
    return max(number for number, step in enumerate(steps) if step.only_if_failed is None)


def _read_before(steps: list[Step], reason: int | None) -> set[str | int | bool]:
    """Return the files whose content is known for certain once these steps are done."""
    known: set[str | int | bool] = set()
    for step in steps:
        if step.tool == "bash":
            known.clear()  # a command may change any of them
        elif step.tool == "read" and step.only_if_failed in (None, reason):
            known.add(step.arguments["path"])
    return known


def _steps_of(sentence: Sentence) -> tuple[Step, ...] | None:
    words = sentence.words()
    if not words:
        return ()
    parse = _VERBS.get(words[0].lower)
    return None if parse is None else parse(words[1:], sentence.text)


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


_VERBS: Final[Mapping[str, Callable[[list[Word], str], Steps | None]]] = {
    **dict.fromkeys(("help", "help?", "?"), _help),
    **dict.fromkeys(("list", "ls"), _list),
    **dict.fromkeys(("read", "show", "open", "print", "view", "cat"), _read),
    **dict.fromkeys(("find", "glob"), _find),
    **dict.fromkeys(("search", "grep"), _search),
    **dict.fromkeys(("replace", "change"), _replace),
    **dict.fromkeys(("create", "write"), _create),
    **dict.fromkeys(("run", "execute", "$"), _run),
}

# -- parts of sentences ----------------------------------------------------------------------

_FILLERS: Final = frozenset({"the", "a", "an", "me", "of", "contents"})
_IN: Final = frozenset({"in", "under", "inside", "below"})


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


def _code(text: str) -> str:
    """Show a text within a sentence, on one line."""
    line = " ".join(text.split())
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    return f"`{shown}`"
