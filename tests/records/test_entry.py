"""Entries: messages and other payloads of a log, and content that is never sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any, cast, get_args

import pytest

from steno import (
    ChatMessage,
    Entry,
    Image,
    ImageUrl,
    InvalidMessage,
    InvalidRequest,
    JsonObject,
    Message,
    Opaque,
    Request,
    Resource,
    Text,
    ToolCall,
)
from steno.codec import Document, decode_document, decode_entry, encode_document, encode_entry
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Clear,
    Compaction,
    Control,
    Feedback,
    GrantRevoked,
    ImageAnalysis,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Repair,
    Resolution,
    ResolutionStatus,
    ShellCommand,
)
from tests.code_probes import expect_error
from tests.value_samples import MESSAGES, PAYLOADS, SECRET, Sample, details, name_of

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
USER = ChatMessage.user("Hello")
SHA = "cd" * 32


def record(payload: Any, **changes: Any) -> Entry:
    return Entry(**({"id": "e1", "payload": payload} | changes))


# -- entries -------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-06", "S2-08")
def test_an_entry_gives_a_payload_identity_place_and_time() -> None:
    entry = record(USER, parent="e0", time=NOON, decision="approved", audit={"granted": True})
    assert (entry.id, entry.parent, entry.time) == ("e1", "e0", NOON)
    assert entry.payload is USER
    assert entry.message is USER
    assert (entry.decision, entry.audit) == ("approved", {"granted": True})
    assert decode_entry(encode_entry(entry)) == entry
    assert b"\n" not in encode_entry(entry)


@pytest.mark.requirement("S2-06")
@pytest.mark.parametrize("sample", MESSAGES, ids=name_of)
def test_a_message_in_an_entry_may_be_sent(sample: Sample) -> None:
    message = sample.build()
    assert record(message).message is message
    assert decode_entry(encode_entry(record(message))) == record(message)


@pytest.mark.requirement("S2-06")
@pytest.mark.parametrize("sample", PAYLOADS, ids=name_of)
def test_no_other_payload_is_ever_sent(sample: Sample) -> None:
    payload = sample.build()
    entry = record(payload)
    assert entry.payload is payload
    assert entry.message == (payload.message if isinstance(payload, ShellCommand) else None)
    assert decode_entry(encode_entry(entry)) == entry
    if not isinstance(payload, ShellCommand):
        assert Document(entries=(entry,)).messages == ()
    with pytest.raises(InvalidRequest):
        Request(messages=cast("Any", (USER, payload)))


@pytest.mark.requirement("S2-06", "S2-09")
def test_unknown_entries_are_never_sent() -> None:
    entry = decode_entry(b'{"v":2,"id":"e1","payload":{"type":"hologram","x":1}}')
    assert isinstance(entry.payload, Opaque)
    assert entry.message is None


def test_the_model_reads_a_shell_command_with_its_output() -> None:
    entry = record(ShellCommand(command="ls -a", output="a\nb\n", status=1))
    assert entry.message == ChatMessage.user("$ ls -a\na\nb\n")


@pytest.mark.requirement("P-07")
def test_an_entry_names_the_first_version_that_knows_its_payload() -> None:
    assert record(USER).v == 2
    for payload in (
        ShellCommand(command="ls", output=""),
        GrantRevoked(grant="bash(ls)", target="e1"),
        ImageAnalysis(target="e1", block=0, answer="e2"),
        Clear(),
    ):
        entry = record(payload)
        assert (entry.v, decode_entry(encode_entry(entry))) == (3, entry)
        assert encode_entry(entry).startswith(b'{"v":3,')
        assert "v=" not in repr(entry)


@pytest.mark.parametrize("version", [1, 4])
def test_an_entry_of_another_version_is_refused(version: int) -> None:
    error = expect_error(lambda: record(USER, v=version))
    assert (error.code, error.field) == ("out_of_range", "v")


@pytest.mark.requirement("S2-06")
def test_every_payload_but_messages_has_a_sample() -> None:
    tried = {sample.type for sample in PAYLOADS}
    assert tried == {*get_args(Payload)} - {*get_args(Message)} - {Opaque}
    assert {*get_args(Control)} <= tried
    assert {kind.__name__ for kind in get_args(Control)} == {
        *("ModeChange", "BranchSwitch", "Rewind", "ModelChange", "Label", "Compaction", "Clear"),
    }


@pytest.mark.requirement("NFR-004a-24")
@pytest.mark.parametrize("id", ["", None, 7, b"e1", ["e1"], "e\ud83d"], ids=repr)
def test_an_entry_has_an_id(id: Any) -> None:
    assert expect_error(lambda: record(USER, id=id)).field == "id"
    if id is not None:
        assert expect_error(lambda: record(USER, parent=id)).field == "parent"


@pytest.mark.requirement("S4-12")
@pytest.mark.parametrize(
    "payload",
    [
        None,
        SECRET,
        {},
        Text(SECRET),
        ToolCall(id="a", name="b"),
        [USER],
        Entry(id="a", payload=USER),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_values_that_are_not_payloads_make_no_entry(payload: Any) -> None:
    error = expect_error(lambda: record(payload))
    assert isinstance(error, InvalidMessage)
    assert (error.place, error.code, error.field) == ("entry", "wrong_type", "payload")


def test_the_time_of_an_entry_is_kept_in_utc() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    assert record(USER, time=elsewhere) == record(USER, time=NOON)
    assert b'"time":"2026-06-01T12:00:00Z"' in encode_entry(record(USER, time=elsewhere))
    for wrong in (NOON.replace(tzinfo=None), NOON.date(), "2026-06-01T12:00:00Z", 0):
        error = expect_error(lambda wrong=wrong: record(USER, time=wrong))  # type: ignore[misc]
        assert (error.code, error.field) == ("no_time_zone", "time")


@pytest.mark.requirement("NFR-004a-18")
@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00Z"]
)
def test_a_time_at_the_edge_of_the_calendar_loads_or_is_kept(time: str) -> None:
    data = (
        f'{{"v":2,"id":"e1","time":"{time}",'
        '"payload":{"type":"user","content":[{"type":"text","text":"Hello"}]}}'
    )
    assert decode_entry(data).id == "e1"


def test_audit_data_is_read_only() -> None:
    audit = details()
    entry = record(USER, audit=audit)
    audit["lines"].clear()
    assert entry.audit == details()
    assert type(entry.audit) is JsonObject
    error = expect_error(lambda: record(USER, audit={SECRET: object()}))
    assert (error.place, error.field) == ("entry", "audit")


# -- control -------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-06")
def test_a_mode_change_records_both_modes() -> None:
    change = ModeChange(old=Mode.PLAN, new=Mode.ACT)
    assert (change.old, change.new) == (Mode.PLAN, Mode.ACT)
    assert {mode.value for mode in Mode} == {"plan", "act"}
    for wrong in ("act", None, 1):
        expect_error(lambda wrong=wrong: ModeChange(old=Mode.PLAN, new=wrong))  # type: ignore[misc]
        expect_error(lambda wrong=wrong: ModeChange(old=wrong, new=Mode.ACT))  # type: ignore[misc]


@pytest.mark.requirement("S2-06")
@pytest.mark.parametrize(
    ("type", "fields"),
    [
        (BranchSwitch, {"old": "main", "new": "try"}),
        (Label, {"target": "e1", "text": "before"}),
        (Compaction, {"through": "e1", "summary": "They talked."}),
        (Feedback, {"target": "e1", "text": "Again, please."}),
        (Repair, {"code": "call_unanswered", "explanation": "cut"}),
        (ModelChange, {"new": "m-2"}),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
@pytest.mark.parametrize("wrong", ["", None, 7, b"x", ["x"], "\ud83d"], ids=repr)
def test_a_record_needs_each_of_its_parts(type: Any, fields: dict[str, Any], wrong: Any) -> None:
    rest = {"old": ""} if type is ModelChange else {}
    assert type(**rest, **fields)
    for name in fields:
        error = expect_error(lambda name=name: type(**rest, **(fields | {name: wrong})))  # type: ignore[misc]
        assert error.field == name


def test_the_first_model_follows_none() -> None:
    assert ModelChange(old="", new="m-1").old == ""


# -- approval ------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-04", "S2-36")
def test_whether_a_call_is_approved_is_recorded_beside_it() -> None:
    pending = Approval(call_id="call_1", status=ApprovalStatus.PENDING, arguments_sha256=SHA)
    by_person = Approval(
        call_id="call_1", status=ApprovalStatus.APPROVED, arguments_sha256=SHA, actor="ada"
    )
    by_rule = Approval(
        call_id="call_1", status=ApprovalStatus.DENIED, arguments_sha256=SHA, rule="bash(rm *)"
    )
    assert [approval.status.value for approval in (pending, by_person, by_rule)] == [
        *("pending", "approved", "denied"),
    ]
    assert len(ApprovalStatus) == 3
    assert not {"status", "approved", "approval"} & {*ToolCall.__struct_fields__}


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize("status", ["approved", "pending", None, True, "maybe"], ids=repr)
def test_an_approval_is_one_of_a_fixed_set(status: Any) -> None:
    error = expect_error(
        lambda: Approval(call_id="a", status=status, arguments_sha256=SHA, actor="ada")
    )
    assert (error.place, error.code, error.field) == ("approval", "wrong_type", "status")


@pytest.mark.requirement("S2-36")
def test_a_decision_names_its_actor_or_rule() -> None:
    for status in (ApprovalStatus.APPROVED, ApprovalStatus.DENIED):
        error = expect_error(partial(Approval, call_id="a", status=status, arguments_sha256=SHA))
        assert error.code == "actor_mismatch"
    error = expect_error(
        lambda: Approval(
            call_id="a", status=ApprovalStatus.PENDING, arguments_sha256=SHA, actor="ada"
        )
    )
    assert error.code == "actor_mismatch"


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize("field", ["call_id", "arguments_sha256"])
@pytest.mark.parametrize("wrong", ["", None, 7, b"x"], ids=repr)
def test_an_approval_names_its_call_and_arguments(field: str, wrong: object) -> None:
    fields: dict[str, Any] = {"call_id": "a", "arguments_sha256": SHA, field: wrong}
    error = expect_error(lambda: Approval(status=ApprovalStatus.PENDING, **fields))
    assert error.field == field


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize("digest", ["x", SHA[:-1], SHA.upper(), "g" * 64])
def test_the_arguments_of_an_approval_are_named_by_a_sha256(digest: str) -> None:
    """A decision is bound to a hash of the exact arguments; blobs check theirs."""
    expect_error(
        lambda: Approval(call_id="a", status=ApprovalStatus.PENDING, arguments_sha256=digest)
    )


# -- resolution ----------------------------------------------------------------------------------


def resolve(**changes: Any) -> Resolution:
    fields: dict[str, Any] = {"target": "e1", "block": 0, "status": ResolutionStatus.PENDING}
    return Resolution(**(fields | changes))


@pytest.mark.requirement("S2-02", "S2-03")
def test_a_reference_has_one_of_three_states() -> None:
    assert {status.value for status in ResolutionStatus} == {"pending", "resolved", "failed"}
    assert resolve().content == ()
    found = resolve(status=ResolutionStatus.RESOLVED, content=(Text("a"),))
    assert found.content == (Text("a"),)
    assert resolve(status=ResolutionStatus.FAILED, error="no such file").error == "no such file"


@pytest.mark.requirement("S2-02", "S2-03")
@pytest.mark.parametrize(
    "changes",
    [
        {"content": (Text("a"),)},
        {"error": "no"},
        {"status": ResolutionStatus.RESOLVED},
        {"status": ResolutionStatus.RESOLVED, "content": (Text("a"),), "error": "no"},
        {"status": ResolutionStatus.FAILED},
        {"status": ResolutionStatus.FAILED, "error": "no", "content": (Text("a"),)},
        {"status": "pending"},
        {"block": -1},
        {"block": True},
        {"block": 0.0},
        {"target": ""},
        {"content": [Text("a")], "status": ResolutionStatus.RESOLVED},
        {"details": [1]},
    ],
    ids=str,
)
def test_a_resolution_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    assert str(expect_error(lambda: resolve(**changes))).startswith("resolution: ")


@pytest.mark.requirement("S2-02", "S4-12")
@pytest.mark.parametrize("wrong", [None, SECRET, ToolCall(id="a", name="b"), USER], ids=repr)
def test_a_reference_resolves_to_blocks_that_a_model_can_read(wrong: Any) -> None:
    good = (
        Text("a"),
        Image(source=ImageUrl("https://example.org/a.png")),
        Resource(server="db", uri="u"),
        Opaque(kind="x", raw="{}", origin="gemini"),
    )
    assert resolve(status=ResolutionStatus.RESOLVED, content=good).content == good
    expect_error(lambda: resolve(status=ResolutionStatus.RESOLVED, content=(*good, wrong)))


# -- documents -----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-114", "S2-06")
def test_a_document_returns_its_messages() -> None:
    said: list[Message] = [ChatMessage.system("s"), USER, ChatMessage.assistant("a")]
    document = Document.of(said, id="d1")
    assert document.messages == tuple(said)
    assert [(entry.id, entry.parent) for entry in document.entries] == [
        *(("m1", None), ("m2", "m1"), ("m3", "m2")),
    ]
    switched = Document(
        entries=(*document.entries, record(ModeChange(old=Mode.PLAN, new=Mode.ACT)))
    )
    assert switched.messages == tuple(said)
    assert decode_document(encode_document(switched)) == switched


@pytest.mark.parametrize("entries", [None, [], [record(USER)], (None,), (USER,)], ids=repr)
def test_a_document_is_made_of_entries(entries: Any) -> None:
    expect_error(lambda: Document(entries=entries))
