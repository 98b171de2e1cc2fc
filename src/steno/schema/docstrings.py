"""Split docstrings into a description and one entry per parameter.

Google, NumPy and Sphinx styles are parsed in the same way. The text is split where a section
begins, and the entries of sections that describe parameters or attributes are collected.
Text under "Note" or "Warning" is meant for the caller, so it stays in the description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct

_PARAMETER_SECTIONS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"}
    | {"other parameters", "attributes", "fields"}
)
_OTHER_SECTIONS = frozenset(
    {"returns", "return", "yields", "yield", "receives", "raises", "warns", "example"}
    | {"examples", "see also", "references", "todo", "methods"}
)

# Strings, not compiled patterns: `re` compiles and caches them at first use, not at import.
_GOOGLE_ENTRY = r"\s*(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*) *(?:\(.*?\))? *:(?P<text>.*)"
_NUMPY_ENTRY = r"(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*) *(?::.*)?(?P<text>)$"
_SPHINX_FIELD = (
    r":(?P<kind>param|parameter|arg|argument|key|keyword|var|ivar|attribute|type|vartype|rtype"
    r"|returns?|raises?|yields?|except|exception|meta) *(?P<names>[^:]*):(?P<text>.*)"
)
_OTHER_SPHINX_FIELDS = frozenset(
    {"type", "vartype", "rtype", "return", "returns", "raise", "raises", "yield", "yields"}
    | {"except", "exception", "meta"}
)


class Docstring(Struct, frozen=True):
    """The text of a docstring before its sections, and the description of each parameter."""

    text: str
    entries: dict[str, str]
    """The description of each parameter or attribute, by name."""


def read_docstring(doc: str | None) -> Docstring:
    """Split a docstring in Google, NumPy or Sphinx style.

    A docstring without sections becomes the text, and None becomes an empty text.
    """
    if not doc:
        return Docstring("", {})
    first, *rest = doc.expandtabs().split("\n")
    margin = min((_indent(line) for line in rest if line.strip()), default=0)  # as in PEP 257
    lines = [first.strip(), *(line[margin:].rstrip() for line in rest)]
    cuts = [i for i in range(len(lines)) if _begins_section(lines, i)] + [len(lines)]
    entries: dict[str, str] = {}
    for start, end in pairwise(cuts):
        for names, text in _entries(lines[start:end]):
            for name in names:
                entries.setdefault(name.strip(" *"), text)
    return Docstring("\n".join(lines[: cuts[0]]).strip(), entries)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begins_section(lines: list[str], i: int) -> bool:
    line = lines[i]
    if line.startswith(":"):
        return re.match(_SPHINX_FIELD, line) is not None
    title = line.removesuffix(":").lower()
    if title not in _PARAMETER_SECTIONS and title not in _OTHER_SECTIONS:
        return False
    if line.endswith(":"):
        after = next((other for other in lines[i + 1 :] if other), "")
        return after.startswith(" ")
    underline = lines[i + 1] if i + 1 < len(lines) else ""
    return len(underline) >= 3 and not underline.strip("-")


def _entries(section: list[str]) -> Iterator[tuple[list[str], str]]:
    title = section[0]
    if title.startswith(":"):
        yield from _sphinx_entry(section)
    elif title.removesuffix(":").lower() in _PARAMETER_SECTIONS:
        if title.endswith(":"):
            yield from _list_entries(section[1:], _GOOGLE_ENTRY)
        else:
            yield from _list_entries(section[2:], _NUMPY_ENTRY)


def _sphinx_entry(section: list[str]) -> Iterator[tuple[list[str], str]]:
    found: Any = re.match(_SPHINX_FIELD, section[0])
    names = found["names"].split()
    if names and found["kind"] not in _OTHER_SPHINX_FIELDS:
        end = section.index("") if "" in section else len(section)
        # In `:param int count:`, the type precedes the name.
        yield names[-1:], _join_lines([found["text"], *section[1:end]])


def _list_entries(lines: list[str], pattern: str) -> Iterator[tuple[list[str], str]]:
    margin = next((_indent(line) for line in lines if line), 0)
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        if line and _indent(line) < margin:
            break  # the section has ended, and prose follows
        found = re.match(pattern, line) if line and _indent(line) == margin else None
        if found:
            if names:
                yield names, _join_lines(texts)
            names, texts = found["names"].split(","), [found["text"]]
        else:
            texts.append(line)
    if names:
        yield names, _join_lines(texts)


def _join_lines(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
