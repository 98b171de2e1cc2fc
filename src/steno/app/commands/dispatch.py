"""The dispatch of slash commands, and those that change the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, final

from msgspec import json

from steno.agent import EntryRecorded
from steno.app.active_run import ActiveRun
from steno.app.branch_tree import BranchTree
from steno.app.commands.audit import run_audit
from steno.app.commands.diff import run_diff
from steno.app.commands.export import run_export
from steno.app.commands.mcp import run_mcp
from steno.app.commands.model import change_mode, change_model
from steno.app.commands.permissions import run_permissions
from steno.app.commands.table import SLASH_COMMANDS
from steno.app.commands.usage import run_usage
from steno.app.session_list import SessionList
from steno.app.session_state import CommandContext, SessionState, explain_conflicts
from steno.app.settings import variable_name
from steno.app.settings_loader import LoadedSettings
from steno.errors import InvalidValue, Missing, StenoError
from steno.log.queries import last_message
from steno.messages.message import ToolResultMessage
from steno.providers.model_discovery import OFFLINE
from steno.records.entry import Compaction, Mode
from steno.render.items import TextForm
from steno.render.markdown_escape import escape_markdown, inline_code
from steno.render.session_events import CommandReply
from steno.render.terminal_text import terminal_line
from steno.suggest import suggest_name

SESSION_COMMANDS: Final[Mapping[str, Callable[[CommandContext, str], Awaitable[CommandReply]]]] = (
    MappingProxyType(
        {
            "audit": run_audit,
            "diff": run_diff,
            "export": run_export,
            "mcp": run_mcp,
            "usage": run_usage,
        }
    )
)
"""Commands that only read the context. They take the argument, and raise StenoError."""
TERMINAL_COMMANDS: Final = ("help", "quit", "tree")


def setting_hint(setting: str, value: str, loaded: LoadedSettings) -> str:
    """Return where to write down a setting of a terminal; only the user's own file has those."""
    variable = variable_name(setting)
    if variable in loaded.origins.get(setting, ()):  # which takes precedence over the file
        return f"{variable}={value} keeps it"
    if loaded.user_file is None:
        return f"{variable}={value} in your environment keeps it"
    quoted = json.encode(value).decode()
    return f"{setting} = {quoted} in {terminal_line(str(loaded.user_file))} keeps it"


def add_model_hint(loaded: LoadedSettings) -> str:
    """Return one line of Markdown about how to add a model."""
    user_file = loaded.user_file
    row_hint = (
        ""
        if user_file is None
        else f", or write `[providers.NAME]` to {inline_code(str(user_file))}"
    )
    return (
        "To add one, set a key such as `ANTHROPIC_API_KEY`, start a server such as Ollama"
        f"{row_hint}; `steno models` tells which are looked for."
    )


@final
class CommandDispatcher:
    """Runs slash commands."""

    def __init__(
        self,
        state: SessionState,
        active_run: ActiveRun,
        branches: BranchTree,
        session_list: SessionList,
    ) -> None:
        """Take the parts of a session that commands use."""
        self._state = state
        self._active_run = active_run
        self._branches = branches
        self._session_list = session_list
        self._handlers: Mapping[str, Callable[[str], Awaitable[CommandReply]]] = {
            "model": self._model,
            "mode": self._mode,
            "new": self._new,
            "resume": self._resume,
            "rename": self._rename,
            "fork": self._fork,
            "label": self._label,
            "retry": self._retry,
            "compact": self._compact,
            "permissions": self._permissions,
            "theme": self._theme,
        }

    async def run(self, name: str, argument: str) -> CommandReply:
        """Run a command. Raises StenoError, Missing for an unknown one."""
        if name in self._handlers:
            return await self._handlers[name](argument.strip())
        if name in SESSION_COMMANDS:
            return await SESSION_COMMANDS[name](self._state.command_context, argument.strip())
        if name in TERMINAL_COMMANDS:
            raise _terminal_only(name)
        hint = suggest_name(name, [command.name for command in SLASH_COMMANDS])
        raise Missing(f"there is no such command; {hint}", code="no_such_command", place=f"/{name}")

    async def _model(self, name: str) -> CommandReply:
        if not name:
            return CommandReply(add_model_hint(self._state.config.loaded_settings))
        return await change_model(self._state, name)

    async def _mode(self, name: str) -> CommandReply:
        if name:
            if name not in tuple(Mode):
                raise InvalidValue(
                    f"must be one of {', '.join(Mode)}", code="no_such_mode", place="/mode"
                )
            change_mode(self._state, Mode(name))
        return CommandReply(f"mode {inline_code(self._state.conversation.mode)}")

    async def _new(self, title: str) -> CommandReply:
        await self._session_list.new(title)
        return CommandReply("A new session begins with what you say next.")

    async def _resume(self, name: str) -> CommandReply:
        if not name:
            raise InvalidValue(
                "say which session: by its id, or last", code="session_not_named", place="/resume"
            )
        await self._session_list.resume(name)
        return CommandReply(f"Goes on with {inline_code(self._state.conversation.id)}.")

    async def _rename(self, title: str) -> CommandReply:
        await self._session_list.rename_current(title)
        return CommandReply(f"This session is called {escape_markdown(self._state.title)}.")

    async def _fork(self, name: str) -> CommandReply:
        return CommandReply(f"Goes on in the branch {inline_code(self._branches.fork(name))}.")

    async def _label(self, text: str) -> CommandReply:
        last = last_message(self._state.conversation.entries_view(), with_shell=True)
        if last is None:
            raise Missing("nothing has been said yet", code="empty_session", place="/label")
        self._branches.label(last.id, text)
        return CommandReply(f"The last message is called {escape_markdown(text)}.")

    async def _retry(self, _: str) -> CommandReply:
        conversation = self._state.conversation
        last = last_message(conversation.entries_view(), with_shell=True)
        is_open = bool(conversation.outstanding)
        await self._active_run.retry()
        # After a call nothing is sent again: the turn continues.
        continues = is_open or (last is not None and isinstance(last.payload, ToolResultMessage))
        return CommandReply("Goes on." if continues else "Tries again.")

    async def _compact(self, _: str) -> CommandReply:
        if self._state.environment.model_selection.vendor == OFFLINE:
            raise StenoError(
                "the offline assistant cannot sum up what was said; "
                "choose a model that can with /model",
                code="offline_model",
                place="/compact",
            )
        entry = await self._active_run.compact()
        if entry is None or not isinstance(entry.payload, Compaction):
            return CommandReply("Nothing was summed up.")
        return CommandReply(
            entry.payload.summary, "summary: this is what the model sees from here on"
        )

    async def _permissions(self, argument: str) -> CommandReply:
        state = self._state
        with explain_conflicts(state):
            return await run_permissions(
                state.command_context, argument, lambda entry: state.emit(EntryRecorded(entry))
            )

    async def _theme(self, name: str) -> CommandReply:
        if not name:
            raise _terminal_only("theme")
        return CommandReply(
            setting_hint("theme", name, self._state.config.loaded_settings), form=TextForm.PLAIN
        )


def _terminal_only(name: str) -> StenoError:
    return StenoError(
        "the terminal does this, and nobody else", code="terminal_only", place=f"/{name}"
    )
