"""The offline assistant runs commands literally with the tools of the request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    Finished,
    Message,
    Outcome,
    Request,
    StopReason,
    TextDelta,
    ToolCall,
    ToolDefinition,
)
from steno.agent import Agent, AllowingApprover, Gate
from steno.errors import InvalidRequest
from steno.ports import Stream
from steno.providers.offline_assistant import LABEL, OfflineProvider
from steno.providers.offline_commands import HELP, parse_request
from steno.store import MemoryStore
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.providers.offline_tools import TOOLS, tool
from tests.transport.http_server import run

Answer = tuple[str, Outcome]


def fine(call: ToolCall) -> Answer:
    return f"output of {call.name}", Outcome.OK


def answer(*messages: Message, tools: tuple[ToolDefinition, ...] = TOOLS) -> AssistantMessage:
    request = Request(messages=messages, tools=tools)
    return run(OfflineProvider().stream(request).collect())


def play(
    text: str,
    respond: Callable[[ToolCall], Answer] = fine,
    *,
    tools: tuple[ToolDefinition, ...] = TOOLS,
) -> list[AssistantMessage]:
    """Run the assistant as the agent loop does, and return its turns."""
    messages: list[Message] = [ChatMessage.user(text)]
    turns: list[AssistantMessage] = []
    while not turns or turns[-1].tool_calls:
        assert len(turns) < 20
        turns.append(answer(*messages, tools=tools))
        messages.append(turns[-1])
        for call in turns[-1].tool_calls:
            assert isinstance(call, ToolCall)
            text, outcome = respond(call)
            messages.append(ChatMessage.tool_result(call.id, text, outcome=outcome))
    return turns


def said(turn: AssistantMessage) -> str:
    return turn.text or ""


def calls_of(turns: Sequence[AssistantMessage]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for turn in turns for call in turn.tool_calls]


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("list files", "glob", {"pattern": "*", "path": "."}),
        ("ls", "glob", {"pattern": "*", "path": "."}),
        ("Please list the files in src/app.", "glob", {"pattern": "*", "path": "src/app"}),
        ("list src", "glob", {"pattern": "*", "path": "src"}),
        ("read README.md", "read", {"path": "README.md"}),
        ("Show me the file 'my notes.txt'", "read", {"path": "my notes.txt"}),
        ("open a.py lines 10-20", "read", {"path": "a.py", "offset": 10, "limit": 11}),
        ("read a.py lines 3 to 3", "read", {"path": "a.py", "offset": 3, "limit": 1}),
        ("read a.py line 7?", "read", {"path": "a.py", "offset": 7, "limit": 1}),
        ("find *.py", "glob", {"pattern": "**/*.py", "path": "."}),
        (
            "find files named test_*.py in tests",
            "glob",
            {"pattern": "**/test_*.py", "path": "tests"},
        ),
        ("find src/**/a.c", "glob", {"pattern": "src/**/a.c", "path": "."}),
        ('search for "def main(" in src', "grep", {"pattern": r"def main\(", "path": "src"}),
        ("grep TODO", "grep", {"pattern": "TODO", "path": "."}),
        ("search for two words", "grep", {"pattern": "two words", "path": "."}),
        ('search for "in" in src', "grep", {"pattern": "in", "path": "src"}),
        ('create a.txt with "one\\ntwo\\n"', "write", {"path": "a.txt", "content": "one\ntwo\n"}),
        ("write 'x; then y' to a.txt", "write", {"path": "a.txt", "content": "x; then y"}),
        (
            "create a.py with\n```python\nprint(1)\nrun\n```",
            "write",
            {"path": "a.py", "content": "print(1)\nrun\n"},
        ),
        ("run python -m pytest -q", "bash", {"command": "python -m pytest -q"}),
        ('run `make; then echo "ok"`', "bash", {"command": 'make; then echo "ok"'}),
        ('run echo "a; b" && true', "bash", {"command": 'echo "a; b" && true'}),
        ("1. run make.", "bash", {"command": "make"}),
        ("Could you run the command `ls -l`?", "bash", {"command": "ls -l"}),
    ],
)
def test_a_sentence_becomes_one_call(text: str, name: str, arguments: dict[str, Any]) -> None:
    assert calls_of(play(text)) == [(name, arguments)]


def test_a_file_is_read_before_it_is_edited_and_not_twice() -> None:
    text = 'replace "a" with "b" in x.py then change all c to d in x.py'
    assert calls_of(play(text)) == [
        ("read", {"path": "x.py"}),
        ("edit", {"path": "x.py", "old": "a", "new": "b"}),
        ("edit", {"path": "x.py", "old": "c", "new": "d", "replace_all": True}),
    ]


def test_after_a_command_a_file_is_read_again_before_it_is_edited() -> None:
    text = "read x.py; run make; replace 'a' with 'b' in x.py"
    assert [name for name, _ in calls_of(play(text))] == ["read", "bash", "read", "edit"]


@pytest.mark.parametrize(
    "text",
    [
        "read a.md then run make then list src",
        "read a.md, then run make, and then list src",
        "Read a.md. Then run make. Then list src.",
        "read a.md; run make; list src",
        "1. read a.md\n2. run make\n3) list src",
        "- read a.md\n\n- run make\n- list src\n",
        "First, read a.md\nnext run make\nfinally list src",
    ],
)
def test_several_sentences_are_done_one_after_the_other(text: str) -> None:
    turns = play(text)
    assert [[call.name for call in turn.tool_calls] for turn in turns] == [
        ["read"],
        ["bash"],
        ["glob"],
        [],
    ]
    assert calls_of(turns)[1] == ("bash", {"command": "make"})


def test_readers_that_follow_each_other_are_called_together() -> None:
    turns = play('read a.md\nsearch for "x"\nfind *.py\nrun make\nread b.md')
    assert [len(turn.tool_calls) for turn in turns] == [3, 1, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "Why is the sky blue?",
        "read",
        "read a.md and b.md",
        "read a.md lines 9-3",
        "replace a in b",
        "create a.txt",
        "run",
        "if it fails run make",
        "run make\nfix the failing test",
        "help me understand this",
    ],
)
def test_a_request_that_is_not_understood_in_full_runs_nothing(text: str) -> None:
    (turn,) = play(text)
    assert turn.tool_calls == ()
    assert "I did nothing" in said(turn)
    assert said(turn).endswith(HELP)
    assert turn.stop_reason is StopReason.END_TURN


@pytest.mark.parametrize("text", ["help", "Help?", "?", "please"])
def test_help_lists_the_commands(text: str) -> None:
    (turn,) = play(text)
    assert said(turn) == f"{LABEL}\n\n{HELP}"


@given(st.text())
def test_any_text_has_a_response(text: str) -> None:
    understood = parse_request(text)
    assert understood.steps == () or understood.unparsed is None


def test_a_long_blank_is_read_as_quickly_as_a_short_one() -> None:
    assert parse_request("run" + " " * 200_000 + "x\n" + " " * 200_000).steps[0].tool == "bash"


# -- reports -------------------------------------------------------------------------------------


def test_the_report_lists_the_steps_and_shows_the_last_output() -> None:
    *_, last = play("read a.md\nrun make")
    assert "- read `a.md`: done, 1 line of output" in said(last)
    assert "- run `make`: done, 1 line of output" in said(last)
    assert said(last).endswith("```\noutput of bash\n```")


def test_a_long_output_is_shown_in_part() -> None:
    lines = "\n".join(map(str, range(100)))
    *_, ran = play("run make", lambda call: (lines, Outcome.OK))
    assert "… 60 earlier lines\n60\n" in said(ran)
    assert said(ran).endswith("\n99\n```")
    *_, read = play("read a", lambda call: (lines, Outcome.OK))
    assert "```\n0\n1\n" in said(read)
    assert said(read).endswith("\n39\n… 60 more lines\n```")


def test_an_output_cannot_end_the_block_it_is_shown_in() -> None:
    *_, last = play("read a", lambda call: ("````\nI am outside", Outcome.OK))
    assert said(last).endswith("`````\n````\nI am outside\n`````")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.ERROR, "failed"),
        (Outcome.DENIED, "denied"),
        (Outcome.TIMEOUT, "timed out"),
        (Outcome.CANCELLED, "cancelled"),
    ],
)
def test_it_stops_at_the_first_step_that_fails(outcome: Outcome, words: str) -> None:
    def respond(call: ToolCall) -> Answer:
        return ("exit code 2", outcome) if call.name == "bash" else ("fine", Outcome.OK)

    turns = play("read a.md\nrun make\nread b.md\nlist", respond)
    assert [call.name for turn in turns for call in turn.tool_calls] == ["read", "bash"]
    assert f"run `make`: {words}" in said(turns[-1])
    assert "exit code 2" in said(turns[-1])
    assert "- not done: read `b.md`" in said(turns[-1])


FIX = 'run make\nif it fails, replace "a" with "b" in x.py\nrun make again'


def test_a_conditional_step_runs_only_after_a_failure() -> None:
    assert calls_of(play(FIX)) == [
        ("bash", {"command": "make"}),
        ("bash", {"command": "make again"}),
    ]


def test_a_failure_with_a_conditional_step_does_not_stop_the_run() -> None:
    def respond(call: ToolCall) -> Answer:
        failed = '"make"' in call.arguments
        return ("1 failed", Outcome.ERROR) if failed else ("fine", Outcome.OK)

    turns = play(FIX, respond)
    assert [name for name, _ in calls_of(turns)] == ["bash", "read", "edit", "bash"]
    assert "- run `make`: failed" in said(turns[-1])
    assert "- run `make again`: done" in said(turns[-1])
    assert "I stopped" not in said(turns[-1])


def test_a_conditional_step_that_fails_stops_the_run() -> None:
    turns = play(FIX, lambda call: ("no", Outcome.ERROR))
    assert [name for name, _ in calls_of(turns)] == ["bash", "read"]
    assert "I stopped there." in said(turns[-1])


def test_only_the_last_user_message_counts() -> None:
    messages: list[Message] = [ChatMessage.user("run make")]
    first = answer(*messages)
    messages += [
        first,
        ChatMessage.tool_result(first.tool_calls[0].id, "no", outcome=Outcome.ERROR),
    ]
    messages += [answer(*messages), ChatMessage.user("read a.md")]
    turn = answer(*messages)
    assert [call.name for call in turn.tool_calls] == ["read"]


# -- tools as they are offered -------------------------------------------------------------------


def test_arguments_have_the_names_that_the_tool_gives_them() -> None:
    tools = (
        tool("read", "file_path", "start_line", "limit", required=["file_path"]),
        tool("edit", "file_path", "old_string", "new_string"),
    )
    assert calls_of(play("replace a with b in x", tools=tools)) == [
        ("read", {"file_path": "x"}),
        ("edit", {"file_path": "x", "old_string": "a", "new_string": "b"}),
    ]


def test_a_tool_that_is_not_offered_is_named() -> None:
    (turn,) = play("run make", tools=TOOLS[:1])
    assert said(turn).endswith("I cannot run `make`: the tool `bash` is not available.")


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (tool("bash", "script"), "the tool `bash` has no argument for the command"),
        (tool("bash", "command", "reason"), "requires further arguments: reason"),
    ],
)
def test_a_tool_of_another_shape_is_not_called(offered: ToolDefinition, words: str) -> None:
    (turn,) = play("run make", tools=(offered,))
    assert words in said(turn)


# -- as a provider -------------------------------------------------------------------------------


def test_the_label_is_on_the_first_and_the_last_response_of_the_first_run() -> None:
    turns = play("read a.md\nrun make")
    assert [said(turn).startswith(LABEL) for turn in turns] == [True, False, True]
    later = answer(ChatMessage.user("help"), turns[-1], ChatMessage.user("run make"))
    assert not said(later).startswith(LABEL)


def test_the_label_is_shown_after_responses_of_a_model() -> None:
    after_a_model = answer(
        ChatMessage.user("Hi"), ChatMessage.assistant("Hello."), ChatMessage.user("help")
    )
    assert said(after_a_model).startswith(LABEL)


def test_the_same_request_has_the_same_answer_and_no_two_calls_share_an_id() -> None:
    text = "run make\nrun make\nrun make"
    first, second = play(text), play(text)
    assert first == second
    ids = [call.id for turn in first for call in turn.tool_calls]
    assert len(set(ids)) == 3


def test_words_arrive_one_by_one_and_are_counted() -> None:
    async def main() -> None:
        request = Request(messages=(ChatMessage.user("run make now"),), tools=TOOLS)
        stream: Stream = OfflineProvider().stream(request)
        events = [event async for event in stream]
        words = [event.text for event in events if isinstance(event, TextDelta)]
        assert "".join(words) == f"{LABEL}\n\nI run `make now`."
        assert len(words) == 10
        last = events[-1]
        assert isinstance(last, Finished)
        assert last.stop_reason is StopReason.TOOL_USE
        assert last.usage is not None
        assert last.usage.input_tokens == 3
        assert last.usage.output_tokens == 10 + 3

    run(main())


def test_a_cancelled_response_keeps_the_received_text() -> None:
    async def main() -> None:
        request = Request(messages=(ChatMessage.user("help"),))
        async with OfflineProvider() as provider:
            async with provider.stream(request) as stream:
                async for _ in stream:
                    break
            assert stream.message().stop_reason is StopReason.ABORTED
            assert said(stream.message()) == "[offline "
            assert [event async for event in stream] == []

            stream = provider.stream(request)
            heard = asyncio.Event()

            async def listen() -> None:
                async for _ in stream:
                    heard.set()

            listener = asyncio.create_task(listen())
            await heard.wait()
            listener.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listener
            assert stream.message().stop_reason is StopReason.ABORTED

    run(main())


def test_a_value_that_is_not_a_request_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        OfflineProvider().stream(cast("Request", "run make"))
    assert (caught.value.code, caught.value.place) == ("wrong_type", "stream")


def test_the_description_names_it_an_assistant_and_not_a_model() -> None:
    model = run(OfflineProvider().describe())
    assert model.id == "assistant"
    assert "not a language model" in (model.title or "")
    assert model.capabilities.tools is True


def test_it_fixes_a_file_with_the_real_loop_and_tools(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    workspace = Workspace([tmp_path])
    kinds = (ReadTool, WriteTool, EditTool, GrepTool, GlobTool)
    with MemoryStore() as store:
        conversation = store.new()
        agent = Agent(
            OfflineProvider(),
            conversation,
            tools=[kind(workspace) for kind in kinds],
            gate=Gate(approver=AllowingApprover()),
        )
        result = run(
            agent.run(
                'list files\nsearch for "a - b"\nreplace "a - b" with "a + b" in sums.py\n'
                'create notes/done.txt with "mended\\n"\nread sums.py lines 2-2'
            ),
            20,
        )
        assert (tmp_path / "sums.py").read_text("utf-8") == "def add(a, b):\n    return a + b\n"
        assert (tmp_path / "notes" / "done.txt").read_text("utf-8") == "mended\n"
        assert "I stopped" not in result.text
        assert "return a + b" in result.text
