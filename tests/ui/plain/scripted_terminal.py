"""A program for tests at a terminal: the plain mode with a scripted session.

`ask` requests an approval, `work` runs until it is interrupted, `read` is prepared until it is
interrupted, and any other text is answered. The requests to the session are printed at the end.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from decimal import Decimal
from pathlib import Path

from steno.agent import PromptInput
from steno.agent.events import EndReason, Notice, NoticeKind, RunEnded, RunResult
from steno.agent.session_events import PendingCallsChanged
from steno.app.approval_queue import PendingCall
from steno.app.commands.table import Suggestion
from steno.errors import StenoError
from steno.messages.call import ToolCall
from steno.messages.event import TextDelta
from steno.messages.usage import Usage
from steno.ports import ApprovalDecision, ApprovalRequest, Capability
from steno.ui.plain.session import run_plain
from tests.ui.fake_session import FakeSession


class RespondingSession(FakeSession):
    """A session that responds to prompts by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupted = asyncio.Event()

    async def send(self, prompt: PromptInput) -> None:
        await super().send(prompt)
        if self.is_running:
            return
        if prompt.text == "read":
            self.happen(Notice(NoticeKind.INPUT, "reading", "progress"))
            await self.interrupted.wait()
            raise StenoError("interrupted before it began")
        self.is_running = True
        if prompt.text == "ask":
            call = ToolCall.create("bash", {"command": "git log"}, id="c1")
            question = ApprovalRequest(
                call=call, capability=Capability.EXECUTE, rule="bash(git log -*)"
            )
            self.pending_calls = [PendingCall(call, question)]
            self.happen(PendingCallsChanged())
        elif prompt.text == "work":
            self.happen(TextDelta(0, "working\n"))
        else:
            self.happen(TextDelta(0, f"about {prompt.text}"))
            self.end(EndReason.DONE)

    def end(self, ending: EndReason) -> None:
        self.is_running = False
        usage = Usage(input_tokens=1_000, output_tokens=234)
        self.happen(RunEnded(RunResult(ending, None, 1, usage, Decimal("0.01"))))

    def interrupt(self) -> None:
        super().interrupt()
        self.pending_calls = []
        self.interrupted.set()
        if self.is_running:
            self.end(EndReason.INTERRUPTED)

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        super().decide(call_id, decision)
        self.end(EndReason.DONE)


async def main() -> int:
    session = RespondingSession()
    session.candidates = [Suggestion("@README.md"), Suggestion("@src/", expects_more=True)]
    history = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    task = asyncio.create_task(run_plain(session, history=history))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        status = await task
    except asyncio.CancelledError:
        sys.stdout.write("CANCELLED\n")
        return 0
    for asked in session.asked:
        sys.stdout.write(f"ASKED {' '.join(map(repr, asked))}\n")
    return status


if __name__ == "__main__":
    ended = asyncio.run(main())
    sys.stdout.write(f"LEFT {ended}\n")
