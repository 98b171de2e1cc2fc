"""Changes to hostile files are found in a bounded number of steps, and can be stopped."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import ToolCall
from steno.errors import ToolFailed
from steno.sequence_diff import find_opcodes
from steno.tools.cancellable_thread import ThreadCancelled, run_in_cancellable_thread
from steno.tools.edit import EditTool, replace_text
from steno.tools.file_change import FileChange
from steno.tools.read import ReadTool
from steno.tools.text_file import LineReader, TextFile, decode_text_file
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import write_files

pytestmark = pytest.mark.requirement("P-37")

BOUND_S: Final = 60.0


def hostile_lines(count: int, seed: int) -> list[str]:
    """Return lines that each occur often, in an order that matches no other."""
    lines = [str(number % (count // 15)) for number in range(count)]
    random.Random(seed).shuffle(lines)
    return lines


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_the_steps_are_those_of_difflib(old: list[str], new: list[str]) -> None:
    for autojunk in (False, True):
        expected = SequenceMatcher(None, old, new, autojunk).get_opcodes()
        assert find_opcodes(old, new, autojunk=autojunk) == expected


@given(
    st.lists(st.sampled_from("abc"), max_size=30),
    st.lists(st.sampled_from("abc"), max_size=30),
    st.integers(0, 100),
)
def test_the_steps_turn_one_text_into_the_other_with_any_number_of_comparisons(
    old: list[str], new: list[str], comparisons: int
) -> None:
    result: list[str] = []
    for tag, i1, i2, j1, j2 in find_opcodes(old, new, max_comparisons=comparisons):
        if tag == "equal":
            assert old[i1:i2] == new[j1:j2]
        result += new[j1:j2]
    assert result == new


def test_a_comparison_without_steps_replaces_everything() -> None:
    assert find_opcodes(["a", "b"], ["b", "a"], max_comparisons=0) == [("replace", 0, 2, 0, 2)]


def test_hostile_sequences_are_compared_in_bounded_steps() -> None:
    """Without the bound, these need billions of comparisons."""
    old, new = hostile_lines(60_000, 1), hostile_lines(60_000, 2)
    (*_, last) = find_opcodes(old, new, autojunk=False)
    assert (last[2], last[4]) == (len(old), len(new))


def test_a_diff_of_hostile_lines_is_a_diff() -> None:
    old, new = ("\n".join(hostile_lines(2_000, seed)).encode() for seed in (1, 2))
    change = FileChange.of("a", old, new)
    assert change.diff.added == change.diff.removed > 0


def test_a_small_change_to_a_huge_file_is_a_small_diff() -> None:
    before = b"x\n" * 5_000_000
    change = FileChange.of("a", before, before[:2_000_000] + b"y\n" + before[2_000_000:])
    assert change.diff.text == (
        "--- a\n+++ a\n@@ -999998,6 +999998,7 @@\n x\n x\n x\n+y\n x\n x\n x\n"
    )


def test_a_change_of_too_many_lines_is_described_by_its_size() -> None:
    before = b"x\n" * 300_000
    change = FileChange.of("a", before, before.replace(b"x", b"y"))
    assert (change.diff.added, change.diff.removed) == (300_000, 300_000)
    assert len(change.diff.text) < 200


TEXTS: Final = {
    "one line": "a" * 3_000_000,
    "line feeds": "\n" * 500_000,
    "equal lines": ("ab" * 99 + "\n") * 15_000,
    "lines of many matches": "".join(
        ["".join(random.Random(n).choices("ab", k=199)) + "\n" for n in range(15_000)]
    ),
    "ligatures": "\ufdfa" * 100_000,
    "blanks": " " * 3_000_000 + "x",
    "numbers": "1\t" * 1_000_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_not_in_a_hostile_file_is_reported(name: str) -> None:
    """The similar line was searched with difflib, which took minutes in a thread without end."""
    file = TextFile(TEXTS[name], "utf-8")
    for old in ("ba" * 99 + "x", "1\t2\n" * 100, " " * 1_000 + "\n\n", "\ufdfb" * 100):
        with raises_code(ToolFailed, "text_not_found", place="old"):
            replace_text(file, old, "new")


def test_every_line_end_of_a_large_file_is_kept() -> None:
    file = TextFile("a\r\n" * 300_000, "utf-8")
    assert replace_text(file, "a", "b\n", every=True) == "b\r\n\r\n" * 300_000


def test_looking_for_a_similar_line_ends_when_the_call_is_cancelled() -> None:
    started, ended = threading.Event(), threading.Event()
    outcome: list[type[BaseException]] = []
    file = TextFile(TEXTS["lines of many matches"], "utf-8")

    def look_forever() -> None:
        try:
            while True:
                try:
                    replace_text(file, "ba" * 99 + "x", "new")
                except ToolFailed:
                    started.set()
        except BaseException as exc:
            outcome.append(type(exc))
            raise
        finally:
            ended.set()

    async def cancel() -> None:
        task = asyncio.ensure_future(run_in_cancellable_thread(look_forever))
        await asyncio.to_thread(started.wait, BOUND_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended.wait(BOUND_S)
    assert outcome == [ThreadCancelled]


def test_an_edit_that_is_cancelled_changes_nothing(workspace: Workspace, folder: Path) -> None:
    text = TEXTS["lines of many matches"]
    write_files(folder, {"a": text})
    workspace.mark_as_read("a", text.encode())
    call = ToolCall.create("edit", {"path": "a", "old": "ba" * 99 + "x", "new": "y"})

    async def cancel() -> None:
        task = asyncio.ensure_future(EditTool(workspace).run(call, FakeToolContext()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert (folder / "a").read_text() == text


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe" * 500_000,
        b"\x00a" * 500_000,
        b"a\x00" * 500_000,
        b"\xe9" * 1_000_000,
        b"\xc3" * 1_000_000,
        b"\xef\xbb\xbf" * 300_000,
        b"\xff\xfe\x00\x00" + b"\xff" * 999_999,
        b"\xed\xa0\x80" * 300_000,
    ],
)
def test_any_bytes_are_text_or_not(data: bytes) -> None:
    file = decode_text_file(data)
    assert file is None or file.encode(file.text) == data


def test_a_file_of_line_feeds_is_read_in_part(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"a": b"\n" * 20_000_000})
    call = ToolCall.create("read", {"path": "a", "offset": 19_999_999, "limit": 10})
    output = asyncio.run(ReadTool(workspace).run(call, FakeToolContext()))
    assert output.details is not None
    assert (output.details["lines"], output.details["last_line"]) == (20_000_000, 20_000_000)


READERS: Final[list[Callable[[str, int], str | bytes | None]]] = [
    lambda text, number: LineReader(text, "\n").read(number),
    lambda text, number: LineReader(text.encode(), b"\n").read(number),
]


@pytest.mark.parametrize("read", READERS)
@given(text=st.text("ab\n\r", max_size=300), number=st.integers(-1, 300))
def test_a_line_is_found_by_its_number(
    read: Callable[[str, int], str | bytes | None], text: str, number: int
) -> None:
    lines = text.removesuffix("\n").split("\n") if text else []
    expected = lines[number - 1] if 1 <= number <= len(lines) else None
    found = read(text, number)
    assert (found.decode() if isinstance(found, bytes) else found) == expected


def test_lines_far_apart_are_found() -> None:
    text = "".join([f"line {number}\n" for number in range(1, 100_001)])
    reader = LineReader(text, "\n")
    for number in (1, 2, 70, 71, 9_999, 50_000, 99_000, 100_000):
        assert reader.read(number) == f"line {number}"
    assert reader.read(100_001) is None
