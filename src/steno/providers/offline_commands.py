r"""The commands of the offline assistant: parse sentences into steps, each a call of one tool.

Sentences end at line breaks, semicolons and the word "then". Text in quotes, in backticks or in a
fence is one word; in double quotes `\n`, `\t`, `\"` and `\\` have their usual meaning. Every
command is a row of a table: a pattern, and the function that returns the steps. The parser does not
guess: if one sentence matches no row, no step of the request is run. If the message has
attachments, a sentence may be a question about them, which calls no tool.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
- what is in @FILE, or another question about an attachment: I show its first lines

Write several commands on separate lines or join them with "then"; I run them in order. A command \
that begins with "if it fails" runs only if the command before it failed."""
_QUOTED: Final = (
    r"```[^\n`]*\n(?P<fence>.*?)^[ \t]*```"
    r"|(?<![^\s(=,:{\[])(?:"  # a quote begins a word; an apostrophe does not
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
_CALL_SENTENCE: Final = re.compile(
    r"call\s+(?:the\s+)?(?:tool\s+)?`?(?P<name>[\w.-]+)`?(?:\s+with\b)?[:,]?(?:\s+(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)

Arguments: TypeAlias = Mapping[str, Any]


# -- steps -----------------------------------------------------------------------------------------


ArgumentFormat: TypeAlias = Literal["roles", "json", "words"]
"""The form of the arguments.

`roles`: values by role; the names come from the tool definition. `json`: a JSON object with the
argument names of the tool. `words`: strings by argument name; the types come from the tool
definition.
"""


class OfflineStep(NamedTuple):
    """One call of a tool."""

    tool: str
    arguments: Arguments
    description: str
    """A human-readable description: "read `a.py`"."""
    only_if_failed: int | None = None
    """The number of the step that must fail for this step to run."""
    argument_format: ArgumentFormat = "roles"

    @property
    def is_reader(self) -> bool:
        """Whether the step only reads and may run together with other readers."""
        return self.tool in _READ_TOOLS


Steps: TypeAlias = tuple[OfflineStep, ...]


class ParsedRequest(NamedTuple):
    """The steps of a request, or the sentence that cannot be parsed."""

    steps: Steps = ()
    unparsed: str | None = None
    """The first sentence that matches no command; None if each sentence matches one.

    If it is set, there are no steps.
    """
    asks_about_attachments: bool = False
    """Whether a sentence asks about the attachments."""


def parse_request(text: str, *, has_attachments: bool = False) -> ParsedRequest:
    """Parse a request into steps.

    There are no steps if the request is empty, asks for help or cannot be parsed. With
    `has_attachments`, sentences may be questions about the attachments of the message.
    """
    steps: list[OfflineStep] = []
    asks_about_attachments = False
    for sentence in _split_sentences(text):
        if has_attachments and _ABOUT_ATTACHMENTS.fullmatch(sentence.pattern_text()):
            asks_about_attachments = True
            continue
        found = _parse_sentence(sentence)
        if found is None or (sentence.is_condition and not steps):
            return ParsedRequest(unparsed=sentence.text)
        # "it" refers to the last step without a condition
        reason = (
            max(number for number, step in enumerate(steps) if step.only_if_failed is None)
            if sentence.is_condition
            else None
        )
        if len(found) > 1 and found[0].arguments["path"] in _find_read_files(steps, reason):
            found = found[1:]  # an earlier step reads the file already
        steps += [step._replace(only_if_failed=reason) for step in found]
    return ParsedRequest(tuple(steps), asks_about_attachments=asks_about_attachments)


def _find_read_files(steps: list[OfflineStep], reason: int | None) -> set[object]:
    """Return the files that the steps read after the last step that may change any file.

    A step that runs only if another step fails counts only if that other step is `reason`.
    """
    known: set[object] = set()
    for step in steps:
        if step.tool == "bash" or step.argument_format != "roles":
            known.clear()  # a shell command or an unknown tool may change any file
        elif step.tool == "read" and step.only_if_failed in (None, reason):
            known.add(step.arguments["path"])
    return known


def _parse_sentence(sentence: RequestSentence) -> Steps | None:
    """Return the steps of the first command that matches a sentence; None if no command matches."""
    text = sentence.pattern_text()
    for pattern, build in _COMMANDS:
        if (found := pattern.fullmatch(text)) is not None:
            groups = found.groupdict().items()
            values = {name: sentence.value(value) for name, value in groups if value is not None}
            return build(sentence.text, **values)
    return None if text else ()


# -- steps of each command -----------------------------------------------------------------------


def _help(_: str) -> Steps:
    return ()


def _list(_: str, path: str = ".") -> Steps:
    description = f"list the files in {_format_code(path)}"
    return (OfflineStep("glob", {"pattern": "*", "path": path}, description),)


def _read(_: str, path: str, lines: str = "", first: str = "", last: str = "") -> Steps | None:
    arguments: dict[str, str | int] = {"path": path}
    if lines:
        offset, end = int(first), int(last or first)
        if not 1 <= offset <= end:
            return None
        arguments |= {"offset": offset, "limit": end - offset + 1}
    where = f", {lines.lower()}" if lines else ""
    return (OfflineStep("read", arguments, f"read {_format_code(path)}{where}"),)


def _find(_: str, pattern: str = "*", path: str = ".") -> Steps:
    arguments = {"pattern": pattern if "/" in pattern else f"**/{pattern}", "path": path}
    description = f"find {_format_code(pattern)} in {_format_code(path)}"
    return (OfflineStep("glob", arguments, description),)


def _search(_: str, text: str, path: str = ".") -> Steps:
    arguments = {"pattern": _REGEX_SPECIAL.sub(r"\\\g<0>", text), "path": path}
    description = f"search for {_format_code(text)} in {_format_code(path)}"
    return (OfflineStep("grep", arguments, description),)


def _replace(_: str, old: str, new: str, path: str, every: str = "") -> Steps | None:
    if not old:
        return None
    change = {"path": path, "old": old, "new": new, **({"replace_all": True} if every else {})}
    what = f"{_format_code(old)} with {_format_code(new)} in {_format_code(path)}"
    return (
        OfflineStep("read", {"path": path}, f"read {_format_code(path)}"),
        OfflineStep("edit", change, f"replace {what}"),
    )


def _create(_: str, path: str, content: str) -> Steps:
    arguments = {"path": path, "content": content}
    return (OfflineStep("write", arguments, f"write {_format_code(path)}"),)


def _run(text: str, quoted: str | None = None) -> Steps | None:
    command = (text.split(None, 1)[1] if quoted is None else quoted).strip()
    if not command:
        return None
    return (OfflineStep("bash", {"command": command}, f"run {_format_code(command)}"),)


def _call(text: str) -> Steps | None:
    found = _CALL_SENTENCE.fullmatch(text)
    if found is None:
        return None
    rest = (found["rest"] or "").strip()
    words = RequestSentence(rest).words()
    if len(words) == 1 and words[0].is_quoted and words[0].text.lstrip().startswith("{"):
        rest = words[0].text.strip()  # JSON in a fence or in backticks
    is_json = rest.startswith("{")
    arguments = _parse_json_object(rest) if is_json else _parse_pairs(rest)
    if arguments is None:
        return None
    spelling: ArgumentFormat = "json" if is_json else "words"
    name = found["name"]
    return (OfflineStep(name, arguments, f"call {_format_code(name)}", argument_format=spelling),)


def _parse_json_object(text: str) -> Arguments | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _parse_pairs(text: str) -> Arguments | None:
    """Return the arguments of `key=value "key=two words"`; None for any other text."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # a quote without its closing quote
        return None
    pairs = {name: value for name, sign, value in words if name and sign}
    return pairs if len(pairs) == len(words) else None


def _format_code(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    return f"`{shown}`"


# -- the table of commands -----------------------------------------------------------------------


def _skip(*fillers: str, keep: int = 1) -> str:
    """Return a pattern of filler words that are followed by at least `keep` other words."""
    words = "|".join(("the", "a", "an", "me", "of", "contents", *fillers))
    more = rf"(?: [^\x20]+){{{keep}}}" if keep else "(?: |[,:]*$)"
    return _all_of(rf" (?:{words})(?={more})")


def _all_of(pattern: str) -> str:
    """Return a pattern that repeats a pattern as often as possible, without backtracking.

    A possessive quantifier around alternatives fails on Python 3.11.0 to 3.11.4.
    """
    return f"(?:{pattern})*(?!{pattern})"


def _word(name: str) -> str:
    return rf"(?P<{name}>[^\x20]+)"


def _quoted(name: str) -> str:
    return rf"(?P<{name}>{_QUOTE_MARK}\d+)"


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of words; commas and colons after a word are ignored."""
    return re.compile(f"(?:{pattern.replace(' ', '[,:]* ')})[,:]*", re.IGNORECASE)


_QUOTE_MARK: Final = "\x1f"
"""The start of a quoted word in `pattern_text`; it is whitespace, so no plain word contains it."""
_PATH: Final = _word("path")
_READ_VERBS: Final = "(?:read|show|open|print|view|cat)"
_IN: Final = "(?:in|under|inside|below)"
_IN_FOLDER: Final = f" {_IN}(?:{_skip('folder', 'directory')} {_PATH})?"
_LIST: Final = f"(?:list|ls){_skip('files', 'folders', 'all', keep=0)}"
_FIND: Final = (
    f"(?:find|glob){_skip('files', 'file', 'named', 'called', 'matching', 'all', keep=0)}"
)
_SEARCH: Final = f"(?:search|grep){_all_of(' for(?= )')}"
_LINES: Final = r" (?P<lines>lines? (?P<first>\d{1,9})(?:(?:-| to | - )(?P<last>\d{1,9}))?)"
_REPLACE: Final = "(?:replace|change)(?:(?P<every> (?:all|every))|(?! (?:all|every)))"
_CREATE: Final = f"(?:create|write){_skip('file', 'new', keep=3)}"

_COMMANDS: Final[tuple[tuple[re.Pattern[str], Callable[..., Steps | None]], ...]] = tuple(
    (_compile(pattern), build)
    for pattern, build in (
        (r"help\??|\?", _help),
        (f"{_LIST}{_IN_FOLDER}", _list),
        (f"{_LIST}(?: {_PATH})?", _list),
        (f"{_READ_VERBS}{_skip('file')} {_PATH}(?:{_LINES})?", _read),
        (f"{_FIND}(?: {_word('pattern')})?{_IN_FOLDER}", _find),
        (f"{_FIND}(?: {_word('pattern')})?", _find),
        (f"{_SEARCH} (?P<text>.+){_IN_FOLDER}", _search),
        (f"{_SEARCH}(?!.* {_IN} ) (?P<text>.+)", _search),
        (
            f"{_REPLACE} {_word('old')} (?:with|by|to) {_word('new')} in{_skip('file')} {_PATH}",
            _replace,
        ),
        (
            f"{_CREATE} {_PATH} (?:with|containing){_skip('text', 'content')} {_word('content')}",
            _create,
        ),
        (f"{_CREATE} {_quoted('content')} (?:to|into) {_PATH}", _create),
        (rf"(?:run|execute|\$){_skip('command')} {_quoted('quoted')}", _run),
        (r"(?:run|execute|\$) .+", _run),
        (r"call .+", _call),
    )
)
"""Patterns of words, each with the function that returns the steps; the first match is used."""

_QUESTION_WORDS: Final = (
    "what|what's|which|who|why|how|where|when|is|are|does|summarise|summarize|explain|describe"
    "|tell|look|see|review|compare|translate|transcribe"
)
_ATTACHMENT_WORDS: Final = "it|this|that|these|them|text|resource|image|images|picture|screenshot"
_ABOUT_ATTACHMENTS: Final = _compile(
    rf"(?:@[^\x20]*|{_QUESTION_WORDS})(?: .*)?"
    rf"|{_READ_VERBS}(?:{_skip('file')} (?:@[^\x20]*|(?:{_ATTACHMENT_WORDS})[.?!]*)(?: .*)?)?"
)
"""Questions about the attachments of the message, and commands to read them."""


# -- sentences and words ---------------------------------------------------------------------------


class RequestWord(NamedTuple):
    """A word, or everything between two quotes."""

    text: str
    is_quoted: bool = False


class RequestSentence(NamedTuple):
    """One sentence of a request."""

    text: str
    """The text without numbering, polite words and "if it fails"."""
    is_condition: bool = False
    """Whether the sentence begins with "if it fails"."""

    def words(self) -> list[RequestWord]:
        """Return the words, without the punctuation at the end."""
        return list(_split_words(self.text))

    def pattern_text(self) -> str:
        """Return the text that is compared with the patterns of commands.

        Its words are separated by single spaces, and a quoted word is replaced by a mark and its
        number.
        """
        return " ".join(
            [
                f"{_QUOTE_MARK}{number}" if word.is_quoted else word.text
                for number, word in enumerate(self.words())
            ]
        )

    def value(self, part: str) -> str:
        """Return the original words of a part of the pattern text."""
        words = self.words()
        return " ".join(
            [
                words[int(word[1:])].text if word.startswith(_QUOTE_MARK) else word
                for word in part.split(" ")
            ]
        )


def _split_sentences(text: str) -> Iterator[RequestSentence]:
    for part in _split_parts(text):
        found = part.strip()
        if (polite := _PREFIX.match(found)) is not None:
            found = found[polite.end() :]
        found = _FINAL_PUNCTUATION.sub("", found)
        condition = _CONDITION.match(found)
        if condition is not None:
            found = found[condition.end() :]
        if found:
            yield RequestSentence(found, condition is not None)


def _split_parts(text: str) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_BREAK.finditer(text):
        if found["end"] is None:
            continue
        if found["end"] == "\n" and text.startswith("```", found.end()):
            continue  # the fence belongs to the sentence
        yield text[start : found.start()]
        start = found.end()
    yield text[start:]


def _split_words(text: str) -> Iterator[RequestWord]:
    for found in _WORD.finditer(text):
        if (plain := found["plain"]) is not None:
            is_stop = found.start() > 0 and not text[found.start() - 1].isspace()
            if not (is_stop and plain in ".,:!?"):
                yield RequestWord(plain)
        elif found["double"] is not None:
            unescaped = _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), found["double"])
            yield RequestWord(unescaped, is_quoted=True)
        else:
            quoted = (found["fence"], found["single"], found["code"])
            yield RequestWord(next(text for text in quoted if text is not None), is_quoted=True)
