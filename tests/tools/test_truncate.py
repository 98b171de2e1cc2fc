"""Long output is shown by its beginning and its end, and stored as a whole."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import Text, ToolCall
from steno.tools.read import ReadTool
from steno.tools.truncate import (
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_LINES,
    is_short,
    truncate_output,
    truncate_text,
)
from steno.tools.workspace import Workspace
from tests.tools.fake_tool_context import FakeToolContext

MARKER = re.compile(r"\[\.\.\. ([\d,]+) lines? \(([\d,]+) bytes\) left out here[^\n]* \.\.\.\]\n")


def test_a_text_within_the_limits_is_unchanged() -> None:
    assert truncate_text("one\ntwo\n", max_lines=2, max_bytes=8) == ("one\ntwo\n", 0, 0)


@given(
    st.sampled_from(["x", "é", "😀", "\n", "x\n", "\ud800"]),
    st.one_of(
        st.integers(0, MAX_OUTPUT_BYTES + 9),
        st.sampled_from(
            [
                MAX_OUTPUT_LINES - 1,
                MAX_OUTPUT_LINES,
                MAX_OUTPUT_BYTES // 4,
                MAX_OUTPUT_BYTES // 4 + 1,
            ]
        ),
    ),
)
def test_nothing_of_what_is_short_is_left_out(part: str, times: int) -> None:
    text = part * times
    _, kept = truncate_output(text, FakeToolContext())
    assert not (is_short(text) and kept)


def test_a_few_words_are_short_and_a_book_is_not() -> None:
    assert is_short("x" * (MAX_OUTPUT_BYTES // 4))
    assert not is_short("x" * (MAX_OUTPUT_BYTES + 1))
    assert not is_short("\n" * (MAX_OUTPUT_LINES + 1))


def test_too_many_lines_lose_those_in_the_middle() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 11))
    shown = truncate_text(text, max_lines=5)
    assert shown.left_out_lines == 5
    assert shown.left_out_bytes == len("line 4\n") * 5
    assert shown.text == (
        "line 1\nline 2\nline 3\n[... 5 lines (35 bytes) left out here ...]\nline 9\nline 10\n"
    )


def test_too_many_bytes_are_cut_between_lines() -> None:
    text = "".join(f"{n:02} {'x' * 20}\n" for n in range(20))
    head, _, tail = truncate_text(text, max_bytes=100).text.partition("[... ")
    assert head == f"00 {'x' * 20}\n01 {'x' * 20}\n"
    assert tail.endswith(f"...]\n18 {'x' * 20}\n19 {'x' * 20}\n")


def test_one_very_long_line_is_cut_inside() -> None:
    shown = truncate_text("a" * 50 + "b" * 50, max_bytes=20)
    assert shown.text == "aaaaaaaaaa\n[... 1 line (80 bytes) left out here ...]\nbbbbbbbbbb"


def test_a_long_line_between_short_ones_is_shown_in_part() -> None:
    shown = truncate_text("first\n" + "x" * 1000 + "\nlast\n", max_bytes=60).text
    assert shown.startswith("first\nxxxx")
    assert shown.endswith("xxxx\nlast\n")


@given(
    st.text(st.sampled_from("ab\n\r\u00e9\u20ac\U0001f600"), max_size=200),
    st.integers(1, 20),
    st.integers(1, 60),
)
def test_truncated_text_is_a_prefix_and_a_suffix_within_the_limits(
    text: str, max_lines: int, max_bytes: int
) -> None:
    shown = truncate_text(text, max_lines=max_lines, max_bytes=max_bytes)
    found = MARKER.search(shown.text)
    if found is None:
        assert shown == (text, 0, 0)
        assert len(text.encode()) <= max_bytes
        return
    head, tail = shown.text[: found.start()], shown.text[found.end() :]
    if not text.startswith(head):
        head = head.removesuffix("\n")  # so that the marker has its own line
    assert text.startswith(head)
    assert text.endswith(tail)
    size = len(head.encode()) + len(tail.encode())
    assert size - head.endswith("\n") <= max_bytes
    assert head.count("\n") + tail.count("\n") <= max_lines + 1
    assert shown.left_out_bytes == int(found[2].replace(",", ""))
    assert shown.left_out_bytes in {len(text.encode()) - size, len(text.encode()) - size + 1}


def test_short_output_is_not_kept() -> None:
    context = FakeToolContext()
    assert truncate_output(b"fine\n", context) == ("fine\n", {})
    assert not context.blobs


def test_bytes_that_are_not_text_do_not_reach_the_model() -> None:
    context = FakeToolContext()
    assert truncate_output(b"a\xffb", context)[0] == "a\ufffdb"
    assert truncate_output("a\ud800b", context)[0] == "a\ufffdb"


def test_the_whole_of_a_long_output_is_kept_byte_for_byte_and_named() -> None:
    context = FakeToolContext()
    data = b"".join(b"%d\xff\n" % n for n in range(100))
    text, details = truncate_output(data, context, max_lines=10)
    assert context.blobs[details["full_output"]] == data
    assert details == {"full_output": details["full_output"], "lines": 100, "bytes": len(data)}
    assert f'call read with path "blob:{details["full_output"]}", offset 6' in text


@pytest.mark.requirement("S4-13")
def test_a_model_that_does_what_the_marker_says_reads_what_was_left_out(
    workspace: Workspace,
) -> None:
    context = FakeToolContext()
    text, _ = truncate_output(
        "first\n" + "é" * 300 + "THE MIDDLE" + "é" * 300 + "\nlast\n", context, max_bytes=200
    )
    found = re.search(r'path "([^"]+)", offset (\d+), column (\d+)', text)
    assert found
    asked = {"path": found[1], "offset": int(found[2]), "column": int(found[3])}
    output = asyncio.run(ReadTool(workspace).run(ToolCall.create("read", asked), context))
    (block,) = output.content
    assert isinstance(block, Text)
    already = text.partition("\n")[2].partition("\n")[0]
    assert already + block.text.partition("\t")[2].partition("\n")[0] == (
        "é" * 300 + "THE MIDDLE" + "é" * 300
    )
