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
    '        raise ValueError("mean: no prices")\n'
    "    return sum(prices) / len(prices)\n"
)
READ: Final = Call("read", {"path": "prices.py"}, "call_1")
EDIT: Final = Call("edit", {"path": "prices.py", "old": OLD, "new": FIXED}, "call_2")
RAISE: Final = Call("edit", {"path": "prices.py", "old": OLD, "new": RAISED}, "call_3")
TRY: Final = Call(
    "bash", {"command": 'python3 -c "import prices; print(prices.mean([]))"'}, "call_4"
)
PROMPT: Final = "Why does mean() in @prices.py fail without prices? Fix it."
WHY: Final = """\
`mean([])` divides by `len(prices)`, which is **0** for an empty list:

```python
return sum(prices) / len(prices)   # ZeroDivisionError
```

I return `0.0` in that case.
"""
DONE: Final = """\
Fixed and tested:

| call | before | now |
|---|---|---|
| `mean([])` | ZeroDivisionError | `0.0` |
| `mean([2, 4])` | `3.0` | `3.0` |
"""


# -- screenshots ---------------------------------------------------------------------------------


async def show_terminal(user: ScreenUser) -> None:
    """Show a prompt, the tool calls and the response."""
    await user.enter(PROMPT)
    await user.sees("mean([2, 4])", "idle")
    calls = [block for block in user.app.transcript.items if "edit" in block.head]
    user.app.transcript.fold(calls[0])
    user.app.transcript.scroll_end(animate=False)
    await user.until(lambda: user.app.transcript.is_at_end)


async def show_approval(user: ScreenUser) -> None:
    """Show the approval of an edit."""
    await user.enter(PROMPT)
    await user.sees("waiting for approval")
    await user.press("ctrl+g")


async def show_tree(user: ScreenUser) -> None:
    """Show the tree of two branches."""
    await _branch(user)
    await user.press("ctrl+t")
    await user.sees("2 branches")


async def show_compare(user: ScreenUser) -> None:
    """Show the comparison of two branches."""
    await show_tree(user)
    await user.press("c")
    await user.sees("Compare")


async def _branch(user: ScreenUser) -> None:
    await user.enter("Why does mean() fail without prices?")
    await user.sees("ZeroDivisionError", "idle")
    await user.enter("/label cause")
    await user.sees("label: cause")
    await user.enter("Return 0 in that case.")
    await user.sees("It returns 0.0", "idle")
    await user.press("ctrl+t")
    await user.sees("Tree of")
    await user.press("up", "up", "up", "up", "e")
    await user.sees("to edit #")
    await user.type("strict")
    await user.press("enter")
    await user.until(lambda: "⎇ strict" in user.status)
    await user.enter("Raise a clear error.")
    await user.sees("It raises", "idle")


TALK: Final[tuple[Turn, ...]] = (
    [READ],
    WHY.partition("I return")[0],
    [EDIT],
    "It returns `0.0` for an empty list.",
    [RAISE],
    "It raises `ValueError` with a clear message.",
)
PICTURES: Final[Mapping[str, tuple[tuple[Turn, ...], Callable[[ScreenUser], Awaitable[None]]]]] = {
    "terminal": (
        (
            [Thought("The list is probably empty. I read the division first."), READ],
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


# -- taking screenshots --------------------------------------------------------------------------


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
        needs_approval = name == "approval"
        own = SETTINGS.replace('"edit(prices.py)", ', "") if needs_approval else SETTINGS
        config.write_text(own + settings, encoding="utf-8")
        project = home / "shop"
        (project / ".git").mkdir(parents=True)
        (project / "prices.py").write_text(CODE, encoding="utf-8")
        with _environment(home, project):
            drawn = asyncio.run(_run_app(project, play))
    return _plain(drawn, name)


@contextmanager
def _environment(home: Path, project: Path) -> Generator[None]:
    """Hide the environment of the current user from the screenshots."""
    environ, folder = dict(os.environ), Path.cwd()
    for name in [name for name in environ if re.match("STENO_|XDG_|NO_COLOR|LLM_", name)]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "USER": "ann", "LOGNAME": "ann"}
    os.chdir(project)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)


async def _run_app(project: Path, play: Callable[[ScreenUser], Awaitable[None]]) -> str:
    @asynccontextmanager
    async def opened(on_progress: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        start, none = SessionStart(project), McpOptions(is_disabled=True)
        async with AgentSession.open(
            load_settings(project), start, mcp_options=none, on_progress=on_progress
        ) as session:
            yield session

    app = create_app(opened, clock=lambda: 0.0)  # a fixed clock, so that no duration is shown
    async with app.run_test(size=SIZE) as pilot:
        user = ScreenUser(app, pilot)
        await user.sees(" ACT ")
        await play(user)
        await user.hold_still()
        taken = app.export_screenshot(title="steno", simplify=True)
        await user.leave()
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
