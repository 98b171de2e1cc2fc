"""`steno sessions`: reading stored sessions."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steno import ChatMessage, Entry, ToolCall
from steno.codec import decode_entry
from steno.messages.content import FileReference, Image, ImageData, Resource, Text
from steno.messages.message import UserMessage
from steno.records.entry import Compaction, Feedback, Repair
from steno.store import open_store
from tests.cli.program import (
    on_terminal,
    run_process,
    run_steno,
    sample_session,
    store_sample_session,
)

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]52;c;cHdu\x07 \x9b2J back\x08\x08 over\rwritten "
    "\u202etxt.exe\u2066 \u200bunseen \U000e0041tag \x00 \x7f end"
)
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\U000e0000-\U000e007f]"
)


# -- which store ---------------------------------------------------------------------------------


def test_without_a_store_there_are_no_sessions_and_none_is_made(home: Path) -> None:
    output = run_steno("sessions", "list")
    assert (output.status, output.out, output.err.count("\n")) == (0, "", 1)
    assert run_steno("sessions", "list", "--json") == (0, "", "")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["sessions", "show", "x"], ["sessions", "rm", "x", "--yes"], ["audit", "x"], ["verify", "x"]],
)
def test_a_session_of_a_store_that_is_not_there_is_missing(
    home: Path, arguments: list[str]
) -> None:
    output = run_steno(*arguments)
    assert (output.status, output.code, output.place) == (1, "name_unknown", "session x")
    assert "`steno sessions list`" in output.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_store_that_was_asked_for_and_is_not_there_is_an_error(tmp_path: Path, kind: str) -> None:
    address = f"{kind}:{tmp_path / 'absent'}"
    output = run_steno("sessions", "list", "--store", address)
    assert (output.status, output.code, output.place) == (1, "store_missing", "store")
    assert address in output.err
    assert not (tmp_path / "absent").exists()


def test_sessions_alone_lists_them(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions")
    assert "Mend the build" in output.out
    assert output == run_steno("sessions", "list")
    assert run_steno("sessions", "--store", address) == output


def test_an_address_that_makes_no_sense_is_explained() -> None:
    output = run_steno("sessions", "list", "--store", "carrier:pigeon")
    assert (output.status, output.code) == (2, "store_address_invalid")
    assert output.place == "--store"
    assert "sqlite:FILE, jsonl:FOLDER" in output.err


def test_the_default_store_lies_in_the_home_folder_for_its_owner_alone(home: Path) -> None:
    output = run_steno("sessions", "import", "-", data=b'[{"role": "user", "content": "Hi"}]')
    assert output.status == 0
    file = home / ".local/share/steno/steno.db"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert output.out.strip() in run_steno("sessions", "show", "last").out


def test_the_data_folder_of_the_desktop_is_respected_if_it_is_absolute(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store_sample_session(f"sqlite:{tmp_path / 'data/steno/steno.db'}")
    assert "Mend the build" in run_steno("sessions", "list").out
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert run_steno("sessions", "list", "--json").out == ""
    assert str(home / ".local/share/steno/steno.db") in run_steno("store", "info").out


def test_an_empty_home_is_no_place_to_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    output = run_steno("sessions", "list")
    assert (output.status, output.code, output.place) == (1, "home_unknown", "store")
    assert "STENO_STORE" in output.err


def test_the_store_may_be_named_before_or_after_the_command(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    store_sample_session(address)
    before = run_steno("sessions", "--store", address, "list", "--json")
    assert before.status == 0
    assert before == run_steno("sessions", "list", "--json", "--store", address)


def test_a_tilde_after_the_kind_of_store_is_the_home_folder(home: Path) -> None:
    store_sample_session(f"sqlite:{home / 'mine.db'}")
    assert "Mend the build" in run_steno("sessions", "list", "--store", "sqlite:~/mine.db").out


# -- list ----------------------------------------------------------------------------------------


def test_sessions_are_listed_with_the_latest_first(address: str) -> None:
    with open_store(address) as store:
        sample_session(store)
        store.new([ChatMessage.user("Why is\nthe sky blue?")], id="sky")
    output = run_steno("sessions", "list")
    assert output.status == 0
    lines = output.out.splitlines()
    assert [line.split()[0] for line in lines] == ["session", "sky", "talk"]
    assert re.fullmatch(r"sky      Why is the sky blue\? +1 +1  (now|\d+ s ago)", lines[1])
    assert re.fullmatch(r"talk     Mend the build +12 +2  (now|\d+ s ago)", lines[2])
    assert run_steno("sessions", "list", "--limit", "1").out.splitlines()[1:] == lines[1:2]


def test_a_list_for_programs_has_one_object_a_line(address: str) -> None:
    conversation = store_sample_session(address)
    (line,) = run_steno("sessions", "list", "--json").out.splitlines()
    found = json.loads(line)
    last = conversation.entries()[-1].time
    assert last is not None
    assert datetime.fromisoformat(found.pop("updated_at")) == last
    assert datetime.fromisoformat(found.pop("created_at")).tzinfo == UTC
    assert found == {
        "id": "talk",
        "title": "Mend the build",
        "entries": 12,
        "branches": ["other", "main"],
        "cloned_from": None,
        "folder": None,
    }


def test_ids_are_shortened_to_unambiguous_prefixes(address: str) -> None:
    with open_store(address) as store:
        store.new(id="0123456789abc")
        store.new(id="0123456789abd")
        store.new(id="f" * 36)
    shown = [line.split()[0] for line in run_steno("sessions", "list").out.splitlines()[1:]]
    assert sorted(shown) == ["0123456789abc", "0123456789abd", "f" * 13]


@pytest.mark.parametrize("limit", ["0", "-1", "many", "٣"])
def test_a_limit_is_a_number_of_one_or_more(limit: str) -> None:
    output = run_steno("sessions", "list", f"--limit={limit}")
    assert output.status == 2
    assert output.named_place == "--limit"


def test_one_damaged_session_does_not_hide_the_others(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    with open_store(address) as store:
        sample_session(store)
        sample_session(store, id="worn")
    (file,) = [path for path in (tmp_path / "store").rglob("*") if "worn" in path.name]
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], lines[1][:-9] + b"rubbish}}", *lines[2:]]))
    output = run_steno("sessions", "list", "--store", address)
    assert output.status == 1
    assert "talk" in output.out
    assert "worn" not in output.out
    assert output.named_place == "session worn"
    assert run_steno("sessions", "show", "talk", "--store", address).status == 0


def test_a_long_title_does_not_push_the_others_away_in_a_pipe(address: str) -> None:
    with open_store(address) as store:
        store.new(id="long", title="word " * 100)
        store.new(id="short", title="Brief")
    lines = run_steno("sessions", "list").out.splitlines()
    assert max(map(len, lines[:2])) < 100
    assert lines[2].startswith("long     " + ("word " * 100).strip() + "  ")


# -- which session -------------------------------------------------------------------------------


def test_a_session_is_found_by_the_beginning_of_its_id_and_as_the_last(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user("One")], id="aa-1")
        store.new([ChatMessage.user("Two")], id="ab-2")
        store.open("aa-1").append(ChatMessage.assistant("Three"))
    assert "session aa-1\n" in run_steno("sessions", "show", "aa").out
    assert "session aa-1\n" in run_steno("sessions", "show", "last").out
    output = run_steno("sessions", "show", "a")
    assert (output.status, output.code, output.place) == (1, "name_ambiguous", "session a")
    assert output.err.endswith(" aa-1, ab-2\n")
    assert run_steno("sessions", "show", "").status == 1


def test_an_id_that_begins_another_is_itself(address: str) -> None:
    with open_store(address) as store:
        store.new(id="a")
        store.new(id="ab")
        store.new(id="last")
        store.new(id="later")
    assert "session a\n" in run_steno("sessions", "show", "a").out
    assert "session last\n" in run_steno("sessions", "show", "last").out


# -- show ----------------------------------------------------------------------------------------


def test_a_conversation_is_shown_as_it_went(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "show", "talk")
    assert output.status == 0
    shown = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", output.out)
    assert (
        shown
        == """\
Mend the build
session talk
started TIME, 8 entries, branch main (and 1 more)

#1 system  TIME
    You mend code.

#2 user  TIME
    Is it broken?

#3 assistant  TIME
    I look.
    → run_tests (c1) {"path": "tests"}

#4 approval  TIME
    run_tests tests: approved by ada: it only reads

#5 tool_result run_tests (c1) ok 1.50 s  TIME
    3 passed

#6 assistant  TIME
    All green.

#12 rewind  TIME
    continues from #6; the last entry was #9

#13 user  TIME
    Once more

usage: 1,200 tokens in, 33 tokens out
"""
    )


def test_another_branch_is_shown_on_demand(address: str) -> None:
    store_sample_session(address)
    assert "Another way" in run_steno("sessions", "show", "talk", "--branch", "other").out
    output = run_steno("sessions", "show", "talk", "--branch", "nowhere")
    assert (output.status, output.code, output.place) == (1, "branch_missing", "branch")
    assert output.err.endswith(" other, main\n")


def test_entries_for_programs_are_those_that_are_stored(address: str) -> None:
    conversation = store_sample_session(address)
    output = run_steno("sessions", "show", "talk", "--json")
    entries = tuple([decode_entry(line) for line in output.out.splitlines()])
    assert entries == conversation.entries()


def test_every_kind_of_entry_and_block_is_shown(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="all")
        first = conversation.append(
            UserMessage(
                (
                    Text("Look:"),
                    Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png"),
                    FileReference(path="src/a.py", start_line=3, end_line=9),
                    Resource(server="docs", uri="docs://a", text="A page"),
                )
            )
        )
        conversation.change_model("m-2")
        conversation.append(Feedback(target=first.id, text="shorter please"))
        conversation.append(Compaction(through=first.id, summary="Somebody looked."))
        conversation.append(Repair(code="call_unanswered", explanation="answered for it"))
        store.redact("all", first.id, actor="ada", reason="private")
        conversation.refresh()
        conversation.append(ChatMessage.assistant("Fine.", stop_reason=None))
    shown = run_steno("sessions", "show", "all").out
    for line in (
        "content of type user",
        "m-2",
        "on #1: shorter please",
        "replaces everything up to #1: Somebody looked.",
        "call_unanswered: answered for it",
        "#1 was redacted by ada: private",
    ):
        assert f"    {line}\n" in shown


def test_a_reference_of_the_user_is_shown_by_its_name(address: str) -> None:
    picture = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")
    page = Resource(server="docs", uri="docs://a", text="A page")
    with open_store(address) as store:
        store.new([ChatMessage.user([picture, FileReference(path="a.py", start_line=3), page])])
    shown = run_steno("sessions", "show", "last").out
    assert re.search(r"\[image/png, 32,000 bytes, sha256 [0-9a-f]{64}\]", shown)
    assert "[file a.py:3]" in shown
    assert "[resource docs:docs://a]\n    A page\n" in shown


def test_long_results_are_cut_unless_all_is_wanted(address: str) -> None:
    lines = "\n".join([f"line {number}" for number in range(1000)])
    with open_store(address) as store:
        store.new(
            [
                ChatMessage.user("Run"),
                ChatMessage.assistant(None, [ToolCall(id="c", name="bash")]),
                ChatMessage.tool_result("c", lines),
                ChatMessage.assistant("x" * 3_000_000),
            ],
            id="long",
        )
    short = run_steno("sessions", "show", "long")
    assert "    line 11\n" in short.out
    assert "line 12" not in short.out
    left = len(lines) - lines.index("\nline 12\n")
    assert f"… {left:,} more characters (--all shows them)" in short.out
    assert len(short.out) < 50_000
    whole = run_steno("sessions", "show", "long", "--all").out
    assert "    line 999\n" in whole
    assert "x" * 3_000_000 in whole


def test_unknown_entries_are_shown_as_unknown_without_a_warning(address: str) -> None:
    document = b"""{"version":2,"entries":[{"v":2,"id":"a","payload":{"type":"user","content":[
        {"type":"smell"},{"type":"text","text":"x"}]}},{"v":2,"id":"b","payload":{"type":"dance"}}]}"""
    assert run_steno("sessions", "import", "-", "--id", "odd", data=document).status == 0
    output = run_process("sessions", "show", "odd")
    assert output.err == ""
    assert "    [unknown content: smell]\n    x\n" in output.out
    assert "#2 dance" in output.out


# -- what may not reach a terminal ---------------------------------------------------------------


def hostile(address: str) -> Entry:
    with open_store(address) as store:
        conversation = store.new(id="evil", title=HOSTILE)
        call = ToolCall(id=f"c{HOSTILE}", name="bash", arguments=json.dumps({"a": HOSTILE}))
        first = conversation.append(ChatMessage.user(HOSTILE))
        conversation.append(ChatMessage.assistant(HOSTILE, [call]))
        conversation.append(
            ChatMessage.tool_result(call.id, HOSTILE, tool_name=HOSTILE),
            decision=HOSTILE,
            audit={"actor": HOSTILE},
        )
        conversation.label(first.id, HOSTILE)
        conversation.fork(HOSTILE)
        return first


@pytest.mark.parametrize(
    "command",
    [
        ["sessions", "list"],
        ["sessions", "show", "evil"],
        ["sessions", "show", "evil", "--all"],
        ["sessions", "tree", "evil"],
        ["sessions", "search", "written"],
        ["sessions", "list", "--json"],
        ["sessions", "show", "evil", "--json"],
        ["sessions", "tree", "evil", "--json"],
        ["sessions", "search", "written", "--json"],
        ["audit", "evil"],
        ["audit", "evil", "--json"],
        ["verify", "evil"],
        ["verify", "evil", "--json"],
    ],
)
def test_no_control_character_of_others_gets_through(address: str, command: list[str]) -> None:
    hostile(address)
    output = run_steno(*command)
    assert output.status == 0
    assert DANGEROUS.findall(output.out.replace("\n", "")) == []
    assert output.err == ""


@pytest.mark.parametrize("command", ["show", "tree"])
def test_on_a_terminal_only_our_own_colours_arrive(address: str, command: str) -> None:
    hostile(address)
    shown = on_terminal("sessions", command, "evil").out
    assert "\x1b[" in shown
    ours = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert DANGEROUS.findall(ours.replace("\n", "")) == []
    assert "\\x1b]0;title\\x07" in ours
    assert "\\x9b2J back\\x08" in ours
    assert "\x1b[31mred" not in shown


def test_an_export_to_a_terminal_is_harmless_and_means_the_same(address: str) -> None:
    hostile(address)
    shown = on_terminal("sessions", "export", "evil", "--branch", "main").out
    document, _ = json.JSONDecoder().raw_decode(shown)
    assert DANGEROUS.findall(shown.replace("\n", "")) == []
    assert document["entries"][0]["payload"]["content"][0]["text"] == HOSTILE
    piped = json.loads(run_steno("sessions", "export", "evil", "--branch", "main").out)
    assert piped == document


def test_errors_show_no_control_characters_either(address: str) -> None:
    with open_store(address) as store:
        store.new(id=f"a{HOSTILE}")
        store.new(id=f"a{HOSTILE}!")
    output = run_steno("sessions", "show", "a")
    assert output.status == 1
    assert output.err.count("\n") == 1
    assert DANGEROUS.findall(output.err.replace("\n", "")) == []


# -- on a terminal -------------------------------------------------------------------------------


def test_a_table_on_a_terminal_has_colours_and_fits(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user("長" * 60)], id="wide")
    shown = on_terminal("sessions", "list").out
    assert "\x1b[1msession" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    line = plain.splitlines()[1]
    assert "…" in line
    assert len(line) + line.count("長") <= 80


def test_no_colour_is_used_where_none_is_wanted(address: str) -> None:
    store_sample_session(address)
    assert "\x1b[3" not in on_terminal("sessions", "list", environment={"NO_COLOR": "1"}).out


def test_piped_output_has_neither_colours_nor_a_width(address: str) -> None:
    with open_store(address) as store:
        store.new(id="wide", title="w" * 300)
    output = run_process("sessions", "list", COLUMNS="40", FORCE_COLOR="1")
    assert "w" * 300 in output.out
    assert "\x1b" not in output.out


def test_an_output_that_is_not_unicode_gets_escapes(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user("naïve 長")], id="words")
    output = run_process("sessions", "show", "words", PYTHONIOENCODING="ascii")
    assert output.status == 0
    assert "na\\xefve \\u9577" in output.out


WITHOUT_RICH = """\
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
"""


def test_without_rich_everything_is_printed_as_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STENO_STORE", f"sqlite:{tmp_path / 'store'}")
    store_sample_session(f"sqlite:{tmp_path / 'store'}")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_RICH)
    blocked = {"PYTHONPATH": str(tmp_path / "site")}
    for command in (
        ["sessions", "list"],
        ["sessions", "show", "talk"],
        ["sessions", "tree", "talk"],
        ["sessions", "search", "green"],
        ["audit", "talk"],
        ["verify", "talk"],
        ["store", "info"],
    ):
        pretty = on_terminal(*command)
        plain = on_terminal(*command, environment=blocked)
        assert plain.status == 0
        assert "\x1b" not in plain.out
        ages = re.compile(r"now|\d+ s ago")
        assert ages.sub("", plain.out).split() == (
            ages.sub("", re.sub(r"\x1b\[[0-9;]*m", "", pretty.out)).split()
        )


def test_a_result_without_the_name_of_its_tool_is_shown_with_it(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="plain")
        conversation.append(ChatMessage.assistant(None, [ToolCall(id="c1", name="read")]))
        conversation.append(ChatMessage.tool_result("c1", "words"))
    assert "#2 tool_result read (c1) ok  " in run_steno("sessions", "show", "plain").out
