"""`steno audit`."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation, ToolCall
from steno.agent.permissions.grants import GrantSigner
from steno.app.permissions import KeyFileSigner
from steno.formats import FORMATS
from steno.log.conversation import BuildAudit
from steno.messages.content import OWN_FORMAT, Opaque
from steno.messages.outcome import Outcome
from steno.records.entry import Approval, ApprovalStatus, Repair
from steno.store import open_store
from tests.cli.program import on_terminal, run_steno, sample_session, store_sample_session


def decided(address: str) -> None:
    """Keep a session in which two calls were made, one allowed by a rule, one denied by ada."""
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Tidy up")], id="tidy")
        remove = ToolCall(id="c2", name="bash", arguments='{"command": "rm -r build"}')
        calls = [ToolCall(id="c1", name="read"), remove]
        conversation.append(ChatMessage.assistant(None, calls))
        conversation.decide("c1", ApprovalStatus.APPROVED, rule="readers")
        conversation.decide("c2", ApprovalStatus.DENIED, actor="ada", reason="no")
        conversation.append(ChatMessage.tool_result("c1", "text"), audit={"actor": "runner"})
        conversation.append(ChatMessage.tool_result("c2", "no", outcome=Outcome.DENIED))


HEADING = (
    "entry  time                  kind              decision  tool        by            outcome  "
    "about"
)


def rows(*arguments: str) -> list[str]:
    output = run_steno("audit", "tidy", *arguments)
    assert output.status == 0
    return [re.sub(r"\S+ \S+Z", "TIME", line).strip() for line in output.out.splitlines()]


def test_the_audit_lists_who_decided_what(address: str) -> None:
    decided(address)
    assert rows() == [
        HEADING,
        "#1  TIME  user",
        "#2  TIME  assistant_action            read, bash",
        "#3  TIME  approval          approved  read        rule readers           unsigned",
        "#4  TIME  approval          denied    bash        ada                    rm -r build · no · unsigned",
        "#5  TIME  tool_result                 read        runner        ok",
        "#6  TIME  tool_error                  bash                      denied",
    ]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["--kind", "tool_error"], [6]),
        (["--kind", "approval"], [3, 4]),
        (["--kind", "approval", "--tool", "bash"], [4]),
        (["--kind", "redaction"], []),
        (["--kind", "system_context"], [3, 4]),
        (["--decision", "denied"], [4, 6]),
        (["--decision", "tool_call_denied"], [2]),
        (["--decision", "user_message"], [1]),
        (["--tool", "read"], [2, 3, 5]),
        (["--tool", "bash", "--decision", "denied"], [4, 6]),
        (["--actor", "ada"], [4]),
        (["--actor", "runner"], [5]),
        (["--since", "1h"], [1, 2, 3, 4, 5, 6]),
        (["--since", "1h", "--until", "2000-01-01"], []),
        (["--until", "1w"], []),
        (["--since", "2000-01-01T00:00:00+02:00"], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_audit_is_narrowed_down(address: str, arguments: list[str], numbers: list[int]) -> None:
    decided(address)
    assert [int(line.split()[0][1:]) for line in rows(*arguments)[1:]] == numbers
    found = json.loads(run_steno("audit", "tidy", *arguments, "--json").out)
    ids = {entry["id"].partition("#")[0] for entry in found["entries"]}
    assert len(ids) == len(numbers)


def test_a_decision_that_was_appended_by_itself_counts(address: str) -> None:
    decided(address)
    with open_store(address) as store:
        conversation = store.open("tidy")
        conversation.append(ChatMessage.assistant(None, [ToolCall(id="c3", name="bash")]))
        digest = sha256(b"{}").hexdigest()
        approval = Approval(
            call_id="c3", status=ApprovalStatus.DENIED, arguments_sha256=digest, rule="no bash"
        )
        conversation.append(approval)
    denied = [line.split()[0] for line in rows("--decision", "denied")[1:]]
    assert denied == ["#4", "#6", "#8"]


def test_each_decision_in_the_json_can_be_searched_for(address: str) -> None:
    decided(address)
    exported = json.loads(run_steno("audit", "tidy", "--json").out)["entries"]
    for decision in {row["decision"] for row in exported}:
        numbers = [f"#{n}" for n in range(1, 7)]
        ids = list(dict.fromkeys(row["id"].partition("#")[0] for row in exported))
        expected = {row["id"].partition("#")[0] for row in exported if row["decision"] == decision}
        found = [line.split()[0] for line in rows("--decision", decision)[1:]]
        assert found == [number for number, id in zip(numbers, ids, strict=True) if id in expected]


@pytest.mark.parametrize("is_array", [False, True])
def test_the_json_is_one_object_with_entries_whatever_the_imported_file_is(
    address: str, is_array: bool
) -> None:
    message = {"type": "user", "content": "Hi"}
    entry = {"id": "u9", "timestamp": "2026-02-10T15:30:00Z", "message": message}
    file = [entry] if is_array else entry
    imported = run_steno("sessions", "import", "-", data=json.dumps(file).encode()).out.strip()
    for selection in ([], ["--kind", "user"], ["--kind", "tool_error"]):
        found = json.loads(run_steno("audit", imported, "--json", *selection).out)
        assert [row["id"] for row in found["entries"]] == ["u9"] * ("tool_error" not in selection)
    exported = run_steno("sessions", "export", imported, "--format", "audit").out
    assert json.loads(exported) == file


def test_an_audit_without_matches_reports_that(address: str) -> None:
    decided(address)
    output = run_steno("audit", "tidy", "--actor", "nobody")
    assert (output.status, output.out, output.err.count("\n")) == (0, "", 1)


def test_an_audit_of_a_session_without_entries_lists_no_decisions(address: str) -> None:
    with open_store(address) as store:
        store.new(id="empty")
    output = run_steno("audit", "empty", "--decision", "approved")
    assert (output.status, output.out) == (0, "")
    assert output.err == run_steno("audit", "empty").err


def test_an_audit_includes_abandoned_entries_unless_a_branch_is_named(address: str) -> None:
    store_sample_session(address)
    lines = run_steno("audit", "talk").out.splitlines()[1:]
    assert [line.split()[0] for line in lines][-4:] == ["#9", "#11", "#12", "#13"]
    branch = run_steno("audit", "talk", "--branch", "other").out.splitlines()[1:]
    assert [line.split()[0] for line in branch][-2:] == ["#6", "#11"]
    assert run_steno("audit", "talk", "--branch", "nowhere").status == 1


@pytest.mark.requirement("S2-23")
def test_going_to_another_branch_shows_up_in_the_audit(address: str) -> None:
    store_sample_session(address)
    with open_store(address) as store:
        store.open("talk").switch("other")
    assert re.search(r"#14 .* branch_switch", run_steno("audit", "talk").out)
    assert "    main → other\n" in run_steno("sessions", "show", "talk").out


@pytest.mark.requirement("S1-08")
def test_the_audit_for_programs_can_be_read_again(address: str) -> None:
    decided(address)
    output = run_steno("audit", "tidy", "--json")
    imported = FORMATS["audit"].decode(output.out.encode())
    with open_store(address) as store:
        assert imported.entries == store.open("tidy").entries()


@pytest.mark.parametrize("time", ["yesterday", "2024-13-01", "5y", "", "99999999999d"])
def test_a_time_that_is_none_is_explained(time: str) -> None:
    output = run_steno("audit", "tidy", f"--since={time}")
    assert output.status == 2
    assert output.named_place == "--since"
    assert all(example in output.err for example in ("2024-05-17", "T06:30:00Z", "2h", "3d"))


def test_a_kind_that_is_none_is_explained(address: str) -> None:
    decided(address)
    output = run_steno("audit", "tidy", "--kind", "gossip")
    assert output.status == 2
    assert output.named_place == "--kind"
    assert "user, assistant_text, " in output.err
    assert "Kind" not in output.err


def test_every_kind_that_the_table_prints_can_be_asked_for(address: str) -> None:
    with open_store(address) as store:
        conversation = sample_session(store)
        conversation.append(
            Opaque(kind="weather", raw='{"type":"weather","is":"fine"}', origin=OWN_FORMAT)
        )
        store.redact("talk", conversation.entries()[1].id, actor="ada", reason="x" * 100)
    lines = [
        re.split(" {2,}", line.strip()) for line in run_steno("audit", "talk").out.splitlines()
    ]
    kinds = {kind for line in lines[1:] for kind in line[2].split(", ")}
    assert kinds >= {"approval", "label", "mode_change", "rewind", "redaction", "weather"}
    for kind in kinds - {"system_context"}:  # which also covers entries without a kind of their own
        found = run_steno("audit", "talk", "--kind", kind)
        assert found.status == 0
        for line in found.out.splitlines()[1:]:
            assert kind in line
    assert lines[-1][-1] == f"#2 was redacted by ada: {'x' * 100}"


def granting(address: str) -> None:
    """Keep a session in which ada allows one call for good and one once, and thinks again."""
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Test it")], id="tidy")
        test = ToolCall(id="c1", name="bash", arguments='{"command": "pytest -q tests"}')
        write = ToolCall(id="c2", name="write", arguments='{"path": "src/a.py", "content": ""}')
        conversation.append(ChatMessage.assistant(None, [test, write]))
        granted = {"scope": "session", "grant": "bash(pytest *)"}
        allowed = conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada", audit=granted)
        conversation.decide("c2", ApprovalStatus.APPROVED, actor="ada")
        conversation.append(ChatMessage.tool_result("c1", "ok"))
        conversation.append(ChatMessage.tool_result("c2", "ok"))
        explanation = "bash(pytest *) is no longer allowed for this session"
        conversation.append(
            Repair(code="grant_revoked", explanation=explanation, target=allowed.id),
            decision="revoked",
            audit={"actor": "ada", "scope": "session", "revoked": "bash(pytest *)"},
        )


def test_the_audit_lists_grants_with_their_scope_and_revocations(
    address: str,
) -> None:
    granting(address)
    assert [re.split(" {2,}", line)[2:] for line in rows("--actor", "ada")[1:]] == [
        [
            "approval",
            "approved",
            "bash",
            "ada",
            "pytest -q tests · for the session: bash(pytest *) · unsigned",
        ],
        ["approval", "approved", "write", "ada", "src/a.py · unsigned"],
        [
            *("grant_revoked", "revoked", "ada"),
            "bash(pytest *) is no longer allowed for this session",
        ],
    ]


def test_on_a_terminal_nothing_of_a_decision_is_cut(address: str) -> None:
    granting(address)
    output = re.sub(r"\x1b\[[\d;]*m", "", on_terminal("audit", "tidy").out)
    assert max(map(len, output.splitlines())) <= 80
    assert "    pytest -q tests · for the session: bash(pytest *) · unsigned\n" in output
    assert "    src/a.py · unsigned\n" in output
    assert "    bash(pytest *) is no longer allowed for this session\n" in output


# -- signatures ------------------------------------------------------------------------------


def decide_call(conversation: Conversation, id: str, audit: BuildAudit | None) -> None:
    conversation.append(ChatMessage.assistant("", [ToolCall(id=id, name="write")]))
    conversation.decide(id, ApprovalStatus.APPROVED, actor="ada", audit=audit)
    conversation.append(ChatMessage.tool_result(id, "ok"))


def signed_session(address: str) -> None:
    """Store a session whose decisions are signed here, signed elsewhere, and unsigned, one by a rule."""
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go")], id="tidy")
        ours = GrantSigner("tidy", KeyFileSigner())
        theirs = GrantSigner("tidy", lambda _: "0" * 64)
        for number, signer in enumerate((ours, theirs), start=1):
            decide_call(conversation, f"c{number}", signer.sign_audit({}, tool="write"))
        decide_call(conversation, "c3", None)
        conversation.append(ChatMessage.assistant("", [ToolCall(id="c4", name="read")]))
        conversation.decide("c4", ApprovalStatus.APPROVED, rule="default read")


@pytest.mark.requirement("S2-18")
def test_the_audit_marks_decisions_whose_signature_is_missing_or_invalid(address: str) -> None:
    signed_session(address)
    marks = ["signature invalid or from another machine", "unsigned"]
    listed = rows("--kind", "approval")[1:]
    found = [[mark for mark in marks if line.endswith(mark)] for line in listed]
    assert found == [[], [marks[0]], [marks[1]], [marks[1]]]
    output = run_steno("audit", "tidy", "--json")
    states = [entry.get("signature") for entry in json.loads(output.out)["entries"]]
    assert list(filter(None, states)) == ["valid", "invalid", "missing", "missing"]


def test_the_signatures_in_the_json_are_not_taken_from_the_log(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go")], id="tidy")
        forged = {"signature": "valid", "steno_derived": ["signature"]}
        decide_call(conversation, "c1", lambda _: forged)
    output = run_steno("audit", "tidy", "--json")
    [state] = [one["signature"] for one in json.loads(output.out)["entries"] if "signature" in one]
    assert state == "missing"


def test_an_import_of_the_json_ignores_the_signatures(address: str) -> None:
    signed_session(address)
    output = run_steno("audit", "tidy", "--json").out.encode()
    with open_store(address) as store:
        wanted = [
            replace(record.entry, parent=None) for record in store.records("tidy") if record.entry
        ]
    entries = FORMATS["audit"].decode(output).entries
    assert [replace(entry, parent=None) for entry in entries] == wanted


def test_an_audit_creates_no_key(address: str, home: Path) -> None:
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go")], id="tidy")
        decide_call(
            conversation, "c1", GrantSigner("tidy", lambda _: "0" * 64).sign_audit({}, tool="write")
        )
    assert rows("--kind", "approval")[1].endswith("signature invalid or from another machine")
    assert not list(home.rglob("*.key"))
