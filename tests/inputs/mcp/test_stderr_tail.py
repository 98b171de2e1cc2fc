"""The last output of a server that is kept for errors."""

from __future__ import annotations

from steno.inputs.mcp.connection import build_failure
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.transports import StderrTail

SPEC = McpServerSpec(name="server", command="x", env={"LEVEL": "server", "KEY": "hush" * 20})


def test_truncated_output_contains_no_half_of_a_secret() -> None:
    for left in range(1, 80):
        tail = StderrTail()
        tail.add(f"{'hush' * 20}\n{'x' * (4091 - left)}\nend".encode())
        assert "hush" not in str(build_failure(SPEC, "is gone", code="server_gone", tail=tail))
        assert str(tail).endswith("x\nend")


def test_one_long_line_begins_with_a_whole_word() -> None:
    tail = StderrTail()
    tail.add(f"{'hush' * 2000} the end".encode())
    assert str(tail) == "the end"


def test_remarks_are_forgotten_and_words_are_not() -> None:
    tail = StderrTail()
    tail.add(b"words")
    tail.add_note("a remark")
    assert str(tail) == "a remark\nwords"
    tail.clear_notes()
    assert str(tail) == "words"


def test_our_own_words_stay_even_if_a_secret_is_spelled_so() -> None:
    failed = build_failure(
        SPEC, "the server refused the request", "no server here", code="server_refused"
    )
    assert (failed.place, failed.message) == (
        "mcp server",
        "the server refused the request: no *** here",
    )
