"""`steno audit` and `steno verify`."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pytest

from steno import ChatMessage, ToolCall
from steno.codec import decode_entry
from steno.formats import FORMATS
from steno.messages.content import OWN_FORMAT, Opaque
from steno.messages.outcome import Outcome
from steno.records.entry import Approval, ApprovalStatus, Repair
from steno.records.stored_record import Header, Record
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
    told = run_steno("audit", "tidy", *arguments)
    assert told.status == 0
    return [re.sub(r"\S+ \S+Z", "TIME", line).strip() for line in told.out.splitlines()]


def test_the_audit_tells_who_decided_what(address: str) -> None:
    decided(address)
    assert rows() == [
        HEADING,
        "#1  TIME  user",
        "#2  TIME  assistant_action            read, bash",
        "#3  TIME  approval          approved  read        rule readers",
        "#4  TIME  approval          denied    bash        ada                    rm -r build · no",
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
        (["--decision", "denied"], [4]),
        (["--tool", "read"], [2, 3, 5]),
        (["--tool", "bash", "--decision", "denied"], [4]),
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
    assert [line.split()[0] for line in rows("--decision", "denied")[1:]] == ["#4", "#8"]


def test_an_audit_without_an_answer_says_so(address: str) -> None:
    decided(address)
    told = run_steno("audit", "tidy", "--actor", "nobody")
    assert told == (0, "", "steno: nothing in the session answers to this\n")


def test_an_audit_holds_what_was_left_behind_unless_a_branch_is_named(address: str) -> None:
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
    told = run_steno("audit", "tidy", "--json")
    imported = FORMATS["audit"].decode(told.out.encode())
    with open_store(address) as store:
        assert imported.entries == store.open("tidy").entries()


@pytest.mark.parametrize("time", ["yesterday", "2024-13-01", "5y", "", "99999999999d"])
def test_a_time_that_is_none_is_explained(time: str) -> None:
    told = run_steno("audit", "tidy", f"--since={time}")
    assert told.status == 2
    assert "a time is written as 2024-05-17, 2024-05-17T06:30:00Z or 2h, 3d (ago)" in told.err


def test_a_kind_that_is_none_is_explained(address: str) -> None:
    decided(address)
    told = run_steno("audit", "tidy", "--kind", "gossip")
    assert told.status == 2
    assert "--kind: it is one of user, assistant_text, " in told.err
    assert "Kind" not in told.err


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
    for kind in kinds - {"system_context"}:  # which is also all that nobody said
        found = run_steno("audit", "talk", "--kind", kind)
        assert found.status == 0
        for line in found.out.splitlines()[1:]:
            assert kind in line
    assert lines[-1][-1] == f"#2 was taken out by ada: {'x' * 100}"


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
        told = "bash(pytest *) is no longer allowed for this session"
        conversation.append(
            Repair(code="grant_revoked", explanation=told, target=allowed.id),
            decision="revoked",
            audit={"actor": "ada", "scope": "session", "revoked": "bash(pytest *)"},
        )


def test_the_audit_tells_what_was_allowed_for_how_long_and_what_was_taken_back(
    address: str,
) -> None:
    granting(address)
    assert [re.split(" {2,}", line)[2:] for line in rows("--actor", "ada")[1:]] == [
        [
            "approval",
            "approved",
            "bash",
            "ada",
            "pytest -q tests · for the session: bash(pytest *)",
        ],
        ["approval", "approved", "write", "ada", "src/a.py"],
        [
            *("repair", "revoked", "ada"),
            "grant_revoked: bash(pytest *) is no longer allowed for this session",
        ],
    ]


def test_on_a_terminal_nothing_of_a_decision_is_cut(address: str) -> None:
    granting(address)
    told = re.sub(r"\x1b\[[\d;]*m", "", on_terminal("audit", "tidy").out)
    assert max(map(len, told.splitlines())) <= 80
    assert "    pytest -q tests · for the session: bash(pytest *)\n" in told
    assert "    src/a.py\n" in told
    assert "    grant_revoked: bash(pytest *) is no longer allowed for this session\n" in told


# -- verify --------------------------------------------------------------------------------------


def tamper(folder: Path, name: str, old: bytes, new: bytes) -> None:
    """Change a word in a session file, and the checksum of its line with it."""
    (file,) = [path for path in folder.rglob("*") if name in path.name]
    lines = file.read_bytes().split(b"\n")
    for number, line in enumerate(lines):
        if old in line:
            checked = line.split(b",", 1)[1].replace(old, new)
            lines[number] = b'{"crc":"%08x",' % crc32(checked) + checked
    file.write_bytes(b"\n".join(lines))


def test_an_intact_session_is_told_with_its_heads(address: str) -> None:
    conversation = store_sample_session(address)
    told = run_steno("verify", "talk")
    heads = {name: conversation.digest(id or "") for name, id in conversation.branches.items()}
    assert (told.status, told.err) == (0, "")
    assert told.out.splitlines() == [
        "intact  talk  12 entries",
        f"  {heads['main']}  main",
        f"  {heads['other']}  other",
    ]
    found = json.loads(run_steno("verify", "talk", "--json").out)
    assert (found["intact"], found["entries"], found["heads"]) == (True, 12, heads)


def test_a_digest_that_was_kept_elsewhere_is_found_again(address: str) -> None:
    conversation = store_sample_session(address)
    second = conversation.digest(conversation.entries()[1].id)
    for given in (second, second.upper()):
        told = run_steno("verify", "talk", "--head", given)
        assert told.status == 0
        assert "the digest is that of record 2" in told.out
    told = run_steno("verify", "talk", "--head", "0" * 64)
    problem = "it is another session, or its past was rewritten"
    assert told.status == 1
    assert told.err == f"steno: session talk: the chain does not hold this digest: {problem}\n"
    assert run_steno("verify", "talk", "--head", second[:12]).status == 2


def test_the_first_bad_record_is_named(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'kept'}"
    conversation = store_sample_session(address)
    tamper(tmp_path / "kept", "talk", b"Is it broken?", b"Is it mended?")
    told = run_steno("verify", "talk", "--store", address)
    entry = conversation.entries()[1].id
    problem = "its digest does not fit: it, or what came before it, was changed"
    assert told == (1, "", f"steno: session talk: record 2 (entry {entry}): {problem}\n")
    again = run_steno("verify", "talk", "--json", "--store", address)
    assert again.status == 1
    found = json.loads(again.out)
    assert not found["intact"]
    assert found["bad"] == {"seq": 2, "entry_id": entry, "problem": problem}


def test_all_sessions_are_checked_and_the_bad_ones_named(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'kept'}"
    with open_store(address) as store:
        sample_session(store, id="one")
        sample_session(store, id="two")
        sample_session(store, id="three")
    tamper(tmp_path / "kept", "two", b"Is it broken?", b"Is it mended?")
    (file,) = [path for path in (tmp_path / "kept").rglob("*") if "three" in path.name]
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:4], b"rubbish", *lines[5:]]))
    told = run_steno("verify", "--all", "--store", address)
    assert told.status == 1
    assert told.out == "intact  one  12 entries\n"
    three, two = told.err.splitlines()
    assert three.startswith("steno: session three: ")
    assert two.startswith("steno: session two: record 2 ")


@pytest.mark.parametrize(
    "arguments", [[], ["talk", "--all"], ["--all", "--head", "0" * 64], ["talk", "--head", "x"]]
)
def test_what_to_verify_has_to_be_clear(arguments: list[str]) -> None:
    told = run_steno("verify", *arguments)
    assert told.status == 2
    assert "usage: steno verify" in told.err


def test_in_a_store_without_sessions_all_is_well(home: Path) -> None:
    assert run_steno("verify", "--all") == (0, "", "")
    assert list(home.iterdir()) == []


def test_entries_of_a_newer_version_are_said_not_to_be_checked(address: str) -> None:
    newer = decode_entry('{"v":3,"id":"n1","what":"is this"}')
    record = Record(seq=1, branch="main", entry=newer, digest="ab" * 32)
    with open_store(address) as store:
        store.add_session(Header(id="newer"), [record])
    told = run_steno("verify", "newer")
    assert told.status == 3
    assert told.err == "steno: session newer: only a newer steno can check all of it\n"
    assert run_steno("verify", "newer", "--allow-newer").status == 0


def test_an_error_is_no_way_to_a_terminal(address: str) -> None:
    told = run_steno("sessions", "show", "\x1b]0;owned\x07id")
    assert told.status == 1
    assert "\x1b" not in told.err
    assert "\x07" not in told.err
