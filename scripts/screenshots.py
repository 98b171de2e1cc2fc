"""Write the screenshots in docs/images from real sessions, or check that they are up to date.

The terminal, the session, the tools and the store are real; only the model is scripted. Run it
from the root of the repository: `python -m scripts.screenshots [--check]`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from steno.app.mcp import McpOptions
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.ui.tui.start import create_app
from tests.app.scripted_vendor import Call, Thought, Turn, run_vendor
from tests.ui.tui.app.screen_user import ScreenUser

TARGET: Final = Path(__file__).parent.parent / "docs" / "images"
SIZE: Final = (100, 37)
SETTINGS: Final = """\
model = "example/model"
allow = ["edit(prices.py)", "bash(python3 *)"]
[models."example/model"]
context_tokens = 32000
"""
CODE: Final = '''\
"""Prices of a shop."""


def mean(prices: list[float]) -> float:
    return sum(prices) / len(prices)
'''
OLD: Final = "    return sum(prices) / len(prices)\n"
FIXED: Final = "    if not prices:\n        return 0.0\n    return sum(prices) / len(prices)\n"
RAISED: Final = (
    "    if not prices:\n"
    '        raise ValueError("mean: there are no prices")\n'
    "    return sum(prices) / len(prices)\n"
)
READ: Final = Call("read", {"path": "prices.py"}, "call_1")
EDIT: Final = Call("edit", {"path": "prices.py", "old": OLD, "new": FIXED}, "call_2")
RAISE: Final = Call("edit", {"path": "prices.py", "old": OLD, "new": RAISED}, "call_3")
TRY: Final = Call(
    "bash", {"command": 'python3 -c "import prices; print(prices.mean([]))"'}, "call_4"
)
QUESTION: Final = "Why does mean() in @prices.py fail without prices? Fix it."
WHY: Final = """\
`mean([])` divides by `len(prices)`, which is **0** there:

```python
return sum(prices) / len(prices)   # ZeroDivisionError
```

I let it return `0.0` in that case.
"""
DONE: Final = """\
Fixed and tried:

| call | before | now |
|---|---|---|
| `mean([])` | ZeroDivisionError | `0.0` |
| `mean([2, 4])` | `3.0` | `3.0` |
"""


# -- screenshots ---------------------------------------------------------------------------------


async def show_terminal(person: ScreenUser) -> None:
    """Show a prompt, the tool calls, and the answer."""
    await person.enter(QUESTION)
    await person.sees("mean([2, 4])", "idle")
    calls = [block for block in person.app.transcript.items if "edit" in block.head]
    person.app.transcript.fold(calls[0])
    person.app.transcript.scroll_end(animate=False)
    await person.until(lambda: person.app.transcript.is_at_end)


async def show_approval(person: ScreenUser) -> None:
    """Show the approval of an edit."""
    await person.enter(QUESTION)
    await person.sees("waiting for approval")
    await person.press("ctrl+g")


async def show_tree(person: ScreenUser) -> None:
    """Show the tree of two branches."""
    await _branch(person)
    await person.press("ctrl+t")
    await person.sees("2 branches")


async def show_compare(person: ScreenUser) -> None:
    """Show the comparison of two branches."""
    await show_tree(person)
    await person.press("c")
    await person.sees("Compare")


async def _branch(person: ScreenUser) -> None:
    await person.enter("Why does mean() fail without prices?")
    await person.sees("ZeroDivisionError", "idle")
    await person.enter("/label the cause")
    await person.sees("label: the cause")
    await person.enter("Return 0 then.")
    await person.sees("It returns 0.0", "idle")
    await person.press("ctrl+t")
    await person.sees("Tree of")
    await person.press("up", "up", "up", "up", "e")
    await person.sees("to edit #")
    await person.type("strict")
    await person.press("enter")
    await person.until(lambda: "⎇ strict" in person.status)
    await person.enter("Raise a clear error.")
    await person.sees("It raises", "idle")


TALK: Final[tuple[Turn, ...]] = (
    [READ],
    WHY.partition("I let")[0],
    [EDIT],
    "It returns `0.0` for no prices.",
    [RAISE],
    "It raises `ValueError` with a clear message.",
)
PICTURES: Final[Mapping[str, tuple[tuple[Turn, ...], Callable[[ScreenUser], Awaitable[None]]]]] = {
    "terminal": (
        (
            [Thought("An empty list has no mean. Where is the division?"), READ],
            [WHY, EDIT],
            [TRY],
            DONE,
        ),
        show_terminal,
    ),
    "approval": (([READ], [WHY, EDIT]), show_approval),
    "tree": (TALK, show_tree),
    "compare": (TALK, show_compare),
}


# -- how screenshots are taken -------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Take all screenshots, and write or check them."""
    outdated = []
    for name in PICTURES:
        file = TARGET / f"{name}.svg"
        taken = take(name)
        if not file.exists() or file.read_text(encoding="utf-8") != taken:
            outdated.append(file.name)
            if "--check" not in arguments:
                file.write_text(taken, encoding="utf-8")
    if not outdated:
        print("screenshots are up to date")
    elif "--check" in arguments:
        print(f"{', '.join(outdated)}: out of date; run `make screenshots`", file=sys.stderr)
        return 1
    else:
        print(f"wrote {', '.join(outdated)}")
    return 0


def take(name: str) -> str:
    """Return one screenshot as SVG."""
    turns, play = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder, run_vendor(*turns) as model:
        home = Path(folder)
        config = home / ".config" / "steno" / "config.toml"
        config.parent.mkdir(parents=True)
        settings = model.settings.replace("providers.lab", "providers.example")
        asks = name == "approval"
        own = SETTINGS.replace('"edit(prices.py)", ', "") if asks else SETTINGS
        config.write_text(own + settings, encoding="utf-8")
        project = home / "shop"
        (project / ".git").mkdir(parents=True)
        (project / "prices.py").write_text(CODE, encoding="utf-8")
        with _living_in(home, project):
            drawn = asyncio.run(_sit(project, play))
    return _plain(drawn, name)


@contextmanager
def _living_in(home: Path, project: Path) -> Generator[None]:
    """Hide the environment of the current user from the screenshots."""
    before, place = dict(os.environ), Path.cwd()
    for name in [name for name in before if re.match("STENO_|XDG_|NO_COLOR|LLM_", name)]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "USER": "ann", "LOGNAME": "ann"}
    os.chdir(project)
    try:
        yield
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


async def _sit(project: Path, play: Callable[[ScreenUser], Awaitable[None]]) -> str:
    @asynccontextmanager
    async def opened(on_progress: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        start, none = SessionStart(project), McpOptions(is_disabled=True)
        async with AgentSession.open(
            load_settings(project), start, mcp_options=none, on_progress=on_progress
        ) as desk:
            yield desk

    app = create_app(opened, clock=lambda: 0.0)  # a fixed clock, so that no duration is shown
    async with app.run_test(size=SIZE) as pilot:
        person = ScreenUser(app, pilot)
        await person.sees(" ACT ")
        await play(person)
        await person.hold_still()
        taken = app.export_screenshot(title="steno", simplify=True)
        await person.leave()
        return taken


def _plain(svg: str, name: str) -> str:
    """Return a reproducible screenshot: without times, generated names and remote fonts."""
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "Fira Code, Menlo, Consolas, monospace")
    svg = re.sub(r"\bterminal-\d+", f"steno-{name}", svg)
    moment = r"\d{4}-\d\d-\d\d(.{1,6})\d\d:\d\d:\d\d"
    svg = re.sub(moment, r"2026-01-02\g<1>09:30:00", svg)
    return "\n".join([line.rstrip() for line in svg.splitlines()]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
