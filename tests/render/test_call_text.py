"""How a call reads before one decides: complete, and never like words of ours."""

from __future__ import annotations

import pytest

from steno.agent.permissions.subjects import normalize_subject
from steno.messages.call import ToolCall, map_tool_name
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
)
from steno.render.call_text import (
    CallLine,
    LineTone,
    describe_arguments,
    describe_call,
    describe_call_status,
    describe_calls,
    describe_purpose,
    describe_question,
    diff_lines,
    quote_text,
)


def texts(lines: list[CallLine]) -> list[str]:
    return [line.text for line in lines]


# -- arguments -------------------------------------------------------------------------------


def test_long_texts_stand_as_they_are_below_their_name() -> None:
    call = ToolCall.create("write", {"path": "a.py", "content": 'x = "1"\n\ty\n', "force": True})
    assert texts(describe_arguments(call)) == [
        'path: "a.py"',
        "content:",
        '  │ x = "1"',
        "  │ \ty",
        "  │ ",
        "force: true",
    ]


def test_nested_arguments_are_indented_and_deep_ones_are_json() -> None:
    deep: dict[str, object] = {"end": [1]}
    for _ in range(7):
        deep = {"in": deep}
    call = ToolCall.create("f", {"a": [1, {"b": None}], "e": [], "deep": deep})
    lines = texts(describe_arguments(call))
    assert lines[:6] == ["a:", "  1.: 1", "  2.:", "    b: null", "e: []", "deep:"]
    assert lines[-1].strip() == 'in: {"in":{"end":[1]}}'


def test_a_text_does_not_look_like_other_arguments() -> None:
    call = ToolCall.create("f", {"a": 'x"\nb: 2', "c": "true"})
    assert texts(describe_arguments(call)) == ["a:", '  │ x"', "  │ b: 2", 'c: "true"']


def test_no_arguments_are_none() -> None:
    assert texts(describe_arguments(ToolCall.create("f"))) == ["none"]


def test_arguments_that_python_cannot_hold_are_shown_as_they_came() -> None:
    call = ToolCall(id="x", name="f", arguments='{"n": 1e999}')
    assert texts(describe_arguments(call)) == ['{"n": 1e999}']


# -- diffs -----------------------------------------------------------------------------------


def test_the_lines_of_a_diff_are_distinguished() -> None:
    diff = "--- x\n+++ x\n@@ -1,3 +1,2 @@\n same\n-old\n--- removed rule\n+new\n\\ No newline\n"
    assert diff_lines(diff) == [
        CallLine("x", LineTone.FILE, added=1, removed=2),
        CallLine("@@ -1,3 +1,2 @@", LineTone.HUNK),
        CallLine(" same"),
        CallLine("-old", LineTone.REMOVED),
        CallLine("--- removed rule", LineTone.REMOVED),
        CallLine("+new", LineTone.ADDED),
        CallLine("\\ No newline", LineTone.NOTE),
    ]


def test_a_diff_names_each_file_and_counts_its_lines() -> None:
    diff = (
        "--- /dev/null\n+++ new.py\n@@ -0,0 +1,2 @@\n+a\n+++ b\n"
        "--- old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        "--- here.py\n+++ there.py\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9,0 @@\n-c\n"
    )
    files = [line for line in diff_lines(diff) if line.tone is LineTone.FILE]
    assert [(line.text, line.added, line.removed) for line in files] == [
        ("new.py · new file", 2, 0),
        ("old.py · removed", 0, 1),
        ("here.py → there.py", 1, 2),
    ]
    assert "@@ -0,0 +1,2 @@" not in texts(diff_lines(diff))


def test_a_file_whose_name_ends_like_a_count_has_no_count() -> None:
    line = diff_lines("--- a  +1\n+++ a  +1\n@@ -1 +1 @@\n same\n")[0]
    assert (line, line.counts) == (CallLine("a  +1", LineTone.FILE), [])


def test_file_content_is_not_read_as_a_diff_header() -> None:
    diff = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n--- /dev/null\n+++ harmless.txt\n-@@ -1 +1 @@\n+a\n"
    assert diff_lines(diff)[0] == CallLine("x", LineTone.FILE, added=2, removed=2)
    assert "--- /dev/null" in texts(diff_lines(diff))


def test_text_that_is_not_a_diff_has_no_colours() -> None:
    patching = "git apply <<E\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\nE"
    for text in ("- a list\n+ of things\n@ home", patching):
        assert quote_text(text) == [CallLine(line) for line in text.split("\n")]


# -- what a preview shows already --------------------------------------------------------------


def read(
    arguments: dict[str, object],
    *parts: PreviewPart,
    shown: tuple[str, ...] = (),
    subject: str = "",
) -> list[CallLine]:
    request = request_for(arguments, (subject,) if subject else ())
    return describe_call(request.call, CallPreview(parts, shown), request=request)


def request_for(arguments: dict[str, object], subjects: tuple[str, ...] = ()) -> ApprovalRequest:
    return ApprovalRequest(
        call=ToolCall.create("bash", arguments, id="call_1"),
        capability=Capability.EXECUTE,
        subjects=tuple([normalize_subject(each, Capability.EXECUTE) for each in subjects]),
        preview=CallPreview((text("git log -1"), IN_PROJECT), ("command",)),
        rule="bash",
    )


def text(text: str) -> PreviewPart:
    return PreviewPart(PreviewKind.TEXT, text)


IN_PROJECT = PreviewPart(PreviewKind.NOTE, "in ~/project · at most 60 s")


def headed(lines: list[CallLine], heading: str) -> list[str]:
    """Return what stands below a heading of ours."""
    below = texts(lines)[texts(lines).index(heading) + 1 :] if heading in texts(lines) else []
    ends = [at for at, text in enumerate(below) if text in ("applies to", "arguments")]
    return below[: ends[0]] if ends else below


def test_a_command_is_shown_once_with_a_note_below() -> None:
    arguments: dict[str, object] = {"command": "sleep 30", "timeout_s": 60}
    shown = ("command", "timeout_s")
    lines = read(arguments, text("sleep 30"), IN_PROJECT, shown=shown, subject="sleep 30")
    assert lines == [CallLine("sleep 30"), CallLine("in ~/project · at most 60 s", LineTone.NOTE)]


def test_a_command_that_looks_like_a_note_or_a_diff_is_shown_unchanged() -> None:
    command = "git apply <<E\n--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+y\nE\n\nrm -rf ~"
    lines = read({"command": command}, text(command), IN_PROJECT, shown=("command",))
    assert lines[:-1] == [*map(CallLine, command.split("\n"))]


def test_arguments_that_a_tool_does_not_show_stand_below_its_preview() -> None:
    arguments: dict[str, object] = {"command": "sleep 30", "retries": 30, "user": "sleep"}
    lines = read(arguments, text("sleep 30"), IN_PROJECT, shown=("command",))
    assert headed(lines, "arguments") == ["retries: 30", 'user: "sleep"']


@pytest.mark.parametrize("subject", ["app.py", "rc/app.py", "src", "py", "src/app.py.orig"])
def test_only_a_subject_that_stands_there_by_itself_is_shown_already(subject: str) -> None:
    preview = text("src/app.py, up to 9 lines")
    assert headed(read({"path": "a"}, preview, subject=subject), "applies to") == [subject]
    assert headed(read({"path": "a"}, preview, subject="src/app.py"), "applies to") == []


def test_subjects_are_shown_if_the_preview_does_not_name_them() -> None:
    lines = read({"command": "a  >  out"}, text("a  >  out"), subject="> /real/out")
    assert headed(lines, "applies to") == ["> /real/out"]
    assert (
        headed(read({"command": "a  >  out"}, text("a  >  out"), subject="a > out"), "applies to")
        == []
    )


def test_a_diff_shows_what_is_replaced_by_what() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1,3 +1,4 @@\n x = 1\n-y = 2\n+y = 3\n+z = 4\n end\n"
    arguments: dict[str, object] = {"path": "./a.py", "old": "y = 2\n", "replace_all": True}
    part = PreviewPart(PreviewKind.DIFF, diff)
    lines = read(arguments, part, shown=("old",), subject="a.py")
    assert lines[0] == CallLine("a.py", LineTone.FILE, added=2, removed=1)
    assert headed(lines, "arguments") == ['path: "./a.py"', "replace_all: true"]


def test_arguments_in_a_json_preview_are_listed_one_by_one() -> None:
    arguments: dict[str, object] = {"place": "here", "text": "one\ntwo"}
    as_json = '{\n  "place": "here",\n  "text": "one\\ntwo"\n}'
    part = PreviewPart(PreviewKind.ARGUMENTS, as_json)
    told = ['place: "here"', "text:", "  │ one", "  │ two"]
    assert texts(read(arguments, part, subject="here")) == ["arguments", *told]
    lines = read(arguments, text('"deploy" of the server s'), part, text("The server says so."))
    assert texts(lines) == ['"deploy" of the server s', "The server says so.", "arguments", *told]


@pytest.mark.parametrize(
    ("name", "capability", "purpose", "action"),
    [
        ("bash", Capability.EXECUTE, "bash wants to execute", "execute"),
        ("write", Capability.WRITE, "write", "write"),
        ("fetch", Capability.NETWORK, "fetch wants to use the network", "use the network"),
    ],
)
def test_a_question_names_the_tool_and_its_purpose(
    name: str, capability: Capability, purpose: str, action: str
) -> None:
    call = ToolCall.create(name)
    request = ApprovalRequest(
        call=call, capability=capability, subjects=(), preview=CallPreview(), rule=name
    )
    assert describe_purpose(call, request) == purpose
    assert describe_question(call, request) == f"{name} asks for permission to {action}"
    assert describe_purpose(call, None) == f"{name} · queued"
    decision = ApprovalDecision(allowed=False, actor="ada")
    assert describe_call_status(request, None) == "waiting"
    assert describe_call_status(request, decision) == "denied"
    assert describe_call_status(None, None) == "queued"


def test_questions_have_the_name_that_the_model_sent() -> None:
    call = ToolCall(id="c1", name=map_tool_name("fs.read"), original_name="fs.read")
    assert describe_question(call, None).startswith("fs.read ")
    assert describe_purpose(call, None).startswith("fs.read ")
    assert texts(describe_calls([(call, None)]))[0] == "1 of 1: fs.read"


def test_a_list_of_all_calls_describes_each_in_full() -> None:
    one = request_for({"command": "git log -1", "force": True}, ("git log",))
    other = ToolCall.create("write", {"path": "call_2.py"}, id="call_2")
    lines = texts(describe_calls([(one.call, one), (other, None)]))
    assert lines[0] == "1 of 2: bash · execute"
    assert lines[3:] == [
        "arguments",
        "force: true",
        "2 of 2: write",
        "arguments",
        'path: "call_2.py"',
    ]
