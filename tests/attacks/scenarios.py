"""The part of an attack that uses steno, in a process of its own.

`run_calls` gives the calls of an attack to an agent as if a model made them, with an approver that
answers as a user would under an exact grant. `run_program` executes a program that uses the library.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import traceback
from pathlib import Path
from typing import Any, Final, final

from steno import ChatMessage, Conversation, ToolCall
from steno.agent import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    Gate,
    GrantScope,
    Permissions,
)
from steno.messages.message import ToolResultMessage
from steno.records import Approval, ApprovalStatus, Mode
from steno.store import MemoryStore
from steno.testing import ScriptedProvider
from steno.tools import CommandAccess, SandboxSetting, Toolbox, Workspace
from tests.attacks.catalog import Attack

SCRIPT: Final = "check.sh"
"""The program in the workspace that contains the command of an attack."""


class Outcome(dict[str, Any]):
    """What a scenario reports, as JSON: `text`, and for calls `asked`, `ran` and `last`."""


def run_calls(attack: Attack, work: Path, *, sandbox: str) -> Outcome:
    """Run the calls of an attack in an agent."""
    return asyncio.run(_run_agent(attack, work, sandbox=sandbox))


async def _run_agent(attack: Attack, work: Path, *, sandbox: str) -> Outcome:
    if attack.scenario == "command":
        # The approval is for a harmless name, like `make test`; the user cannot see what it does.
        (work / SCRIPT).write_text(f"{attack.command}\n", "utf-8")
        commands = [f"bash {SCRIPT}"]
    else:
        commands = [*attack.after, attack.command]
    rows = attack.calls or [{"tool": "bash", "command": command} for command in commands]
    calls = [
        ToolCall.create(
            row["tool"],
            {name: value for name, value in row.items() if name != "tool"},
            id=f"c{number}",
        )
        for number, row in enumerate(rows)
    ]
    approver = _User(attack)
    gate = Gate(
        Permissions.of(allow=attack.allow, deny=attack.deny),
        approver,
        grants=_Grants(),
        sign_text=lambda text: f"signed {hash(text)}",
    )
    store = MemoryStore()
    conversation: Conversation = store.new([ChatMessage.system("You work.")])
    conversation.change_mode(Mode(attack.mode))
    turns = [ChatMessage.assistant(None, [call]) for call in calls]
    async with Toolbox(
        Workspace(work),
        sandbox=choose_sandbox(sandbox, work),
        access=CommandAccess(network=attack.network),
    ) as toolbox:
        agent = Agent(
            ScriptedProvider([*turns, "I am done."]), conversation, tools=toolbox.tools, gate=gate
        )
        await agent.run("Do it.")
    results = {
        message.tool_call_id: message
        for message in conversation.messages()
        if isinstance(message, ToolResultMessage)
    }
    return Outcome(
        text="\n".join([_text_of(result) for result in results.values()]),
        asked=approver.asked,
        ran=[
            entry.payload.call_id
            for entry in conversation.entries()
            if isinstance(entry.payload, Approval)
            and entry.payload.status is ApprovalStatus.APPROVED
        ],
        last=calls[-1].id,
    )


def _text_of(result: ToolResultMessage) -> str:
    return f"{result.text}\n{json.dumps(dict(result.details or {}), default=repr)}"


def choose_sandbox(name: str, workspace: Path | None = None) -> Any:
    """Return the sandbox of a configuration, for a `Toolbox`. Raises LookupError if it is missing."""
    from steno.tools.shell.sandbox import find_working_sandboxes

    if name == "none":
        return SandboxSetting.OFF
    wanted = name.removesuffix("-alone")
    outside = () if workspace is None else (workspace.resolve(),)
    boxes = find_working_sandboxes(outside=outside)
    found = next((box for box in boxes if box.name == wanted), None)
    if found is None:
        raise LookupError(f"no {wanted} on this machine")
    return found


@final
class _User:
    """Answers as a person would who approves exactly the calls of the attack, each once."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self.asked: list[str] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        id = request.call.id
        is_first_time = id not in self.asked
        self.asked.append(id)
        match self._attack.approve:
            case _ if self._attack.scenario == "rule":
                number = int(id.removeprefix("c"))
                is_before = number < len(self._attack.after) and is_first_time
                scope = GrantScope(self._attack.scope)
                return ApprovalDecision(allowed=is_before, actor="ada", scope=scope)
            case "attack":
                return ApprovalDecision(allowed=is_first_time, actor="ada")
            case "first" if id == "c0" and is_first_time:
                scope = GrantScope(self._attack.scope)
                return ApprovalDecision(allowed=True, actor="ada", scope=scope)
            case _:
                return ApprovalDecision(allowed=False, actor="ada")


@final
class _Grants:
    """A store of grants in memory."""

    def __init__(self) -> None:
        self._rules: list[str] = []

    def rules(self) -> tuple[str, ...]:
        return tuple(self._rules)

    def add(self, rule: str, scope: GrantScope) -> None:
        self._rules.append(rule)


def run_program(code: str, *, sandbox: str) -> Outcome:
    """Execute a program; its output, and a traceback if it fails, are the text."""
    printed = io.StringIO()
    namespace: dict[str, Any] = {
        "__name__": "attack",
        "choose_sandbox": lambda: choose_sandbox(sandbox, Path.cwd()),
    }
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(code, "<attack>", "exec", dont_inherit=True), namespace)
        except BaseException:  # noqa: BLE001 - a bug in the data of an attack must be visible
            traceback.print_exc()
    return Outcome(text=printed.getvalue())


def report(outcome: Outcome, file: int) -> None:
    """Write an outcome to a pipe, as the last act of a process."""
    data = json.dumps(outcome).encode(errors="replace")
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(file, data) :]
