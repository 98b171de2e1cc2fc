"""Slash commands in the plain mode: numbered lists, and output while the user types."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steno.agent import PromptInput
from steno.agent.events import Notice, NoticeKind
from steno.app.commands.report import (
    FormattedText,
    Paragraph,
    Report,
    ReportPart,
    Table,
    bold,
    code,
)
from steno.app.commands.table import QUIT_HINT, QUIT_WORDS, SLASH_COMMANDS
from steno.app.session_log import BranchTreeRow
from steno.app.session_lookup import SessionSummary
from steno.errors import Missing
from steno.messages.message import ChatMessage
from steno.records.entry import Mode
from steno.render.items import TextForm
from steno.render.session_items import CONTEXT_CLEARED
from steno.render.table_output import Column
from steno.render.terminal_text import display_width
from steno.ui.help_text import UNFINISHED_NOTICE
from steno.ui.plain.line_writer import LineWriter
from steno.ui.prompt_state import PromptHistory
from tests.ui.fake_session import FakeBranches, FakeSession
from tests.ui.plain.line_user import LineUser, at_terminal, through_a_pipe
from tests.ui.tui.screen_app import HOSTILE

_QUOTES = '"""'
EXCHANGES = [
    message
    for number in range(1, 6)
    for message in (ChatMessage.user(f"ask {number}"), ChatMessage.assistant(f"say {number}"))
]


def kept(id: str, title: str) -> SessionSummary:
    return SessionSummary(id, title, 4, ("main",), datetime(2026, 1, 2, tzinfo=UTC), None, True)


def shelved(*sessions: SessionSummary) -> FakeSession:
    session = FakeSession()
    session.session_list.kept = list(sessions)
    return session


@pytest.mark.requirement("S4-15")
def test_every_command_does_something_or_says_why_not() -> None:
    for command in SLASH_COMMANDS:
        user = through_a_pipe(f"/{command.name}\n")
        assert "Error:" not in user.said, command.name
        assert user.said.count("\n") > 2 or command.name == "quit", command.name


def test_an_unknown_command_is_reported() -> None:
    session = FakeSession()
    session.replies["hlep"] = Missing("/hlep: unknown command; did you mean /help?")
    assert "Error: /hlep: unknown command" in through_a_pipe("/hlep\n", session).said


def test_help_says_commands_and_keys() -> None:
    output = through_a_pipe("/help\n").said
    assert all(f"`/{command.name}" in output for command in SLASH_COMMANDS)
    assert "`Ctrl+C`" in output
    assert "`/resume 3`" in output


@pytest.mark.parametrize("word", sorted(QUIT_WORDS))
def test_a_prompt_of_quit_or_exit_explains_the_command(word: str) -> None:
    user = through_a_pipe(f"{word}\n{word} the loop\n")
    assert f"Notice: {QUIT_HINT}\n" in user.said
    assert user.session.asked == [("send", PromptInput(f"{word} the loop"))]


def test_the_arguments_of_a_command_are_passed_to_the_session() -> None:
    user = through_a_pipe("/permissions revoke 1\n")
    assert user.session.asked == [("run_command", "permissions", "revoke 1")]


def test_a_theme_is_nothing_for_lines() -> None:
    assert "Notice: the plain mode has no themes" in through_a_pipe("/theme\n").said


def test_a_model_is_chosen_by_its_number_or_its_name() -> None:
    user = through_a_pipe("/model\n/model 2\n/model other/one\n")
    assert "  1. offline/steno: no model\n  2. ollama/qwen3: 32k\n" in user.said
    assert "\nReply: done: model\n" in user.said  # how to add one
    assert user.session.asked == [
        ("run_command", "model", ""),
        ("change_model", "ollama/qwen3"),
        ("change_model", "other/one"),
    ]


def test_a_session_is_chosen_by_its_number_or_its_id() -> None:
    session = shelved(kept("0198aa", "first"), kept("0198bb", "second"))
    user = through_a_pipe("/resume\n/resume 2\n/resume 0198aa\n", session)
    assert "  1. first: 4 entries, 2026-01-02\n  2. second" in user.said
    assert [one[1] for one in session.asked if one[0] == "resume"] == ["0198bb", "0198aa"]


def test_sessions_are_searched_renamed_and_deleted() -> None:
    session = shelved(kept("0198aa", "first"), kept("0198bb", "second"))
    script = "/resume find sec\n/resume rename 1 other\n/resume delete 1\nyes\n/resume delete 0198aa\nno\n"
    through_a_pipe(script, session)
    assert ("rename", "0198bb", "other") in session.asked
    assert [one.id for one in session.session_list.kept] == ["0198aa"]


def test_the_tree_has_numbers_to_fork_label_and_edit_by() -> None:
    session = FakeSession(EXCHANGES)
    entries = session.conversation.entries()
    user = through_a_pipe(
        "/tree\n/tree 2\n/tree label 2 here\n/tree fork 4 other\n/tree edit 3\n/tree go main\n",
        session,
    )
    assert "  1. user: ask 1\n" in user.said
    assert "\n2. assistant: say 1\n" in user.said
    assert ("label", entries[1].id, "here") in session.asked
    assert ("fork", "other", entries[3].id) in session.asked
    assert ("fork_before", entries[2].id, "") in session.asked
    assert ("switch", "main") in session.asked
    assert "\nPrompt: ask 2\n" in user.said


def test_tree_edit_refuses_entries_other_than_prompts() -> None:
    output = through_a_pipe("/tree edit 2\n/tree fork 99\n", FakeSession(EXCHANGES)).said
    assert "Error: fork: only your own messages can be edited" in output
    assert "Error: /tree: entry 99 not found" in output


def test_two_branches_are_compared() -> None:
    session = FakeSession(EXCHANGES)
    session.conversation.fork("other", at=session.conversation.entries()[7])
    session.conversation.append(ChatMessage.user("otherwise"), branch="other")
    output = through_a_pipe("/tree compare main other\n", session).said
    assert "Shared: 8 entries\n" in output
    assert "Only in main: 2 entries\n  10. user: ask 5\n" in output
    assert "Only in other: 1 entry\n  9. user: otherwise\n" in output


def test_a_resumed_session_shows_the_last_exchanges() -> None:
    output = through_a_pipe("", FakeSession(EXCHANGES)).said
    assert output.split("\n")[1:] == [
        "Notice: 4 earlier entries; /tree shows all",
        *[f"{who} {n}" for n in (3, 4, 5) for who in ("You: ask", "Answer: say")],
        "",
    ]


def test_a_resumed_session_shows_where_the_context_was_cleared() -> None:
    session = FakeSession(EXCHANGES)
    session.conversation.clear()
    session.conversation.append(ChatMessage.user("ask 6"))
    lines = through_a_pipe("", session).said.split("\n")
    assert lines[-4:] == ["Answer: say 5", f"Notice: {CONTEXT_CLEARED}", "You: ask 6", ""]


def test_a_fork_does_not_print_the_whole_session_again() -> None:
    session = FakeSession(EXCHANGES)
    session.conversation.fork("other")
    assert through_a_pipe("/tree go other\n", session).said.count("You: ask 5\n") == 1


def test_a_session_that_stopped_in_the_middle_says_so() -> None:
    session = FakeSession(EXCHANGES)
    session.is_unfinished = True
    assert f"Notice: {UNFINISHED_NOTICE}\n" in through_a_pipe("", session).said


def test_the_prompt_says_the_mode() -> None:
    async def act(user: LineUser) -> None:
        user.session.conversation.change_mode(Mode.PLAN)
        user.type("/usage\n")
        await user.see("plan> ")

    at_terminal(act)


def test_output_during_typing_starts_on_a_new_line() -> None:
    async def act(user: LineUser) -> None:
        user.session.happen(Notice(NoticeKind.CONTEXT, "something else", "settings_ignored"))
        await user.see("act> ")

    assert "act> \nNotice: something else\nact> " in at_terminal(act).said


def test_a_steering_prompt_is_reported_as_sent_later() -> None:
    async def act(user: LineUser) -> None:
        user.session.is_running = True
        user.type("go left\n")
        await user.see("Notice: will be sent with the next request\n")

    session = at_terminal(act).session
    assert session.asked == [("send", PromptInput("go left"))]


def test_typed_prompts_are_kept_in_the_history(tmp_path: Path) -> None:
    file = tmp_path / "typed.jsonl"
    through_a_pipe("one\n/usage\n", history=file)
    assert list(PromptHistory(file).entries()) == ["one", "/usage"]


@pytest.mark.parametrize("text", ["[@click=app.quit]q", HOSTILE])
def test_titles_and_names_do_nothing_to_the_terminal(text: str) -> None:
    session = shelved(kept("a", text))
    session.conversation.append(ChatMessage.user(text))
    output = through_a_pipe("/resume\n/tree\n/tree 1\n", session).said
    assert all(line.isprintable() for line in output.split("\n"))


class Screen(io.StringIO):
    """An output that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"TERM": "xterm"}, "\x1b[1mNotice:\x1b[0m x\n"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "Notice: x\n"),
        ({"TERM": "dumb"}, "Notice: x\n"),
        ({}, "Notice: x\n"),
    ],
)
def test_letters_are_bold_only_where_that_is_wanted(environ: dict[str, str], line: str) -> None:
    screen = Screen()
    LineWriter(screen, environ).write("Notice", "x")
    assert screen.getvalue() == line


def test_a_quoted_line_has_a_bar_wherever_the_terminal_breaks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    LineWriter(screen, {}).quote(["x" * 38 + "bash: once?" + "\u6f22" * 30 + "\tend"])
    lines = screen.getvalue().split("\n")
    assert lines == [
        "│ " + "x" * 38,
        "│ bash: ",
        "│ once?" + "\u6f22" * 16,
        "│ " + "\u6f22" * 14 + " end",
        "",
    ]
    assert max(display_width(line) for line in lines) == 40


def test_lines_know_nothing_of_a_full_screen() -> None:
    look = (
        "import steno.ui.plain.session, sys; "
        "sys.exit(any(name.split('.')[0] in ('textual', 'rich') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", look], timeout=60, check=False).returncode == 0


def test_a_text_of_several_lines_is_never_run_as_a_command() -> None:
    user = through_a_pipe(f"{_QUOTES}!rm -r out\nand more{_QUOTES}\n!ls\n")
    assert user.session.asked == [("run_shell", "ls")]
    assert "Error: shell: a command must be one line; put several lines in a script\n" in user.said


def test_lines_are_broken_between_words_where_the_terminal_would_cut_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    voice = LineWriter(screen, {})
    voice.write("Notice", "these are a few words that do not fit on one line of it")
    voice.write_lines(["x" * 50])
    voice.write_prompt("bash: once, session, project, user, no, why, view? ")
    assert screen.getvalue().split("\n") == [
        "Notice: these are a few words that do ",
        "  not fit on one line of it",
        f"  {'x' * 38}",
        f"  {'x' * 12}",
        "bash: once, session, project, user, ",
        "no, why, view? ",
    ]


def test_a_table_of_a_reply_is_shown_in_columns() -> None:
    table = Table(
        (Column("call", "cyan"), Column("tokens", is_number=True)),
        [("a | b", "12"), ("c.py", "1,200")],
    )
    table = table._replace(title="Calls", note="all of them")
    report = Report([Paragraph("Who ", bold("called"), ": ", code("a_b")), table, Paragraph("End")])
    assert report.plain_text.split("\n") == [
        "Who called: `a_b`",
        "",
        "Calls",
        "",
        "call   tokens",
        "a | b      12",
        "c.py    1,200",
        "",
        "all of them",
        "",
        "End",
    ]


def test_printed_text_has_no_backslashes_of_markdown() -> None:
    session = FakeSession()
    told = "prices are not known here: pip install 'steno-agent[prices]'; `c`"
    parts: list[ReportPart] = [
        Paragraph(told),
        FormattedText("re\\.match", TextForm.CODE),
        Paragraph("*x", marker="-"),
    ]
    session.replies["usage"] = Report(parts, "Usage")
    output = through_a_pipe("/usage\n", session).said
    assert f"Usage:\n  {told}\n" in output
    assert "  re\\.match\n" in output
    assert "  - *x\n" in output


def test_compared_entries_that_are_no_messages_say_what_they_are() -> None:
    class Telling(FakeBranches):
        async def rows(self) -> Sequence[BranchTreeRow]:
            return [
                one._replace(summary=one.summary or f"about {one.kind}") for one in self.all_rows()
            ]

    session = FakeSession(EXCHANGES[:2])
    session.branches = Telling(session)
    session.conversation.fork("other")
    session.conversation.change_mode(Mode.PLAN)
    output = through_a_pipe("/tree compare main other\n", session).said
    assert "Only in main: 1 entry\n  3. mode_change: about mode_change\n" in output


@pytest.mark.parametrize("typed", ["/retry/help", "/usage/quit x"])
def test_two_commands_in_one_word_are_not_sent_to_the_model(typed: str) -> None:
    name, _, rest = typed[1:].partition(" ")
    assert through_a_pipe(f"{typed}\n").session.asked == [("run_command", name, rest)]


def test_moving_in_a_session_does_not_report_an_interruption_again() -> None:
    session = FakeSession(EXCHANGES)
    session.is_unfinished = True
    output = through_a_pipe("/fork aside\n/tree fork 2 more\n", session).said
    assert output.count(UNFINISHED_NOTICE) == 1


def test_leaving_the_terminal_shows_how_to_continue() -> None:
    async def act(user: LineUser) -> None:
        user.type("/quit\n")
        await user.see("Session: 0198-session; continue it with steno -c\n")

    at_terminal(act)
    assert "steno -c" not in through_a_pipe("/quit\n").said
