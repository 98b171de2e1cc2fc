"""A tour of steno: an agent fixes a bug; you read, verify and replay the record of its work.

The demo runs real commands in a temporary folder with its own home, and deletes it at the end.
It exits with status 1 if a step fails.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, NoReturn

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
    """A command of the demo, and a sentence that explains it."""

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


unittest.main()
""",
}
STEPS = (
    Step("A small project has a bug: the mean of 1, 2 and 6 should be 3.", "cat stats.py"),
    Step(
        "An agent runs the test. This command needs approval, so the call is denied.",
        "steno -p 'run python3 test_stats.py' --model offline",
    ),
    Step(
        "A permission rule allows this one command, in a sandbox if there is one. The test fails.",
        "steno -c -p 'run python3 test_stats.py' --allow 'bash(python3 test_stats.py)'",
    ),
    Step(
        "A second rule allows edits of one file. The agent fixes the bug, and the test passes.",
        """\
steno -c -p 'replace "/ 2" with "/ len(values)" in stats.py, then run python3 test_stats.py' \\
    --allow 'edit(stats.py)' --allow 'bash(python3 test_stats.py)'""",
    ),
    Step(
        "A line of a file is attached to a prompt. steno reports that the file changed afterwards.",
        "steno -c -p 'explain @stats.py:2' -q && echo >> stats.py && steno inputs",
    ),
    Step(
        "A branch continues from the same entries. In plan mode the agent can only read.",
        "steno -c --fork review --mode plan -p 'search for \"mean\" in .'",
    ),
    Step("The session is a tree of two branches.", "steno sessions tree last"),
    Step(
        "The audit lists each approved call, and the rule that allowed it.",
        "steno audit last --decision approved",
    ),
    Step("A chain of digests proves that the record was not changed.", "steno verify last"),
    Step(
        "The session is replayed from its record, without a model, and ends in the same digest.",
        "steno replay last",
    ),
    Step(
        "A language model runs on this machine. It is small, so do not expect good responses.",
        """\
steno -p 'Name a colour.' --model embedded --no-session \\
    --system-prompt 'Answer in one short sentence.' --max-tokens 40 --temperature 0""",
        is_optional=True,
    ),
)
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR")


# -- the command line ------------------------------------------------------------------------


def run_steps(folder: Path) -> None:
    """Run every step, and exit at the first one that fails."""
    project = folder / "project"
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)
    environ = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
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
        if status != 0 and step.is_optional:
            print(f"Exit status {status}. This step is optional; the demo continues.", flush=True)
        elif status != 0:
            fail(number, f"the command has exit status {status}, expected 0")


def announce(number: int, title: str) -> None:
    """Print the number and the title of a step."""
    print("\n" + bold(f"[{number}/{len(STEPS) + 1}] {title}") + "\n", flush=True)


def fail(number: int, reason: str) -> NoReturn:
    """Exit with status 1 and the reason."""
    sys.exit(f"demo: step {number} of {len(STEPS) + 1} failed: {reason}")


def bold(text: str) -> str:
    """Return a text in bold on a terminal, and unchanged in a file."""
    is_plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if is_plain else f"\x1b[1m{text}\x1b[0m"


# -- the library -----------------------------------------------------------------------------


def read_file(path: str, limit: int = 100) -> str:
    """Read the first lines of a text file."""
    return f"{path}: {limit} lines at most"


def show_library(number: int) -> None:
    """Assemble a stream, repair a history, and encode it for two providers."""
    events: list[Event] = [
        TextDelta(0, "I read "),
        TextDelta(0, "both files."),
        ToolCallDelta(0, "call_a", "read_file", '{"path": "REA'),
        ToolCallDelta(0, None, None, 'DME.md"}'),
        ToolCallDelta(0, "call_b", "read_file", '{"path": "a.py"}'),
        Finished(StopReason.END_TURN, "stop"),
    ]
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    response = assembler.message()
    print("a stream of a server that gives two calls the same index:")
    for part in (response.text, *[f"{call.name} {call.arguments}" for call in response.tool_calls]):
        print(f"  {part}")

    interrupted: list[Message] = [
        ChatMessage.user("Read both files."),
        response,
        ToolResult.success("call_a", read_file("README.md")),
        ChatMessage.user("Are you still there?"),
    ]
    print("\na session that was killed before the second call had a result:")
    for issue in check_order(interrupted):
        print(f"  message {issue.position}: {issue.code} - {issue.remedy}")
    repaired = repair(interrupted).messages
    if check_order(repaired):
        fail(number, "the repaired history is not valid")
    print("  repaired:", ", ".join([str(message.role) for message in repaired]))

    tool = ToolDefinition.from_function(read_file)
    request = Request(model="any", messages=repaired, tools=(tool,), temperature=0.2)
    print("\nthe same request for two providers:")
    for name in ("openai_chat", "anthropic_messages"):
        encoded = load_wire(name).encode_request(request)
        roles = ", ".join([message["role"] for message in encoded.json["messages"]])
        losses = map(format_change, encoded.losses)
        print(f"  {name:18} {len(encoded.body)} bytes: {roles}", *losses, sep="\n    ")


start = time.monotonic()
print("The offline assistant replaces the model: no key, no network. All other parts are real.")
with TemporaryDirectory(prefix="steno-demo-") as temporary:
    run_steps(Path(temporary).resolve())
last = len(STEPS) + 1
announce(last, "The Python library assembles streams, repairs histories and encodes requests.")
show_library(last)
print(f"\nFinished in {time.monotonic() - start:.0f} s. The temporary folder is deleted.")
