"""The tour: an agent mends a project, and what it did is looked at, proved and played again.

Everything happens in a folder of its own, with a home of its own, and is gone at the end. The
commands are real: `sh` runs them as they stand there.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from steno import (
    Assembler,
    ChatMessage,
    Event,
    Finished,
    Request,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    check_order,
    repair,
)
from steno.messages import Message
from steno.render import format_change
from steno.wire import load_wire


class Step(NamedTuple):
    """What is shown, and why; and the command that shows it."""

    title: str
    command: str
    is_optional: bool = False


PROJECT = {
    "stats.py": """\
def mean(values):
    return sum(values) / 2
""",
    "test_stats.py": """\
import unittest

from stats import mean


class Means(unittest.TestCase):
    def test_mean_of_three(self):
        self.assertEqual(mean([1, 2, 6]), 3)
""",
}
STEPS = (
    Step("A throw-away project. Its test says that the mean of 1, 2 and 6 is 3.", "cat stats.py"),
    Step(
        "An agent is to run the test. Only reading is free, and nobody can be asked: it is denied.",
        "steno -p 'run python3 -m unittest' --model offline",
    ),
    Step(
        "With a rule it may run this one command, in a sandbox where there is one. The test fails.",
        "steno -c -p 'run python3 -m unittest' --allow 'bash(python3 -m unittest)'",
    ),
    Step(
        "It mends the code: an edit of one file is allowed, too. Now the test passes.",
        """\
steno -c -p 'replace "/ 2" with "/ len(values)" in stats.py, then run python3 -m unittest' \\
    --allow 'edit(stats.py)' --allow 'bash(python3 -m unittest)'""",
    ),
    Step(
        "What you point at is shown as it is now, and on record: has it changed since?",
        "steno -c -p 'explain @stats.py:2' -q && echo >> stats.py && steno inputs",
    ),
    Step(
        "Another way to go on, in a branch that shares the past; in plan mode it can only look.",
        "steno -c --fork review --mode plan -p 'search for \"mean\" in .'",
    ),
    Step("All of it is one session, which is a tree.", "steno sessions tree last"),
    Step(
        "Who decided what: each call that was run, and the rule that allowed it.",
        "steno audit last --decision approved",
    ),
    Step("A chain of digests proves that nothing was changed since.", "steno verify last"),
    Step(
        "The session runs again from its record, through the same loop, and ends in the same digest.",
        "steno replay last",
    ),
    Step(
        "A real language model, on this machine: 135 million parameters, so expect little of it.",
        """\
steno -p 'Name a colour.' --model embedded --no-session \\
    --system-prompt 'Answer in one short sentence.' --max-tokens 40 --temperature 0""",
        is_optional=True,
    ),
)
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR")


# -- at the command line ---------------------------------------------------------------------


def run_steps(folder: Path) -> None:
    """Show every step, and stop at the first that fails."""
    project = folder / "project"
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)
    environ = {name: os.environ[name] for name in KEPT if name in os.environ}
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ["PATH"]])
    environ["HOME"] = str(folder)
    for number, step in enumerate(STEPS, start=1):
        announce(number, step.title)
        print(bold(f"$ {step.command}"), flush=True)
        status = subprocess.run(
            step.command,
            shell=True,
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
        if status != 0 and not step.is_optional:
            sys.exit(f"demo: the command failed with exit status {status}")
        if status != 0:
            print("This step is left out.", flush=True)


def announce(number: int, title: str) -> None:
    """Say how far it is, and what comes."""
    print("\n" + bold(f"[{number}/{len(STEPS) + 1}] {title}") + "\n", flush=True)


def bold(text: str) -> str:
    """Make a line stand out on a terminal, and leave it alone in a file."""
    is_plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if is_plain else f"\x1b[1m{text}\x1b[0m"


# -- as a library ----------------------------------------------------------------------------


def read_file(path: str, limit: int = 100) -> str:
    """Read the first lines of a text file."""
    return f"{path}: {limit} lines at most"


def show_library() -> None:
    """Show what stands below all that: streams, repair, two providers."""
    pieces: list[Event] = [
        TextDelta(0, "I read "),
        TextDelta(0, "both."),
        ToolCallDelta(0, "call_a", "read_file", '{"path": "REA'),
        ToolCallDelta(0, None, None, 'DME.md"}'),
        ToolCallDelta(0, "call_b", "read_file", '{"path": "a.py"}'),
        Finished(StopReason.END_TURN, "stop"),
    ]
    assembler = Assembler()
    for piece in pieces:
        assembler.feed(piece)
    turn = assembler.message()
    print("a stream, from a server that numbers both calls 0 and cuts anywhere:")
    for part in (turn.text, *[f"{call.name} {call.arguments}" for call in turn.tool_calls]):
        print(f"  {part}")

    killed: list[Message] = [
        ChatMessage.user("Read both."),
        turn,
        ToolResult.success("call_a", read_file("README.md")),
        ChatMessage.user("Are you still there?"),
    ]
    print("\na session that was killed before the second call had its result:")
    for issue in check_order(killed):
        print(f"  message {issue.position}: {issue.code} - {issue.remedy}")
    mended = repair(killed).messages
    print("what is sent of it:", ", ".join([str(message.role) for message in mended]))

    tool = ToolDefinition.from_function(read_file)
    request = Request(model="any", messages=mended, tools=(tool,), temperature=0.2)
    print("\nthe same request, in the words of two providers:")
    for name in ("openai_chat", "anthropic_messages"):
        encoded = load_wire(name).encode_request(request)
        roles = ", ".join([message["role"] for message in encoded.json["messages"]])
        losses = map(format_change, encoded.losses)
        print(f"  {name:18} {len(encoded.body)} bytes: {roles}", *losses, sep="\n    ")


begin = time.monotonic()
print("The model is the offline assistant (no key, no network); everything around it is real.")
with TemporaryDirectory(prefix="steno-demo-") as temporary:
    run_steps(Path(temporary).resolve())
announce(len(STEPS) + 1, "The same as a library, and what keeps it from breaking.")
show_library()
seconds = time.monotonic() - begin
print(f"\nThat was all, in {seconds:.0f} s for these steps; the folder is gone.")
