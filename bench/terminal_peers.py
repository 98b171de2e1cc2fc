"""The same with what comes with Textual: a widget for each thing that was said, in a container.

A call and what came of it are one line, as they are folded in ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, Static, TextArea
from textual.widgets.markdown import MarkdownStream

from bench.conversation import Turn
from bench.terminal_stage import Act, painted


class _Chat(App[None]):
    CSS = """
    VerticalScroll { height: 1fr; }
    TextArea { height: 3; }
    """

    def __init__(self, act: Act, own: Textual) -> None:
        super().__init__()
        self._act = act
        self._own = own

    def compose(self) -> ComposeResult:
        yield VerticalScroll()
        yield TextArea()
        yield Static("where things stand")

    def on_mount(self) -> None:
        self.call_after_refresh(self.run_worker, self._play())

    async def _play(self) -> None:
        await self._act(self._own)
        self.exit()


class Textual:
    """What is done with it."""

    def __init__(self, act: Act) -> None:
        self._app = _Chat(act, self)
        self._stream: MarkdownStream | None = None

    def run(self) -> None:
        """Do what there is to do, and leave."""
        self._app.run()

    @property
    def _scroll(self) -> VerticalScroll:
        return self._app.query_one(VerticalScroll)

    @property
    def drawn(self) -> None:
        """Nobody counts."""
        return

    def prepare(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return what is given to `show`."""
        return turns

    async def show(self, record: Sequence[Turn]) -> None:
        """Show what was said, until it is painted."""
        await self._scroll.remove_children()
        await self._scroll.mount_all([widget for turn in record for widget in _widgets(turn)])
        self._scroll.anchor()
        await painted(self._app)

    async def say(self, text: str) -> None:
        """Let the model say a little more."""
        if self._stream is None:
            answer = Markdown()
            await self._scroll.mount(answer)
            self._stream = Markdown.get_stream(answer)
        await self._stream.write(text)

    async def finish(self) -> None:
        """Wait until all of it is to be seen."""
        if self._stream is not None:
            await self._stream.stop()
        await painted(self._app)

    async def page_up(self) -> None:
        """Scroll, until it is painted."""
        self._scroll.scroll_page_up(animate=False)
        await painted(self._app)


def _widgets(turn: Turn) -> list[Widget]:
    if turn.role == "user":
        return [Static(turn.text, markup=False)]
    if turn.answers is not None:
        return []
    heads = [Static(f"{call.name} {call.arguments[:60]}", markup=False) for call in turn.calls]
    return [Markdown(turn.text), *heads] if turn.text else [*heads]
