"""Let an agent mend a project: the offline assistant is the model, all the rest is real.

With `steno.providers.connect("anthropic", model="…")` in its place, the rest stays as it is.
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
    """Print what happens while it happens."""
    match event:
        case TextDelta(_, text):
            print(text, end="")
        case CallStarted(call):
            print(f"\n  → {call.name} {call.arguments}")
        case CallEnded(_, result):
            print(f"  ← {result.outcome}")
        case _:
            pass


async def mend(project: Path) -> None:
    allowed = Gate(Permissions.of(allow=["edit(*.sh)", "bash(sh test.sh)"]))
    with open_store(project.parent / "work.db") as store:
        async with Toolbox(Workspace([project])) as toolbox:
            agent = Agent(
                OfflineProvider(),
                store.new([ChatMessage.system("You mend code.")]),
                tools=toolbox.tools,
                gate=allowed,
                runner=Runner(store),
                model="offline/assistant",
            )
            result = await agent.run(TASK, on_event=show)
        print(f"\n\n{result.end_reason} after {result.turns} turns; on disk now:")
        print((project / "greet.sh").read_text().strip())


with TemporaryDirectory() as folder:
    project = Path(folder, "project")
    project.mkdir()
    (project / "greet.sh").write_text("echo Helo\n")
    (project / "test.sh").write_text('test "$(sh greet.sh)" = Hello\n')
    asyncio.run(mend(project))
