"""A pending change to a file, which is shown as a diff for approval and then applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from steno.invisible import is_readable
from steno.ports import CallPreview, PreviewKind, PreviewPart, ToolOutput
from steno.sequence_diff import Opcode, find_opcodes
from steno.tools.safe_open import quote_path
from steno.tools.text_file import decode_text_file
from steno.tools.truncate import truncate_text
from steno.tools.workspace import Fingerprint, Workspace

_CONTEXT_LINES: Final = 3
_MAX_COMPARED_LINES: Final = 4_000
"""Longer texts are not compared line by line."""
_MAX_DIFF_LINES: Final = 100_000
"""A larger change is described by its size, since nobody could read its lines."""
_MAX_SHOWN_LINES: Final = 200


class Diff(NamedTuple):
    """The difference between two texts, line by line, in the unified format."""

    text: str
    added: int
    removed: int


class FileChange(NamedTuple):
    """A change to a file: its path, its current content, its new content and the diff."""

    path: str
    """The path as `Workspace.relative` returns it."""
    before: bytes | None
    """The current content; None if the file does not exist yet."""
    after: bytes
    diff: Diff

    @classmethod
    def of(cls, path: str, before: bytes | None, after: bytes) -> FileChange:
        """Create a change and compute its diff."""
        return cls(path, before, after, _build_diff(path, before, after))

    def preview(
        self, path: str, *, replaced: Mapping[str, str], written: Mapping[str, str]
    ) -> CallPreview:
        """Return the diff for approval, or a short text if no line is added or removed.

        `path` is the path in the arguments of the call. `replaced` and `written` contain the
        arguments, by name, whose text is removed from the file or added to it.
        """
        shown_arguments = ["path"] if path == self.path and is_readable(path) else []
        if not self.diff.added and not self.diff.removed:
            reason = "an empty file" if self.before is None else "no change"
            text = self.diff.text or f"{self.path}: {reason}"
            return CallPreview.of(text, shown_arguments=tuple(shown_arguments))
        lines = self.diff.text.split("\n")[2:]
        for sign, texts in (("-", replaced), ("+", written)):
            side = "\n".join([line[1:] for line in lines if line[:1] in (" ", sign)])
            shown_arguments += [
                name for name, text in texts.items() if text.strip() and text.strip("\n") in side
            ]
        part = PreviewPart(PreviewKind.DIFF, self.diff.text)
        return CallPreview((part,), tuple(shown_arguments))

    def apply(self, workspace: Workspace, *, may_be_protected: bool = False) -> ToolOutput:
        """Write the file, which may be protected if the user approved that.

        Raises ToolFailed if the file has changed since the diff was computed.
        """
        expected = None if self.before is None else Fingerprint.of(self.before)
        workspace.strict.write_file(
            self.path, self.after, expected=expected, may_be_protected=may_be_protected
        )
        diff, added, removed = self.diff
        text = f"{self.path} (+{added} -{removed} lines)"
        if self.before is None:
            text = f"created {text}"  # without the diff: the model has just sent the content
        else:
            text = f"changed {text}\n{truncate_text(diff, max_lines=_MAX_SHOWN_LINES).text}"
        shown_diff = truncate_text(diff).text
        details = {"path": self.path, "added": added, "removed": removed, "diff": shown_diff}
        return ToolOutput.of(text, details=details)


def _build_diff(path: str, before: bytes | None, after: bytes) -> Diff:
    old_file, new_file = decode_text_file(before or b""), decode_text_file(after)
    name = path if is_readable(path) else quote_path(path)
    if old_file is None or new_file is None:
        sizes = f"{len(before or b''):,} bytes before, {len(after):,} bytes after"
        return Diff(f"{name}: binary content differs ({sizes})\n", 0, 0)
    first_line, old_text, new_text = _trim_equal_lines(old_file.text, new_file.text)
    old_count, new_count = _count_lines(old_text), _count_lines(new_text)
    if max(old_count, new_count) > _MAX_DIFF_LINES:
        sizes = f"{old_count:,} lines are replaced by {new_count:,} lines"
        return Diff(f"{name}: {sizes} from line {first_line + 1} on\n", new_count, old_count)
    old, new = _split_lines(old_text), _split_lines(new_text)
    opcodes = list(_find_opcodes(old, new))
    added = sum(b2 - b1 for tag, _, _, b1, b2 in opcodes if tag != "equal")
    removed = sum(a2 - a1 for tag, a1, a2, _, _ in opcodes if tag != "equal")
    if not opcodes:
        return Diff("", 0, 0)
    header = f"--- {'/dev/null' if before is None else name}\n+++ {name}\n"
    hunks = "".join(
        part
        for group in _group_opcodes(opcodes)
        for part in _format_hunk(group, old, new, first_line)
    )
    return Diff(header + hunks, added, removed)


def _trim_equal_lines(old: str, new: str) -> tuple[int, str, str]:
    """Return the parts of two texts that differ, with a few equal lines before and after them.

    The first value is the number of lines before these parts. A small change to a large file is
    then as cheap as a change to a small file.
    """
    head = _common_prefix_length(old, new)
    start = old.rfind("\n", 0, head) + 1
    for _ in range(_CONTEXT_LINES):
        start = old.rfind("\n", 0, max(0, start - 1)) + 1
    tail = _common_suffix_length(old, new, min(len(old), len(new)) - head)
    end = len(old) - tail
    for _ in range(_CONTEXT_LINES + 1):  # one more, since the first line may differ at its start
        end = old.find("\n", end) + 1 or len(old)
    tail = len(old) - end
    return old.count("\n", 0, start), old[start:end], new[start : len(new) - tail]


def _common_prefix_length(old: str, new: str) -> int:
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix_length(old: str, new: str, max_length: int) -> int:
    low, high = 0, max_length
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _count_lines(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _split_lines(text: str) -> list[str]:
    """Split text into lines, each with its LF."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _find_opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Yield the steps that turn the old lines into the new lines; nothing if they are equal.

    Only the lines between the common prefix and the common suffix are compared.
    """
    shortest = min(len(old), len(new))
    head = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    max_tail = shortest - head
    tail = next((i for i in range(max_tail) if old[-1 - i] != new[-1 - i]), max_tail)
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if not a and not b:
        return
    yield "equal", 0, head, 0, head
    if len(a) + len(b) <= _MAX_COMPARED_LINES:
        for tag, a1, a2, b1, b2 in find_opcodes(a, b):
            yield tag, head + a1, head + a2, head + b1, head + b2
    else:
        yield "replace", head, len(old) - tail, head, len(new) - tail
    yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _group_opcodes(steps: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Yield groups of neighbouring steps, each group with a few equal lines around it."""
    group: list[Opcode] = []
    last = len(steps) - 1
    for index, (tag, a1, a2, b1, b2) in enumerate(steps):
        is_short = 0 < index < last and a2 - a1 <= 2 * _CONTEXT_LINES
        if tag != "equal" or is_short:
            group.append((tag, a1, a2, b1, b2))
        else:
            if group:
                stop = min(a2 - a1, _CONTEXT_LINES)
                yield [*group, (tag, a1, a1 + stop, b1, b1 + stop)]
            start = min(a2 - a1, _CONTEXT_LINES)
            group = [(tag, a2 - start, a2, b2 - start, b2)]


def _format_hunk(
    group: Sequence[Opcode], old: Sequence[str], new: Sequence[str], first_line: int
) -> Iterator[str]:
    """Yield the lines of a hunk; `first_line` is the number of lines before both sequences."""
    (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
    old_range = _format_range(first_line + a1, first_line + a2)
    yield f"@@ -{old_range} +{_format_range(first_line + b1, first_line + b2)} @@\n"
    for tag, a_start, a_stop, b_start, b_stop in group:
        is_equal = tag == "equal"
        yield from (_format_line(" " if is_equal else "-", line) for line in old[a_start:a_stop])
        if not is_equal:
            yield from (_format_line("+", line) for line in new[b_start:b_stop])


def _format_range(start: int, stop: int) -> str:
    # The unified format counts lines from 1; an empty range has the number of the line before it.
    length = stop - start
    return f"{start + 1 if length else start},{length}"


def _format_line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
