"""What is on record is called the same wherever people read of it, and does a terminal no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from steno.log.queries import as_version_2
from steno.messages.content import (
    EMPTY_TEXT_KIND,
    OWN_FORMAT,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
)
from steno.messages.message import ChatMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Compaction,
    Entry,
    Feedback,
    GrantRevoked,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Resolution,
    ResolutionStatus,
    Rewind,
    ShellCommand,
)
from steno.render.describe import (
    EntryDescription,
    describe_decider,
    describe_entry,
    describe_opaque,
    describe_origin,
    describe_reference,
    describe_unusual_stop,
    entry_facts,
    entry_position,
    entry_type,
    reference_name,
)
from steno.render.message_text import ROLE_STYLES, entry_heading
from steno.render.quantities import format_time
from steno.render.terminal_text import terminal_text
from tests.value_samples import PAYLOADS, Sample
from tests.value_samples import name_of as name_of_sample

SHA256 = "0" * 64
HOSTILE = "a\x1b[2J\nb\u202ec"


def opaque(kind: str) -> Opaque:
    """Return something that no version knows."""
    return Opaque(kind=kind, origin=OWN_FORMAT, raw="{}")


def told(payload: Payload, *, parent: str | None = "parent") -> EntryDescription:
    """Return what is told of an entry among others, whose ids serve as their numbers."""
    return describe_entry(
        Entry(id="it", payload=payload, parent=parent),
        entry_label=lambda entry_id: f"#{entry_id}",
        call_label=lambda call_id: f"call {call_id}",
        describe_resolution=lambda resolution: EntryDescription(f"block {resolution.block}"),
    )


# -- what messages point at ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "name", "whole"),
    [
        (FileReference(path="a.py"), "a.py", "file a.py"),
        (FileReference(path="a.py", start_line=3), "a.py:3", "file a.py:3"),
        (FileReference(path="a.py", start_line=3, end_line=3), "a.py:3", "file a.py:3"),
        (FileReference(path="a.py", start_line=3, end_line=9), "a.py:3-9", "file a.py:3-9"),
        (Resource(server="docs", uri="note:1"), "docs:note:1", "resource docs:note:1"),
        (Image(source=ImageFile("shot.png")), "shot.png", "image shot.png"),
        (Image(source=ImageUrl("https://x/a")), "https://x/a", "image https://x/a"),
        (
            Image(source=ImageData(b"\x89PNG"), mime_type="image/png"),
            *("image/png, 4 bytes", "image/png, 4 bytes"),
        ),
        (
            Image(source=ImageBlob(sha256=SHA256, size=32_000), mime_type="image/png"),
            *("image/png, 32,000 bytes", "image/png, 32,000 bytes"),
        ),
    ],
)
def test_every_reference_of_a_message_has_a_name(
    pointer: FileReference | Image | Resource, name: str, whole: str
) -> None:
    assert (reference_name(pointer), describe_reference(pointer)) == (name, whole)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://u:pw@h/p?token=SECRET#part", "https://h/p"),
        ("HTTP://h/p?token=SECRET", "http://h/p"),
        ("https:p?token=SECRET", "an address"),
        ("lib://a?token=SECRET", "lib://a"),
        ("lib://a/b#token=SECRET", "lib://a/b"),
        ("db://u:pw@h:5432/p?table=users#part", "db://h:5432/p"),
        ("db://u:p@w@h/p@q", "db://h/p@q"),
        ("db://u:p w@h", "db://h"),
        ("jdbc:db://u:pw@h/p", "jdbc:db://h/p"),
        ("//u:pw@h/p", "//h/p"),
        ("db://u:pw@[::1]/p", "db://[::1]/p"),
        ("notes:all?since=monday", "notes:all"),
        ("urn:a:b@c", "urn:a:b@c"),
        ("?token=SECRET", "an address"),
        ("data:text/plain;base64,U0VDUkVU", "data:text/plain"),
        ("DATA:image/svg+xml,<svg/>", "DATA:image/svg+xml"),
        (" data:,SECRET", "data:"),
        ("\ufeffda\nta:text/plain,SECRET", "data:text/plain"),
        (" //u:SECRET@h/a", "//h/a"),
        ("data:;name=SECRET,SECRET", "data:"),
        ("data:SECRET", "data:"),
        ("data:SE/CRET", "data:"),
    ],
)
def test_a_resource_is_named_without_user_password_query_fragment_and_data(
    uri: str, shown: str
) -> None:
    assert reference_name(Resource(server="lib", uri=uri)) == f"lib:{shown}"


def test_an_image_without_a_name_need_not_tell_its_size() -> None:
    picture = Image(source=ImageData(b"\x89PNG"), mime_type="image/png")
    assert reference_name(picture, with_size=False) == "image/png"


@pytest.mark.parametrize(
    "pointer",
    [
        Image(source=ImageUrl("https://ada:hush@x.example/a.png?key=hush")),
        Resource(server="docs", uri="https://ada:hush@x.example/a"),
    ],
)
def test_no_name_contains_a_password(pointer: Image | Resource) -> None:
    assert "hush" not in describe_reference(pointer)
    assert "x.example/a" in describe_reference(pointer)


@pytest.mark.parametrize(
    "pointer",
    [
        FileReference(path=HOSTILE),
        Image(source=ImageFile(HOSTILE)),
        Image(source=ImageUrl(f"https://x/{HOSTILE}")),
        Image(source=ImageData(b"\x89PNG"), mime_type=f"image/{HOSTILE}"),
        Resource(server=HOSTILE, uri=HOSTILE),
    ],
)
def test_a_name_is_on_one_line_and_does_no_harm(
    pointer: FileReference | Image | Resource,
) -> None:
    assert describe_reference(pointer) == terminal_text(describe_reference(pointer))
    assert "\n" not in describe_reference(pointer)


# -- entries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (ModeChange(old=Mode.PLAN, new=Mode.ACT), EntryDescription("plan → act")),
        (ModelChange(old="", new="m-2"), EntryDescription("m-2")),
        (Rewind(left="9"), EntryDescription("continues from #parent; the last entry was #9")),
        (Label(target="6", text="diagnosis"), EntryDescription("diagnosis for #6")),
        (
            Compaction(through="4", summary="They looked."),
            EntryDescription("replaces everything up to #4", "They looked."),
        ),
        (
            Resolution(target="1", block=2, status=ResolutionStatus.FAILED, error="gone"),
            EntryDescription("block 2"),
        ),
        (Feedback(target="1", text="shorter"), EntryDescription("on #1", "shorter")),
        (Redacted(kind="user", sha256=SHA256), EntryDescription("content of type user")),
        (
            Redaction(target="1", actor="ada", reason="private"),
            EntryDescription("#1 was redacted by ada", "private"),
        ),
        (opaque("dance"), EntryDescription("unknown content: dance")),
    ],
)
def test_an_entry_other_than_a_message_is_shown_on_one_line(
    payload: Payload, expected: EntryDescription
) -> None:
    assert told(payload) == expected


def test_a_branch_may_go_on_from_the_beginning() -> None:
    assert told(Rewind(left="9"), parent=None).summary.startswith("continues from the beginning;")


@pytest.mark.parametrize(
    ("actor", "rule", "by"), [("ada", None, "ada"), (None, "bash(ls *)", "rule bash(ls *)")]
)
def test_a_decision_names_the_actor_or_the_rule(
    actor: str | None, rule: str | None, by: str
) -> None:
    approval = Approval(
        call_id="c1",
        status=ApprovalStatus.APPROVED,
        arguments_sha256=SHA256,
        actor=actor,
        rule=rule,
        reason="it reads",
    )
    assert describe_decider(approval) == by
    assert told(approval) == EntryDescription(f"call c1: approved by {by}", "it reads")


def test_a_pending_call_has_no_actor() -> None:
    approval = Approval(call_id="c1", status=ApprovalStatus.PENDING, arguments_sha256=SHA256)
    assert describe_decider(approval) == ""
    assert told(approval) == EntryDescription("call c1: pending")


@pytest.mark.parametrize("sample", PAYLOADS, ids=name_of_sample)
def test_every_description_of_an_entry_is_printable(sample: Sample) -> None:
    line, words = told(sample.build())
    assert line or words
    assert (line, words) == (terminal_text(line), terminal_text(words))


def test_an_entry_is_called_after_what_it_is() -> None:
    assert entry_type(Entry(id="a", payload=ChatMessage.user("hello"))) == "user"
    assert entry_type(Entry(id="a", payload=opaque("dance"))) == "dance"
    assert entry_type(Entry(id="a", payload=opaque(""))) == "unknown"


@pytest.mark.parametrize("in_version", [lambda entry: entry, as_version_2], ids=["new", "old"])
def test_an_entry_has_one_type_in_every_version(in_version: Callable[[Entry], Entry]) -> None:
    shell = Entry(id="a", payload=ShellCommand(command="ls", output="a.py"))
    revoked = Entry(id="b", payload=GrantRevoked(grant="bash(ls *)", target="c"))
    assert entry_type(in_version(shell)) == "shell_command"
    assert entry_type(in_version(revoked)) == "grant_revoked"
    (_, kind, _) = entry_heading(in_version(shell), number="#1", tools=())
    assert kind == ("shell_command", ROLE_STYLES["user"])


def test_the_facts_of_an_entry_are_its_time_its_decision_and_its_names() -> None:
    denied = ApprovalStatus.DENIED
    approval = Approval(call_id="c1", status=denied, actor="ada", arguments_sha256=SHA256)
    entry = Entry(id="a", payload=approval)
    names = ["label here", "branch main ends here"]
    assert entry_facts(entry, ["here"], ["main"]) == ["denied by ada", *names]
    assert entry_position(["here"], ["main"], is_active=False) == ["on another branch", *names]


def test_the_heading_of_a_result_names_its_tool_and_its_outcome() -> None:
    result = ChatMessage.tool_result("c1", "no", outcome=Outcome.DENIED, duration_s=1.5)
    entry = Entry(id="a", payload=result, audit={"actor": "ada"})
    assert entry_heading(entry, number="#4", tools=["bash"]) == [
        ("#4 ", "dim"),
        ("tool_result", ROLE_STYLES["tool_result"]),
        " bash (c1) ",
        ("denied 1.50 s", "red"),
        ("  -", "dim"),
        ("  [by ada]", "dim"),
    ]


def test_actor_and_origin_are_described_if_they_are_text() -> None:
    audit = {"actor": "ada", "origin": "mail\n", "client": "x"}
    assert describe_origin(Entry(id="a", payload=ChatMessage.user("x"), audit=audit)) == [
        "by ada",
        "from mail",
    ]
    assert describe_origin(Entry(id="a", payload=ChatMessage.user("x"), audit={"actor": 3})) == []
    assert describe_origin(Entry(id="a", payload=ChatMessage.user("x"))) == []


def test_only_an_unusual_stop_reason_is_reported() -> None:
    assert describe_unusual_stop(ChatMessage.assistant("x")) == ""
    assert describe_unusual_stop(ChatMessage.assistant("x", stop_reason=None)) == ""
    stopped = ChatMessage.assistant("x", stop_reason=StopReason.LENGTH)
    assert describe_unusual_stop(stopped) == f"stopped: {StopReason.LENGTH}"


def test_unknown_content_without_a_kind_is_described() -> None:
    assert describe_opaque(opaque("")) == "unknown content"
    assert describe_opaque(opaque(EMPTY_TEXT_KIND)) == "empty text"


def test_an_unknown_time_is_empty() -> None:
    assert format_time(None) == ""
