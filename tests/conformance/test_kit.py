"""The public parts of the kit: the matrix, the command, the pytest tests."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest

from steno.testing import conformance
from steno.testing.case_results import expect_body, expect_json
from steno.testing.conformance import (
    SERVERS,
    STREAM_CASES,
    WIRE_CASES,
    CaseFailure,
    CaseOutcome,
    CaseResult,
    JsonText,
    NotExpressible,
    Script,
    TextPiece,
    TurnEnd,
    encode_json,
    format_matrix,
    run_wire_cases,
)
from steno.testing.conformance.__main__ import main
from steno.testing.conformance.servers import ChatServer
from tests.conformance import broken_wires
from tests.conformance.broken_wires import server_for

MERGING = server_for(broken_wires.BROKEN["MergesCalls"])
NOT_A_SERVER = 7


# -- exports ---------------------------------------------------------------------------------------


def test_every_public_name_is_there_and_documented() -> None:
    assert conformance.__all__ == sorted(conformance.__all__, key=_as_ruff_sorts)
    for name in conformance.__all__:
        thing = getattr(conformance, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), name


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_every_case_has_a_unique_name_and_a_one_line_docstring() -> None:
    for cases in (WIRE_CASES, STREAM_CASES):
        names = [case.__name__ for case in cases]
        assert len(names) == len(set(names))
        for case in cases:
            doc = inspect.getdoc(case) or ""
            assert doc.endswith("."), case.__name__
            assert "\n" not in doc, case.__name__


def test_the_well_known_cases_exist() -> None:
    names = {case.__name__ for case in (*WIRE_CASES, *STREAM_CASES)}
    assert {
        *("two_calls", "interleaved_calls", "shared_index", "late_name", "invalid_json_arguments"),
        *("thinking_with_seal", "cut_at_every_byte", "cancel_while_waiting", "error_after_200"),
        *("unknown_event", "unicode_line_separators", "response_equals_stream", "prefix_stable"),
    } <= names


# -- the matrix ------------------------------------------------------------------------------------


def test_results_are_shown_as_a_matrix_with_the_reasons_below() -> None:
    results = [
        CaseResult("text", "mine", CaseOutcome.OK),
        CaseResult("two_calls", "mine", CaseOutcome.FAIL, "calls: expected 2, got 1"),
        CaseResult("text", "theirs", CaseOutcome.OK),
        CaseResult(
            "two_calls",
            "theirs",
            CaseOutcome.NOT_APPLICABLE,
            "the protocol cannot express: CallFragment",
        ),
    ]
    assert format_matrix(results) == textwrap.dedent("""\
                   mine  theirs
        text       ok    ok
        two_calls  FAIL  –

        mine · two_calls: calls: expected 2, got 1
        """)


def test_the_matrix_explains_on_request_why_a_case_does_not_apply() -> None:
    results = [
        CaseResult("text", "mine", CaseOutcome.OK),
        CaseResult(
            "thinking",
            "mine",
            CaseOutcome.NOT_APPLICABLE,
            "the protocol cannot express: ThinkingPiece",
        ),
    ]
    assert format_matrix(results, explained=[CaseOutcome.NOT_APPLICABLE]) == textwrap.dedent("""\
                  mine
        text      ok
        thinking  –

        mine · thinking: the protocol cannot express: ThinkingPiece
        """)


def test_the_matrix_of_nothing_is_empty() -> None:
    assert format_matrix([]).strip() == ""


# -- the command -----------------------------------------------------------------------------------


def test_the_command_fails_if_a_wire_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "--wire", "tests.conformance.test_kit:MERGING"]) == 1
    with pytest.raises(SystemExit) as nothing_to_ask:
        main(["--only"])
    assert nothing_to_ask.value.code == 2
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == ["openai_chat"]
    assert "openai_chat · two_calls: calls: expected [('a', 'read'" in printed


def test_the_command_succeeds_if_nothing_failed(capsys: pytest.CaptureFixture[str]) -> None:
    place = "steno.testing.conformance.servers:AnthropicMessagesServer"
    assert main(["--only", "--wire", place]) == 0
    assert main(["--only", "--streams", "--wire", place]) == 0
    printed = capsys.readouterr().out
    assert "FAIL" not in printed
    assert "http/anthropic_messages" in printed


def test_the_command_explains_why_a_case_does_not_apply(capsys: pytest.CaptureFixture[str]) -> None:
    place = "steno.testing.conformance.servers:ChatServer"
    assert main(["--only", "--reasons", "--wire", place]) == 0
    assert (
        "chat · thinking: the protocol cannot express: ThinkingPiece\n" in capsys.readouterr().out
    )


class CountsNothing(ChatServer):
    """A server whose protocol has no token counts."""

    def frames(self, script: Script) -> list[bytes]:
        if any(isinstance(line, TurnEnd) and line.usage is not None for line in script):
            raise NotExpressible("tokens")
        return super().frames(script)


def test_a_protocol_without_token_counts_is_tested_on_all_other_cases() -> None:
    usual, without = (run_wire_cases(server) for server in (ChatServer(), CountsNothing()))
    pairs = zip(usual, without, strict=True)
    differing = {one.case for one, other in pairs if one.outcome is not other.outcome}
    assert differing == {"usage", "usage_totals"}


@pytest.mark.parametrize(
    ("found", "wanted", "is_same"),
    [
        (b'{"a": 1, "b": 2}', b'{"b":2,"a":1}', True),
        (b'{"a": 1}', b'{"a": 2}', False),
        (b'user "Hi"', b'user "Hi"', True),
        (b'user "Hi"', b'user  "Hi"', False),
        (b'{"a": 1', b'{"a": 1}', False),
    ],
)
def test_bodies_are_compared_as_json_or_to_the_byte(
    found: bytes, wanted: bytes, is_same: bool
) -> None:
    with nullcontext() if is_same else pytest.raises(CaseFailure, match=r"^the body: "):
        expect_body(found, wanted, "the body")


def nested(value: object, depth: int = 20_000) -> object:
    for _ in range(depth):
        value = [value]
    return value


def test_values_of_any_depth_are_compared() -> None:
    expect_json(nested(1), nested(1), "the value")
    for other in (nested(2), nested(True), 1, nested(1, depth=10_000)):
        with pytest.raises(CaseFailure, match=r"^the value: differs at "):
            expect_json(nested(1), other, "the value")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module:X", "cannot be imported"),
        ("tests.conformance.test_kit:NOTHING", "cannot be imported"),
        ("speaking", "speaking: expected MODULE:SERVER"),
        ("speaking:", "speaking:: expected MODULE:SERVER"),
        (":Server", ":Server: expected MODULE:SERVER"),
        (".near:Server", ".near:Server cannot be imported"),
        ("tests.conformance.test_kit:NOT_A_SERVER", "is not a ScriptedServer"),
    ],
)
def test_an_object_that_is_not_a_server_is_refused(
    place: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--wire", place])
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


def test_the_kit_runs_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "steno.testing.conformance", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--wire MODULE:SERVER" in run.stdout


# -- pytest ----------------------------------------------------------------------------------------


def test_one_line_makes_a_test_of_every_case(tmp_path: Path) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text(
        "from steno.testing.conformance import ScriptedProviderHarness\n"
        "from steno.testing.conformance.in_pytest import stream_test, wire_test\n"
        "from tests.conformance.test_kit import MERGING\n"
        "test_wire = wire_test(MERGING)\n"
        "test_provider = stream_test(ScriptedProviderHarness())\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", file],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert run.returncode == 1
    assert "test_wire[two_calls]" in run.stdout
    assert f"{len(STREAM_CASES)} passed" not in run.stdout  # the tests of the wire passed as well
    assert "test_provider" not in run.stdout.partition("short test summary")[2]


@pytest.mark.parametrize("kit", ["conformance", "stores"])
def test_without_pytest_the_import_error_names_pytest(kit: str) -> None:
    code = f"""
import sys
sys.modules["pytest"] = None
import steno.testing.{kit}
try:
    import steno.testing.{kit}.in_pytest
except ImportError as exc:
    print(exc)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == f"steno.testing.{kit}.in_pytest needs pytest: pip install pytest\n"


# -- helpers for servers --------------------------------------------------------------------------


def test_json_is_written_as_servers_write_it() -> None:
    assert encode_json({"a": "ü\u2028"}) == '{"a":"ü\u2028"}'.encode()
    assert encode_json(["\ud83d", "😀"]) == '["\\ud83d","😀"]'.encode()
    assert encode_json({"a": JsonText('{ "b" : 1.50 }'), "c": [JsonText("{}")]}) == (
        b'{"a":{ "b" : 1.50 },"c":[{}]}'
    )


def test_servers_send_the_same_bytes_every_time() -> None:
    for server in SERVERS:
        assert server.frames([TextPiece("Hi"), TurnEnd()]) == server.frames(
            [TextPiece("Hi"), TurnEnd()]
        )
