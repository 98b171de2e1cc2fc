"""`steno sessions fork`, `label`, `rename`, `redact` and `rm`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.messages.content import Image, ImageData
from steno.records.entry import BranchSwitch, Redaction
from steno.store import open_store
from tests.cli.program import (
    on_terminal,
    run_process,
    run_steno,
    sample_session,
    store_sample_session,
)


def test_a_branch_begins_where_it_is_asked_for(address: str) -> None:
    store_sample_session(address)
    for place, name in (("2", "by-number"), ("#6", "by-mark"), ("green", "by-label")):
        output = run_steno("sessions", "fork", "talk", "--at", place, "--name", name)
        assert (output.status, output.out) == (0, f"{name}\n")
        number = "#2" if place == "2" else "#6"
        assert all(fact in output.err for fact in ("session talk ", f" {number}\n", f" {name}, "))
    with open_store(address) as store:
        conversation = store.open("talk")
        assert [
            len(conversation.entries(f"by-{what}")) for what in ("number", "mark", "label")
        ] == [
            3,  # the start of the branch is an entry, too
            7,
            7,
        ]
        assert conversation.branch == "by-label"


def test_a_branch_without_a_name_gets_the_next_number(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "fork", "talk")
    assert output.out == "fork-1\n"
    with open_store(address) as store:
        conversation = store.open("talk")
        *past, switch = conversation.entries(output.out.strip())
        assert tuple(past) == conversation.entries("main")
        assert switch.payload == BranchSwitch(old="main", new=output.out.strip())
    assert run_steno("sessions", "fork", "talk").out == "fork-2\n"


@pytest.mark.parametrize(
    ("arguments", "code", "place"),
    [
        (["--name", "main"], "branch_exists", "fork"),
        (["--name", ""], "blank_name", "--name"),
        (["--name", " \t"], "blank_name", "--name"),
        (["--at", "10"], "not_an_entry", "entry #10"),
        (["--at", "999"], "name_unknown", "entry 999"),
        (["--at", ""], "name_unknown", "entry"),
    ],
)
def test_a_fork_that_cannot_be_changes_nothing(
    address: str, arguments: list[str], code: str, place: str
) -> None:
    store_sample_session(address)
    before = run_steno("sessions", "tree", "talk", "--json").out
    for clone in ([], ["--clone"]):
        output = run_steno("sessions", "fork", "talk", *arguments, *clone)
        assert (output.status, output.out) == (1, "")
        assert (output.code, output.place) == (code, place)
        assert output.named_place == place
    assert run_steno("sessions", "tree", "talk", "--json").out == before
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == 1


def test_an_ambiguous_entry_prefix_is_refused(address: str) -> None:
    conversation = store_sample_session(address)
    first = conversation.entries()[0].id
    output = run_steno("sessions", "fork", "talk", "--at", first[:6])
    assert (output.status, output.code) == (1, "name_ambiguous")
    assert output.place == f"entry {first[:6]}"
    assert f" {first}, " in output.err
    assert output.err.endswith(", ...\n")
    assert run_steno("sessions", "fork", "talk", "--at", first[:-1]).status == 0


def test_a_clone_is_a_session_of_its_own(address: str) -> None:
    conversation = store_sample_session(address)
    output = run_steno("sessions", "fork", "talk", "--clone")
    assert output.status == 0
    clone = output.out.strip()
    assert all(session in output.err for session in (f"session {clone} ", " talk\n"))
    with open_store(address) as store:
        assert store.header(clone).cloned_from == "talk"
        copied = store.open(clone)
        assert copied.entries() == conversation.entries()
        copied.append(ChatMessage.assistant("Only here"))
        assert store.open("talk").entries() == conversation.entries()
    assert run_steno("verify", clone).status == 0


def test_a_clone_continues_at_the_given_entry(address: str) -> None:
    store_sample_session(address)
    clone = run_steno("sessions", "fork", "talk", "--clone", "--at", "2").out.strip()
    with open_store(address) as store:
        assert len(store.open(clone).entries()) == 3
        assert len(store.open("talk").entries()) == 8


def test_an_entry_gets_a_name_by_which_it_is_found(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "label", "talk", "2", "the question")
    assert (output.status, output.out) == (0, "")
    assert all(fact in output.err for fact in ("#2 ", "the question"))
    assert "#2 user [the question]" in run_steno("sessions", "tree", "talk").out
    assert run_steno("sessions", "fork", "talk", "--at", "the question").status == 0
    output = run_steno("sessions", "label", "talk", "2", "")
    assert (output.status, output.out) == (1, "")


@pytest.mark.parametrize("text", ["", "  ", "5", " 12 ", "#5", "#"])
def test_a_name_that_reads_like_a_number_is_refused(address: str, text: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "label", "talk", "2", text)
    is_blank = not text.strip()
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("blank" if is_blank else "label_is_number", "label")


def test_a_session_gets_another_title(address: str) -> None:
    store_sample_session(address)
    before = run_steno("sessions", "tree", "talk", "--json").out
    output = run_steno("sessions", "rename", "tal", "Green\x1b[31m again")
    assert (output.status, output.out) == (0, "")
    assert all(fact in output.err for fact in ("session talk ", "Green again"))
    assert "Green again" in run_steno("sessions", "list").out
    assert run_steno("sessions", "tree", "talk", "--json").out == before
    with open_store(address) as store:
        assert store.header("talk").title == "Green\x1b[31m again"
        assert store.verify("talk").is_intact


def test_titles_and_labels_are_stored_without_blanks_around_them(address: str) -> None:
    store_sample_session(address)
    assert run_steno("sessions", "rename", "talk", "  Green again ").status == 0
    assert run_steno("sessions", "label", "talk", "2", " cause ").status == 0
    imported = run_steno(
        *("sessions", "import", "-", "--title", " A copy "),
        data=b'[{"role": "user", "content": "Hi"}]',
    )
    with open_store(address) as store:
        assert store.header("talk").title == "Green again"
        assert store.header(imported.out.strip()).title == "A copy"
    assert run_steno("sessions", "fork", "talk", "--at", "cause").out == "fork-1\n"
    assert run_steno("sessions", "fork", "talk", "--name", " aside ").out == "aside\n"
    refused = run_steno(
        "sessions", "import", "-", "--title", " ", data=b'[{"role": "user", "content": "Hi"}]'
    )
    assert (refused.status, refused.code, refused.place) == (1, "blank_title", "--title")


@pytest.mark.parametrize(
    ("session", "title", "code", "place"),
    [
        ("talk", " ", "blank_title", "rename"),
        ("nowhere", "Green", "name_unknown", "session nowhere"),
    ],
)
def test_a_title_that_cannot_be_given_changes_nothing(
    address: str, session: str, title: str, code: str, place: str
) -> None:
    store_sample_session(address)
    before = run_steno("sessions", "list", "--json").out
    output = run_steno("sessions", "rename", session, title)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == (code, place)
    assert run_steno("sessions", "list", "--json").out == before


# -- redact --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["5", "#5"])
def test_a_number_means_the_entry_of_this_number_and_no_label(address: str, name: str) -> None:
    with open_store(address) as store:
        conversation = sample_session(store)
        conversation.label(conversation.entries()[1].id, name)
        conversation.label(conversation.entries()[1].id, "77")
    arguments = ("--reason", "private", "--actor", "ada", "--yes")
    output = run_steno("sessions", "redact", "talk", name, *arguments)
    assert (output.status, output.out) == (0, "")
    assert all(fact in output.err for fact in ("#5 ", " ada"))
    assert "Is it broken?" in run_steno("sessions", "show", "talk").out
    assert run_steno("sessions", "redact", "talk", "77", *arguments).status == 1


@pytest.mark.parametrize(("answer", "is_left"), [("y\n", False), ("n\n", True), ("\x04", True)])
def test_before_something_is_taken_out_there_is_a_question(
    address: str, answer: str, is_left: bool
) -> None:
    store_sample_session(address)
    command = ("sessions", "redact", "talk", "2", "--reason", "private")
    output = run_steno(*command)
    assert (output.status, output.out, output.named_place) == (2, "", "redact")
    assert "--yes" in output.err
    shown = on_terminal(*command, answer=answer)
    assert "  #2 user  Is it broken?\n" in shown.out
    assert "Permanently delete the content of #2? [y/N]" in shown.out
    assert shown.status == is_left
    assert ("Is it broken?" in run_steno("sessions", "show", "talk").out) == is_left


def test_content_is_taken_out_for_good_and_the_chain_holds(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    output = run_steno(
        "sessions", "redact", "talk", "2", "--reason", "private", "--actor", "ada", "--yes"
    )
    assert (output.status, output.out) == (0, "")
    assert all(fact in output.err for fact in ("#2 ", " ada"))
    assert "Is it broken?" not in run_steno("sessions", "show", "talk", "--all").out
    assert "    #2 was redacted by ada: private\n" in run_steno("sessions", "show", "talk").out
    checked = run_steno("verify", "talk")
    assert checked.status == 0
    assert "1 redacted" in checked.out
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Is it broken" not in left
    again = run_steno("sessions", "redact", "talk", "2", "--reason", "private", "--yes")
    assert (again.status, again.out) == (0, "")
    assert "#2 " in again.err
    assert again.err != output.err  # it reports that the content was gone before


def test_the_actor_of_a_redaction_is_the_user_by_default(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_sample_session(address)
    monkeypatch.setenv("LOGNAME", "grace")
    assert run_steno("sessions", "redact", "talk", "5", "--reason", "private", "--yes").status == 0
    with open_store(address) as store:
        last = store.open("talk").entries()[-1].payload
    assert isinstance(last, Redaction)
    assert (last.actor, last.reason) == ("grace", "private")


def test_nothing_is_taken_out_without_a_reason(address: str) -> None:
    store_sample_session(address)
    assert run_steno("sessions", "redact", "talk", "2").status == 2
    for reason in ("", " "):
        output = run_steno("sessions", "redact", "talk", "2", "--reason", reason, "--yes")
        assert (output.status, output.code, output.place) == (1, "reason_blank", "--reason")
    assert "Is it broken?" in run_steno("sessions", "show", "talk").out


# -- rm ------------------------------------------------------------------------------------------


def test_sessions_are_removed_without_a_question_only_with_yes(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "rm", "talk")
    assert (output.status, output.out, output.named_place) == (2, "", "rm")
    assert "--yes" in output.err
    output = run_steno("sessions", "rm", "talk", "--yes")
    assert (output.status, output.out, " 1 session" in output.err) == (0, "", True)
    assert run_steno("sessions", "list", "--json").out == ""


@pytest.mark.parametrize(
    ("answer", "left"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1)]
)
def test_on_a_terminal_there_is_a_question(address: str, answer: str, left: int) -> None:
    store_sample_session(address)
    output = on_terminal("sessions", "rm", "talk", answer=answer)
    assert "  talk  Mend the build\n" in output.out
    assert "Permanently delete 1 session? [y/N]" in output.out
    assert output.status == left
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == left


def test_if_one_name_is_wrong_nothing_is_removed(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "rm", "talk", "unknown", "--yes")
    assert (output.status, output.code, output.place) == (1, "name_unknown", "session unknown")
    assert "talk" in run_steno("sessions", "list").out


def test_a_session_named_twice_is_removed_once(address: str) -> None:
    store_sample_session(address)
    assert run_steno("sessions", "rm", "talk", "ta", "last", "--yes").err == (
        "steno: 1 session deleted\n"
    )


def test_blobs_of_removed_sessions_go_when_they_are_an_hour_old(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    picture = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")
    with open_store(address) as store:
        store.new([ChatMessage.user([picture])], id="seen")
        store.new([ChatMessage.user("No picture")], id="unseen")
        (blob,) = store.blobs()
    for file in (tmp_path / "store").rglob(f"*{blob.sha256[8:]}*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert run_steno("sessions", "rm", "unseen", "--yes", "--store", address).status == 0
    with open_store(address) as store:
        assert len(list(store.blobs())) == 1
    assert run_steno("sessions", "rm", "seen", "--yes", "--store", address).status == 0
    with open_store(address) as store:
        assert list(store.blobs()) == []


def test_a_damaged_session_can_be_removed(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    store_sample_session(address)
    (file,) = [path for path in (tmp_path / "store").rglob("*") if "talk" in path.name]
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], b"rubbish", *lines[2:]]))
    assert run_steno("sessions", "show", "talk", "--store", address).status == 1
    assert run_process("sessions", "rm", "talk", "--yes", "--store", address).status == 0
    assert run_steno("sessions", "list", "--json", "--store", address) == (0, "", "")
