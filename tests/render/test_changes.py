"""Every change that the source reports has a sentence, and every sentence a change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno.messages.change import Change, ChangeCode
from steno.messages.order import OrderCode
from steno.render.changes import (
    SENTENCES,
    describe_change,
    format_change,
    is_omission,
    omission_names,
)

SOURCE = Path(__file__).parents[2] / "src" / "steno"
REASONS_IN_TABLES = {
    *((ChangeCode.RESOLVED, "content_shown"), (ChangeCode.UNRESOLVED, "name_shown")),
    *((ChangeCode.UNREADABLE, "error_shown"), (ChangeCode.SHORTENED, "resource")),
    (ChangeCode.RESOURCE_LEFT_OUT, "to_save_room"),
    *((ChangeCode.NOT_EXPORTED, f"only_{which}_branch") for which in ("active", "this")),
    *((code, "other_model_thinking") for code in (ChangeCode.SEAL, ChangeCode.THINKING)),
    *((ChangeCode.REPAIRED, code) for code in OrderCode),
}
"""What the source does not write beside its code."""
REASONS = {(code, reason) for code, reasons in SENTENCES.items() for reason in reasons}


def reported() -> Iterator[tuple[ChangeCode, str]]:
    """Yield every code and reason that stand side by side in the source."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield from code_and_reason(node)


def code_and_reason(call: ast.Call) -> Iterator[tuple[ChangeCode, str]]:
    match [*call.args]:
        case [*_, ast.Attribute(ast.Name("ChangeCode"), code), ast.Constant(str(reason))]:
            yield ChangeCode[code], reason
        case [*_, ast.Attribute(ast.Name("ChangeCode"), code), ast.Constant(str(reason)), _]:
            yield ChangeCode[code], reason
        case [*_, ast.Attribute(ast.Name("ChangeCode"), code), ast.Constant(str(reason)), _, _]:
            yield ChangeCode[code], reason
        case [ast.Constant(str(reason)), *_] if is_export_call(call.func):
            yield ChangeCode.NOT_EXPORTED, reason
        case _:
            pass


def is_export_call(function: ast.expr) -> bool:
    match function:
        case ast.Name("_session_omission"):
            return True
        case ast.Attribute(ast.Name("losses" | "self"), "add"):
            return True
        case _:
            return False


def test_every_reason_has_a_sentence_and_every_sentence_a_reason() -> None:
    assert {*reported()} | REASONS_IN_TABLES == REASONS


@pytest.mark.parametrize(("code", "reason"), sorted(REASONS))
def test_a_sentence_says_all_that_the_change_holds(code: ChangeCode, reason: str) -> None:
    change = Change(code, reason, "messages[1]", value="xyz", names=("one", "two"), number=7)
    sentence = describe_change(change)
    assert sentence
    assert "{" not in sentence
    assert sentence in format_change(change)


@pytest.mark.parametrize(
    "reason", sorted(reason for code, reason in REASONS if code is ChangeCode.OPAQUE)
)
def test_a_block_without_a_type_is_described_without_one(reason: str) -> None:
    change = Change(ChangeCode.OPAQUE, reason, value="gemini")
    assert "of the type" not in describe_change(change)
    assert "of the type poll" in describe_change(replace(change, kind="poll"))


@pytest.mark.parametrize(
    "reason", sorted(reason for code, reason in REASONS if code is ChangeCode.INVALID_CALL)
)
def test_an_invalid_call_is_described_with_its_tool_and_its_id(reason: str) -> None:
    change = Change(ChangeCode.INVALID_CALL, reason, value="read", target="call_1")
    assert " read (call_1) " in describe_change(change)
    unnamed = describe_change(Change(ChangeCode.INVALID_CALL, reason))
    assert "  " not in unnamed
    assert "(" not in unnamed


def test_a_block_of_an_imported_file_is_not_attributed_to_a_version_of_steno() -> None:
    change = Change(ChangeCode.OPAQUE, "other_wire", value="steno", kind="image_url")
    sentence = describe_change(change)
    assert "image_url" in sentence
    assert "version" not in sentence


def test_the_sentences_of_repairs_differ() -> None:
    repairs = [Change(ChangeCode.REPAIRED, code.value, entry="e1") for code in OrderCode]
    assert len({describe_change(repair) for repair in repairs}) == len(OrderCode)


def test_a_change_prints_as_place_code_and_reason() -> None:
    assert str(Change(ChangeCode.SEAL, "other_model", "messages[1]")) == (
        "messages[1]: seal (other_model)"
    )
    assert str(Change(ChangeCode.SHORTENED, "old_result", entry="e4")) == (
        "e4: shortened (old_result)"
    )
    assert str(Change(ChangeCode.MODE, "in_system_message")) == "mode (in_system_message)"


def test_reasons_of_other_wires_are_described_by_their_words() -> None:
    change = Change(ChangeCode.SETTING, "left_out", names=("top_p",))
    assert describe_change(change) == "left out: top_p"


def test_many_names_are_not_all_listed() -> None:
    names = tuple(f"n{number}" for number in range(9))
    sentence = describe_change(Change(ChangeCode.EXTRAS, "conflicting", names=names))
    assert sentence.endswith("n6, n7, …")


def test_the_same_field_of_two_blocks_is_one_kind() -> None:
    names = ("content[0].seal", "content[12] (image)", "outcome", "unknown_members")
    change = Change(
        ChangeCode.NOT_EXPORTED, "fields", "entries[3]", "e3", value="denied", names=names
    )
    assert is_omission(change)
    assert omission_names(change) == [
        "content.seal",
        "content (image)",
        "outcome (denied, written as an error)",
        "unknown members",
    ]
