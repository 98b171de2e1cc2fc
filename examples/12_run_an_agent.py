"""Run an agent that fixes a project: it runs a test, edits a file and runs the test again.

The offline assistant is the model, all other parts are real. With
`steno.providers.connect("anthropic", model="…")` in its place the program stays the same.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from steno import ChatMessage, TextDelta
from steno.agent import Agent, CallEnded, CallStarted, Gate, LoopEvent, Permissions, Runner
from steno.providers import OfflineProvider
from steno.store import open_store
from steno.tools import Toolbox, Workspace

TASK = """\
run sh test.sh
if it fails, replace "Helo" with "Hello" in greet.sh
run sh test.sh
"""


def show(event: LoopEvent) -> None:
    """Print text, calls and results when they arrive."""
    match event:
        case TextDelta(_, text):
            print(text, end="")
        case CallStarted(call):
            print(f"\n  → {call.name} {call.arguments}")
        case CallEnded(_, result):
            print(f"  ← {result.outcome}")
        case _:
            pass


async def fix(project: Path) -> None:
    gate = Gate(Permissions.of(allow=["edit(*.sh)", "bash(sh test.sh)"]))
    with open_store(project.parent / "work.db") as store:
        async with Toolbox(Workspace([project])) as toolbox:
            agent = Agent(
                OfflineProvider(),
                store.new([ChatMessage.system("You fix code.")]),
                tools=toolbox.tools,
                gate=gate,
                runner=Runner(store),
                model="offline/assistant",
            )
            result = await agent.run(TASK, on_event=show)
        print(f"\n\n{result.end_reason} after {result.turns} turns; greet.sh is now:")
        print((project / "greet.sh").read_text().strip())


with TemporaryDirectory() as folder:
    project = Path(folder, "project")
    project.mkdir()
    (project / "greet.sh").write_text("echo Helo\n")
    (project / "test.sh").write_text('test "$(sh greet.sh)" = Hello\n')
    asyncio.run(fix(project))
