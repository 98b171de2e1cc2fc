"""Snapshots of the main screens, compared with reviewed ones.

`pytest tests/tui/app/test_snapshots.py --snapshot-update` updates them; review the changes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import pytest_textual_snapshot  # type: ignore[import-untyped] # it has no types
from textual.pilot import Pilot

from steno import ChatMessage, Conversation
from steno.agent.permissions.subjects import normalize_subject
from steno.agent.session_events import BranchChanged, PendingCallsChanged
from steno.app.approval_queue import PendingCall
from steno.app.commands.table import Suggestion
from steno.app.session_lookup import SessionSummary
from steno.messages.call import ToolCall
from steno.messages.content import Text, Thinking
from steno.messages.message import AssistantMessage, Message, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.ports import ApprovalRequest, CallPreview, Capability, PreviewKind, PreviewPart
from steno.ui.tui.start import create_app
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, opens_session
from tests.ui.tui.tree_app import alternating_messages, branch_off

pytestmark = pytest.mark.requirement("S4-15")
Compare = Callable[..., bool]
MOMENT: Final = datetime(2025, 3, 14, 9, 30, tzinfo=UTC)
DIFF: Final = """\
--- prices.py
+++ prices.py
@@ -3,3 +3,5 @@
 def mean(prices: list[float]) -> float:
-    return sum(prices) / len(prices)
+    if not prices:
+        return 0.0
+    return sum(prices) / len(prices)
"""
ANSWER: Final = """\
## Why it fails

`mean([])` divides by **zero**:

```python
return sum(prices) / len(prices)  # ZeroDivisionError
```

1. an empty list has no mean
2. so it has to be said what there is instead

| call | before | now |
|---|---|---|
| `mean([])` | error | `0.0` |
"""
READ: Final = ToolCall.create("read", {"path": "prices.py"}, id="c1")
EDIT: Final = ToolCall.create(
    "edit",
    {
        "path": "prices.py",
        "old": "    return sum(prices) / len(prices)\n",
        "new": "    if not prices:\n        return 0.0\n    return sum(prices) / len(prices)\n",
    },
    id="c2",
)
TEST: Final = ToolCall.create("bash", {"command": "pytest -q"}, id="c3")


def result(call: ToolCall, text: str, *, outcome: Outcome = Outcome.OK, **details: Any) -> Message:
    return ToolResultMessage(
        tool_call_id=call.id, content=(Text(text),), outcome=outcome, details=details or None
    )


def worked() -> list[Message]:
    """Return a conversation with every kind of item."""
    thought = Thinking("An empty list has no mean.")
    return [
        ChatMessage.user("Why does mean() fail\nwithout prices?"),
        AssistantMessage(content=(thought, READ)),
        result(READ, "1 def mean(prices: list[float]) -> float:\n2     return …"),
        ChatMessage.assistant("I mend it.", [EDIT]),
        result(EDIT, "changed prices.py", diff=DIFF),
        ChatMessage.assistant(None, [TEST]),
        result(TEST, "1 failed", outcome=Outcome.ERROR),
        ChatMessage.assistant(ANSWER),
    ]


def desk_with(*messages: Message) -> FakeSession:
    """Return a session with an old conversation."""
    session = FakeSession()
    session.conversation = Conversation(messages, now=lambda: MOMENT)
    return session


def branched() -> FakeSession:
    session = desk_with(
        *alternating_messages("how do I list files", "use `ls`", "and hidden ones", "use `ls -a`")
    )
    branch_off(
        session, "by-age", 1, alternating_messages("and by age", "use `ls -t`, the newest first")
    )
    return session


# -- scenes --------------------------------------------------------------------------------------


async def empty(user: ScreenUser, session: FakeSession) -> None:
    pass


async def conversation(user: ScreenUser, session: FakeSession) -> None:
    session.conversation = desk_with(*worked()).conversation
    session.happen(BranchChanged())
    await user.pilot.pause()
    user.app.transcript.scroll_end(animate=False)
    await user.until(lambda: user.app.transcript.is_at_end)


async def approval(user: ScreenUser, session: FakeSession) -> None:
    question = ApprovalRequest(
        call=EDIT,
        capability=Capability.WRITE,
        subjects=(normalize_subject("prices.py", Capability.WRITE),),
        preview=CallPreview((PreviewPart(PreviewKind.DIFF, DIFF),), ("path", "old", "new")),
        rule="edit(prices.py)",
    )
    session.pending_calls = [PendingCall(EDIT, question), PendingCall(TEST, None)]
    session.happen(PendingCallsChanged())
    await user.press("ctrl+g")
    await user.sees("permission")


async def tree(user: ScreenUser, session: FakeSession) -> None:
    session.conversation = branched().conversation
    await user.press("ctrl+t")
    await user.sees("2 branches")


async def compare(user: ScreenUser, session: FakeSession) -> None:
    await tree(user, session)
    await user.press("c")
    await user.sees("Compare")


async def sessions(user: ScreenUser, session: FakeSession) -> None:
    session.session_list.kept = [
        SessionSummary(
            "0198-session", "a test", 8, ("main",), MOMENT, "~/project", is_in_this_folder=True
        ),
        SessionSummary(
            "1",
            "Why does mean() fail without prices?",
            120,
            ("main", "fork-1", "fork-2"),
            MOMENT,
            "~/shop",
            is_in_this_folder=False,
        ),
        SessionSummary("2", "", 2, ("main",), None, None, is_in_this_folder=False),
    ]
    await user.enter("/resume")
    await user.sees("3 sessions")


async def completion(user: ScreenUser, session: FakeSession) -> None:
    session.candidates = [Suggestion("@src/", "", True), Suggestion("@src/prices.py", "python")]
    await user.type("look at @s")
    await user.sees("@src/prices.py")


async def pager(user: ScreenUser, session: FakeSession) -> None:
    await user.enter("/help")
    await user.until(lambda: len(user.app.screen_stack) == 2)
    await user.sees("Commands")


SCENES: Final = (empty, conversation, approval, tree, compare, sessions, completion, pager)


# -- pictures ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def pictures_that_fetch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove remote fonts from the snapshots."""
    normalize = pytest_textual_snapshot.normalize_svg

    def without_fonts(svg: str) -> str:
        assert svg.startswith("<svg"), "there is no picture"
        svg_text = re.sub(r"\s*@font-face \{.*?\}\n", "\n", normalize(svg), flags=re.DOTALL)
        return re.sub(r"\s*<!-- Generated with Rich .*? -->\n", "\n", svg_text)

    monkeypatch.setattr(pytest_textual_snapshot, "normalize_svg", without_fonts)


@pytest.mark.parametrize("size", [(100, 30), (60, 20)], ids=["wide", "narrow"])
@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_it_looks_as_it_did(
    snap_compare: Compare,
    scene: Callable[[ScreenUser, FakeSession], Awaitable[None]],
    theme: str,
    size: tuple[int, int],
) -> None:
    session = FakeSession()
    app = create_app(opens_session(session), theme=theme, clock=lambda: 0.0)  # no second passes

    async def steps(pilot: Pilot[int]) -> None:
        user = ScreenUser(app, pilot)
        await user.until(lambda: " ACT " in user.status)
        await scene(user, session)
        await user.hold_still()

    assert snap_compare(app, terminal_size=size, run_before=steps)
