"""The same with the widgets of Textual: one widget per message, in a container.

A call and its result are one line, like a folded call in steno.
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
        yield Static("status")

    def on_mount(self) -> None:
        self.call_after_refresh(self.run_worker, self._play())

    async def _play(self) -> None:
        await self._act(self._own)
        self.exit()


class Textual:
    """The operations of the benchmark on the widgets."""

    def __init__(self, act: Act) -> None:
        self._app = _Chat(act, self)
        self._stream: MarkdownStream | None = None

    def run(self) -> None:
        """Run the plan, and quit."""
        self._app.run()

    @property
    def _scroll(self) -> VerticalScroll:
        return self._app.query_one(VerticalScroll)

    @property
    def drawn(self) -> None:
        """None: Textual does not count drawings."""
        return

    def prepare(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return the argument of `show`."""
        return turns

    async def show(self, record: Sequence[Turn]) -> None:
        """Show messages, and wait until they are painted."""
        await self._scroll.remove_children()
        await self._scroll.mount_all([widget for turn in record for widget in _widgets(turn)])
        self._scroll.anchor()
        await painted(self._app)

    async def stream(self, text: str) -> None:
        """Stream a piece of the answer."""
        if self._stream is None:
            answer = Markdown()
            await self._scroll.mount(answer)
            self._stream = Markdown.get_stream(answer)
        await self._stream.write(text)

    async def finish(self) -> None:
        """Wait until the whole answer is visible."""
        if self._stream is not None:
            await self._stream.stop()
        await painted(self._app)

    async def page_up(self) -> None:
        """Scroll, and wait until the screen is painted."""
        self._scroll.scroll_page_up(animate=False)
        await painted(self._app)


def _widgets(turn: Turn) -> list[Widget]:
    if turn.role == "user":
        return [Static(turn.text, markup=False)]
    if turn.answers is not None:
        return []
    heads = [Static(f"{call.name} {call.arguments[:60]}", markup=False) for call in turn.calls]
    return [Markdown(turn.text), *heads] if turn.text else [*heads]
