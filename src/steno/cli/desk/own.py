"""The commands that change what happens at the desk; what only looks is in `replies`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

from steno.agent import Recorded
from steno.cli.desk.bench import Bench
from steno.cli.desk.boughs import Boughs
from steno.cli.desk.markdown_words import code, escaped
from steno.cli.desk.overtaken import unless_overtaken
from steno.cli.desk.permitted import permissions
from steno.cli.desk.replies import REPLIES
from steno.cli.desk.settling import how_to_add_a_model, how_to_keep
from steno.cli.desk.shelved import Shelved
from steno.cli.desk.switching import change_mode, change_model
from steno.cli.desk.working import Work
from steno.cli.nearest import advice
from steno.entry import Compaction, Entry, Mode
from steno.errors import InvalidValue, Missing, StenoError
from steno.message import ToolResultMessage
from steno.providers.looking import OFFLINE
from steno.tui.block import Form
from steno.tui.commands import COMMANDS
from steno.tui.desk import Reply

_OF_THE_TERMINAL: Final = ("help", "quit", "theme", "tree")


@final
class OwnCommands:
    """Does what a person types behind a slash."""

    def __init__(self, bench: Bench, work: Work, boughs: Boughs, shelved: Shelved) -> None:
        """Take everything that can be asked for something."""
        self._state = bench
        self._active_run = work
        self._branches = boughs
        self._session_list = shelved
        self._handlers: Mapping[str, Callable[[str], Awaitable[Reply]]] = {
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

    async def run(self, name: str, argument: str) -> Reply:
        """Do what a command asks for. Raises StenoError, Missing for one that there is not."""
        if name in self._handlers:
            return await self._handlers[name](argument.strip())
        if name in REPLIES:
            return await REPLIES[name](self._state.command_context, argument.strip())
        if name in _OF_THE_TERMINAL:
            raise _of_the_terminal(name)
        near = advice(name, [command.name for command in COMMANDS])
        raise Missing(f"/{name}: there is no such command; {near}")

    async def _model(self, name: str) -> Reply:
        if not name:
            return Reply(how_to_add_a_model(self._state.config.loaded_settings))
        return await change_model(self._state, name)

    async def _mode(self, name: str) -> Reply:
        if name:
            if name not in tuple(Mode):
                raise InvalidValue(f"/mode: must be one of {', '.join(Mode)}")
            change_mode(self._state, Mode(name))
        return Reply(f"mode {code(self._state.conversation.mode)}")

    async def _new(self, title: str) -> Reply:
        await self._session_list.new(title)
        return Reply("A new session begins with what you say next.")

    async def _resume(self, name: str) -> Reply:
        if not name:
            raise InvalidValue("/resume: say which session: by its id, or last")
        await self._session_list.resume(name)
        return Reply(f"Goes on with {code(self._state.conversation.id)}.")

    async def _rename(self, title: str) -> Reply:
        await self._session_list.rename_current(title)
        return Reply(f"This session is called {escaped(self._state.title)}.")

    async def _fork(self, name: str) -> Reply:
        return Reply(f"Goes on in the branch {code(self._branches.fork(name))}.")

    async def _label(self, text: str) -> Reply:
        last = self._last_message()
        if last is None:
            raise Missing("/label: nothing has been said yet")
        self._branches.label(last.id, text)
        return Reply(f"The last message is called {escaped(text)}.")

    def _last_message(self) -> Entry | None:
        said = reversed(self._state.conversation.entries_view())
        return next((entry for entry in said if entry.message is not None), None)

    async def _retry(self, _: str) -> Reply:
        last, is_open = self._last_message(), bool(self._state.conversation.outstanding)
        await self._active_run.retry()
        # Behind a call nothing is said again: what was begun goes on.
        goes_on = is_open or (last is not None and isinstance(last.payload, ToolResultMessage))
        return Reply("Goes on." if goes_on else "Tries again.")

    async def _compact(self, _: str) -> Reply:
        if self._state.environment.model_selection.vendor == OFFLINE:
            raise StenoError(
                "/compact: the offline assistant cannot sum up what was said; "
                "choose a model that can with /model"
            )
        entry = await self._active_run.compact()
        if entry is None or not isinstance(entry.payload, Compaction):
            return Reply("Nothing was summed up.")
        return Reply(entry.payload.summary, "summary: this is what the model sees from here on")

    async def _permissions(self, argument: str) -> Reply:
        bench = self._state
        with unless_overtaken(bench):
            return await permissions(bench.command_context, argument, lambda one: bench.emit(Recorded(one)))

    async def _theme(self, name: str) -> Reply:
        if not name:
            raise _of_the_terminal("theme")
        return Reply(how_to_keep("theme", name, self._state.config.loaded_settings), form=Form.PLAIN)


def _of_the_terminal(name: str) -> StenoError:
    return StenoError(f"/{name}: the terminal does this, and nobody else")
