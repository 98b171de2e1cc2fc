"""`steno sessions tree` and `steno sessions search`."""

from __future__ import annotations

import json
import re

from steno import ChatMessage
from steno.formats import build_records
from steno.records import Entry, Header, Rewind
from steno.store import MemoryStore, open_store
from tests.cli.program import copy_to_store, on_terminal, run_steno, store_sample_session


def test_branches_labels_and_rewinds_are_drawn(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "tree", "talk")
    assert output.status == 0
    assert (
        output.out
        == """\
session talk
* #1 system  You mend code.
: … 4 entries (--all shows them)
* #6 assistant [green]  All green.
|\\
| * #7 label  green for #6
| * #8 mode_change  act → plan
| * #9 user  What next?
|\\
| * #11 user <- other  Another way
* #12 rewind  continues from #6; the last entry was #9
* #13 user <- main (active)  Once more
"""
    )
    whole = run_steno("sessions", "tree", "talk", "--all").out
    assert "* #4 approval  run_tests tests: approved by ada: it only reads\n" in whole
    assert '* #3 assistant  I look. → run_tests (c1) {"path": "tests"}\n' in whole
    assert "--all" not in whole


def test_a_long_run_is_folded_and_what_is_special_in_it_is_not(address: str) -> None:
    made = MemoryStore()
    conversation = made.new(id="long")
    for number in range(20):
        conversation.append(ChatMessage.user(f"q{number}"))
        conversation.append(ChatMessage.assistant(f"a{number}"))
    conversation.fork("early", at=conversation.entries()[9].id)
    copy_to_store(made, address)
    assert run_steno("sessions", "tree", "long").out.splitlines()[1:] == [
        "* #1 user  q0",
        ": … 8 entries (--all shows them)",
        "* #10 assistant <- early  a4",
        ": … 29 entries (--all shows them)",
        "* #40 assistant <- main (active)  a19",
    ]


def test_a_branch_with_nothing_in_it_is_drawn_too(address: str) -> None:
    with open_store(address) as store:
        store.new(id="new").fork("start")
    drawn = run_steno("sessions", "tree", "new").out
    assert drawn == "session new\n(no entries yet) <- start (active)\n"


def test_the_active_branch_is_the_one_that_a_session_opens_with(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("root")], id="begun")
        conversation.fork("aside")
        conversation.append(ChatMessage.assistant("on"))
        conversation.fork("later", at=conversation.entries()[0].id)
        assert store.open("begun").branch == "main"
    assert "<- main (active)" in run_steno("sessions", "tree", "begun").out
    assert "2 entries, branch main (and 2 more)" in run_steno("sessions", "show", "begun").out
    document = json.loads(run_steno("sessions", "export", "begun").out)
    assert len(document["entries"]) == 2


def test_a_rewind_to_the_beginning_is_shown_as_one(address: str) -> None:
    with open_store(address) as store:
        first = Entry(id="first", payload=Rewind(left="elsewhere"))
        store.add_session(Header(id="again"), build_records([first]))
    output = run_steno("sessions", "tree", "again").out
    assert "rewind <- main (active)  continues from the beginning; the last entry was #?" in output


def test_branches_of_branches_go_further_right(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("root")], id="deep")
        root = conversation.entries()[0].id
        conversation.fork("one")
        side = conversation.append(ChatMessage.user("aside"), branch="one").id
        conversation.append(ChatMessage.user("aside on"), branch="one")
        conversation.fork("two", at=side)
        conversation.append(ChatMessage.user("further"), branch="two")
        conversation.append(ChatMessage.user("on"), branch="main")
        assert conversation.entry(side).parent == root
    assert run_steno("sessions", "tree", "deep").out.splitlines()[1:] == [
        "* #1 user  root",
        "|\\",
        "| * #3 user  aside",
        "| |\\",
        "| | * #4 user <- one  aside on",
        "| * #6 user <- two  further",
        "* #7 user <- main (active)  on",
    ]


def test_a_very_long_and_very_forked_session_is_drawn(address: str) -> None:
    made = MemoryStore()
    conversation = made.new(id="many")
    for number in range(1500):
        conversation.append(ChatMessage.user(f"q{number}"))
    entries = conversation.entries()
    for number in range(3, 1500, 5):
        conversation.fork(f"b{number}", at=entries[number].id)
        conversation.append(ChatMessage.user("elsewhere"), branch=f"b{number}")
    copy_to_store(made, address)
    output = run_steno("sessions", "tree", "many", "--all")
    assert output.status == 0
    assert output.out.count("* #") == 1800


def test_the_tree_for_programs_has_one_entry_a_line(address: str) -> None:
    conversation = store_sample_session(address)
    rows = [
        json.loads(line)
        for line in run_steno("sessions", "tree", "talk", "--json").out.splitlines()
    ]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13]
    green, end = rows[5], rows[-1]
    assert (green["type"], green["labels"], green["active"]) == ("assistant", ["green"], True)
    assert (end["branches"], end["id"]) == (["main"], conversation.entries("main")[-1].id)
    assert not rows[8]["active"]


def test_lines_are_no_longer_than_the_terminal(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user("word " * 100)], id="wide")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal("sessions", "tree", "wide").out)
    assert max(map(len, shown.splitlines())) == 80


# -- search --------------------------------------------------------------------------------------


def test_entries_are_found_by_all_their_words(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "search", "GREEN", "all")
    assert output.status == 0
    (line,) = output.out.splitlines()[1:]
    assert re.fullmatch(r"talk +#6  assistant  (now|\d+ s ago) +All green\.", line)
    found = json.loads(run_steno("sessions", "search", "passed", "--json").out)
    assert found.pop("time").endswith("Z")
    assert len(found.pop("entry")) == 36
    assert found == {
        "session": "talk",
        "number": 5,
        "type": "tool_result",
        "snippet": "3 passed",
    }


def test_an_entry_of_a_copy_is_found_in_both_sessions(address: str) -> None:
    store_sample_session(address)
    clone = run_steno("sessions", "fork", "talk", "--clone").out.strip()
    lines = run_steno("sessions", "search", "passed", "--json").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert {(hit["session"], hit["number"]) for hit in found} == {("talk", 5), (clone, 5)}


def test_as_many_are_found_as_are_wanted(address: str) -> None:
    made = MemoryStore()
    made.new([ChatMessage.user(f"needle {number}") for number in range(30)])
    copy_to_store(made, address)
    assert len(run_steno("sessions", "search", "needle", "--json").out.splitlines()) == 20
    found = run_steno("sessions", "search", "needle", "--limit", "2", "--json")
    assert len(found.out.splitlines()) == 2
    assert all(fact in found.err for fact in (" 2 ", "--limit"))
    whole = run_steno("sessions", "search", "needle", "--limit", "30", "--json")
    assert (len(whole.out.splitlines()), whole.err) == (30, "")


def test_only_whole_words_are_found_and_the_help_documents_it(address: str) -> None:
    store_sample_session(address)
    assert run_steno("sessions", "search", "gree").out == ""
    assert "whole" in run_steno("sessions", "search", "--help").out


def test_words_that_are_nowhere_are_not_an_error(address: str) -> None:
    store_sample_session(address)
    for text in ("haystack", "?!"):
        output = run_steno("sessions", "search", text)
        assert (output.status, output.out, output.err.count("\n")) == (0, "", 1)
