"""`MessageRole`: the sender of a message."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import pickle
from typing import Any, cast

import msgspec
import pytest

import steno
from steno import ChatMessage, InvalidMessage, MessageRole
from tests.code_probes import expect_error
from tests.value_samples import SECRET

NUMBERS = {"system": 0, "user": 1, "assistant": 2, "tool": 3}


@pytest.mark.requirement(
    "FR-004a-01", "FR-004a-02", "FR-004a-03", "FR-004a-04", "FR-004a-05", "FR-004a-10"
)
def test_the_roles_are_system_user_assistant_and_tool_and_no_more() -> None:
    assert "MessageRole" in steno.__all__
    assert {role.name: role.value for role in MessageRole} == {
        "SYSTEM": "system",
        "USER": "user",
        "ASSISTANT": "assistant",
        "TOOL": "tool",
    }
    # An alias would be a second name for a role, and be missing from the iteration above.
    assert len(MessageRole.__members__) == len(MessageRole) == 4


@pytest.mark.requirement("FR-004a-06")
@pytest.mark.parametrize("role", MessageRole)
def test_a_role_is_written_as_its_name_in_small_letters(role: MessageRole) -> None:
    written = role.name.lower()
    assert msgspec.json.encode(role) == f'"{written}"'.encode()
    assert json.dumps(role) == f'"{written}"'
    assert str(role) == f"{role}" == written
    assert msgspec.json.decode(msgspec.json.encode(role), type=MessageRole) is role


@pytest.mark.requirement("FR-004a-07", "NFR-004a-05")
@pytest.mark.parametrize("role", MessageRole)
def test_a_role_is_read_in_any_case(role: MessageRole) -> None:
    for written in (role.value, role.name, role.name.title(), role.name.swapcase()):
        assert MessageRole.parse(written) is role
    assert MessageRole.parse(role.value[0] + role.value[1:].upper()) is role


@pytest.mark.requirement("FR-004a-08", "S2-34", "NFR-004a-21", "NFR-004a-24")
@pytest.mark.parametrize(
    "word",
    [
        *("", " ", "human", "developer", "function", "system ", " user", "tool\n", "users", SECRET),
        *("SYSTEM, 0", "0", "MessageRole.USER", "__class__", "name"),
        *(None, 0, 1.0, True, b"user", ["user"], ("user", 1), object()),
    ],
)
def test_an_unknown_role_is_refused(word: object) -> None:
    error = expect_error(lambda: MessageRole.parse(cast("Any", word)))
    assert isinstance(error, InvalidMessage)
    assert isinstance(error, ValueError)
    assert (error.place, error.code) == ("role", "unknown_role")
    assert all(role in error.message for role in MessageRole)


@pytest.mark.requirement("FR-004a-08")
@pytest.mark.parametrize("word", ["uſer", "ſystem", "aßistant", "syﬆem", "ᴜser", "ｕｓｅｒ"])
def test_a_word_that_only_looks_like_a_role_is_refused(word: str) -> None:
    """The upper case of a long s is S and of a sharp s SS, which makes no other word a role."""
    expect_error(lambda: MessageRole.parse(word))


@pytest.mark.requirement("FR-004a-09")
def test_each_role_has_a_number_of_its_own() -> None:
    assert {role.value: int(role) for role in MessageRole} == NUMBERS
    assert {role.value: role.number for role in MessageRole} == NUMBERS


@pytest.mark.requirement("FR-004a-09")
def test_the_numbers_are_spelled_out_in_the_source() -> None:
    """A number that was counted would shift when a role is added or moved."""
    [source] = ast.parse(inspect.getsource(MessageRole)).body
    assert isinstance(source, ast.ClassDef)
    spelled = {}
    for node in source.body:
        match node:
            case ast.Assign(value=ast.Tuple([ast.Constant(text), ast.Constant(number)])):
                spelled[text] = number
            case _:
                pass
    assert spelled == NUMBERS


@pytest.mark.requirement("FR-004a-09", "NFR-004a-37")
def test_the_number_of_a_role_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        cast("Any", MessageRole.USER).number = 7
    assert int(MessageRole.USER) == 1


@pytest.mark.requirement("NFR-004a-05")
def test_reading_comparing_and_copying_a_role_hands_out_the_member_itself() -> None:
    message = ChatMessage.user("Hello")
    assert message.role is MessageRole.USER
    assert message.role is ChatMessage.user("Hi").role
    assert cast("Any", MessageRole)("user") is MessageRole["USER"] is MessageRole.USER
    for role in MessageRole:
        assert copy.copy(role) is copy.deepcopy(role) is role
        assert pickle.loads(pickle.dumps(role)) is role
    assert len(MessageRole) == 4


@pytest.mark.requirement("FR-004a-01")
def test_roles_compare_by_identity_and_serve_as_keys() -> None:
    assert len({*MessageRole}) == len({role: int(role) for role in MessageRole}) == 4
    # A role is its text, so that it can be compared with the text of a wire.
    assert [role == "user" for role in MessageRole] == [False, True, False, False]
