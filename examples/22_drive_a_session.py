"""Run a session from your own interface: decide about calls, interrupt a run, read the log.

The interfaces of steno work in this way. The offline assistant needs no model and no network.
"""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from steno.agent import CallEnded, CallStarted, PromptInput, RunEnded
from steno.app import AgentSession, PendingCallsChanged, SessionEvent, SessionStart, load_settings
from steno.ports import ApprovalDecision


class Interface:
    """A small interface: it prints events, denies `rm` and interrupts `sleep`."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        session.subscribe(self.on_event)

    def on_event(self, event: SessionEvent) -> None:
        """Print an event, decide about pending calls, and interrupt a slow command."""
        match event:
            case PendingCallsChanged():
                for pending in self.session.pending_calls:
                    if pending.request is None:  # it waits for another call
                        continue
                    arguments, allowed = pending.call.arguments, "rm" not in pending.call.arguments
                    print("  approval:", arguments, "allowed" if allowed else "denied")
                    decision = ApprovalDecision(allowed=allowed, actor=self.session.actor)
                    self.session.decide(pending.call.id, decision)
            case CallStarted(call) if "sleep" in call.arguments:
                print("  interrupt:", call.arguments)
                self.session.interrupt()
            case CallEnded(call, result):
                print("  result:", call.name, result.outcome)
            case RunEnded(result):
                print("  end:", result.end_reason)
            case _:
                pass


async def main(folder: Path) -> None:
    settings = load_settings(folder, flags={"model": "offline", "sandbox": "off"})
    async with AgentSession.open(settings, SessionStart(folder), is_persistent=False) as session:
        Interface(session)
        for prompt in ("read notes.txt", "run rm notes.txt", "run sleep 60"):
            print(prompt)
            await session.send(PromptInput(prompt))
            await session.wait()
        print("recorded:", len(session.entries()), "entries, mode", session.status.mode)


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        os.environ["HOME"] = home  # ignore the settings and grants of the user
        Path(home, "notes.txt").write_text("ship on Friday\n")
        asyncio.run(main(Path(home)))
