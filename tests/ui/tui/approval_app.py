"""A small app around an approval panel, and calls to decide about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, Static

from steno.agent.permissions.subjects import normalize_subject
from steno.agent.session_events import SessionEvent
from steno.app.approval_queue import PendingCall
from steno.messages.call import ToolCall
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
)
from steno.ui.tui.screens.approval_panel import ApprovalPanel
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import ManualClock

LONG_ENOUGH_S = 1.0
"""After which a key is neither too soon nor part of a word."""


class ApprovalApp(App[None]):
    """A transcript, the panel and a prompt, composed as in the full screen."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "#transcript { height: 1fr; min-height: 4; } Input#prompt { height: 3; }"

    def __init__(self, *pending: PendingCall, session: FakeSession | None = None) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.session = session or FakeSession()
        self.idle_s = 0.0
        """For how long nobody has typed in the prompt."""
        self.notices: list[str] = []
        """What was said about rules that are kept."""
        self.panel = ApprovalPanel(
            self.session, idle_s=lambda: self.idle_s, now=self.clock, on_notice=self.notices.append
        )
        self.prompt = Input(id="prompt")
        self.session.pending_calls = list(pending)
        self.session.subscribe(self._watch)

    def compose(self) -> ComposeResult:
        yield Static("the conversation", id="transcript")
        yield self.panel
        yield self.prompt
        yield Static("the status line", id="status")

    def on_mount(self) -> None:
        self.prompt.focus()
        self.panel.show_pending(self.session.pending_calls)

    def on_approval_panel_dismissed(self) -> None:
        self.prompt.focus()

    def _watch(self, event: SessionEvent) -> None:
        self.panel.show_pending(self.session.pending_calls)

    # -- for tests ---------------------------------------------------------------------------

    def ask(self, *pending: PendingCall) -> None:
        """Set the pending calls."""
        self.session.pending_calls = list(pending)
        self.panel.show_pending(self.session.pending_calls)

    @property
    def decisions(self) -> list[tuple[str, ApprovalDecision]]:
        return [(asked[1], asked[2]) for asked in self.session.asked if asked[0] == "decide"]

    @property
    def seen(self) -> str:
        """The text on the screen."""
        strips = self.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def press(self, pilot: Pilot[Any], *keys: str, apart_s: float = LONG_ENOUGH_S) -> None:
        """Press keys, each after a pause."""
        for key in keys:
            self.clock.now += apart_s
            await pilot.press(key)
        await pilot.pause()

    async def come_here(self, pilot: Pilot[Any]) -> None:
        """Focus the panel, after a pause."""
        self.panel.focus()
        await pilot.pause()
        self.clock.now += LONG_ENOUGH_S


GIT_LOG_PREVIEW = CallPreview(
    (
        PreviewPart(PreviewKind.TEXT, "git log -1"),
        PreviewPart(PreviewKind.NOTE, "in ~/project · at most 120 s"),
    ),
    shown_arguments=("command",),
)


def pending_call(
    id: str = "call_1",
    name: str = "bash",
    *,
    arguments: dict[str, object] | None = None,
    capability: Capability = Capability.EXECUTE,
    subjects: tuple[str, ...] = ("git log -1",),
    preview: str | CallPreview = GIT_LOG_PREVIEW,
    rule: str = "bash(git log -*)",
) -> PendingCall:
    """Return a call with a request."""
    arguments = arguments or {"command": "git log -1"}
    call = ToolCall.create(name, arguments, id=id)
    if isinstance(preview, str):
        shown = [name for name, value in arguments.items() if value == preview]
        preview = (
            CallPreview.of(preview, shown_arguments=tuple(shown)) if preview else CallPreview()
        )
    # In a sandbox, so that a rule for several commands counts.
    found = tuple(
        [replace(normalize_subject(each, capability), is_confined=True) for each in subjects]
    )
    question = ApprovalRequest(
        call=call, capability=capability, subjects=found, preview=preview, rule=rule
    )
    return PendingCall(call, question)


def queued_call(
    id: str, name: str = "write", arguments: dict[str, object] | None = None
) -> PendingCall:
    """Return a call that is queued after another."""
    return PendingCall(ToolCall.create(name, arguments or {"path": f"{id}.py"}, id=id), None)


Play = Callable[[ApprovalApp, Pilot[Any]], Awaitable[None]]


def run_steps(app: ApprovalApp, steps: Play, size: tuple[int, int] = (100, 30)) -> None:
    """Run steps on a screen of a given size."""

    async def run() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())
