"""Slash commands: how they are run, and those that change the open session."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Final

import msgspec

from steno import app
from steno.app.commands.arguments import CommandParser, UsageError
from steno.app.commands.context import CommandContext, CommandDefinition, OpenBranch
from steno.app.commands.report import Paragraph, Report, code, text_report
from steno.app.commands.table import SLASH_COMMANDS_BY_NAME
from steno.app.settings import variable_name
from steno.errors import InvalidValue, Missing, StenoError
from steno.log.queries import last_message
from steno.messages.message import ToolResultMessage
from steno.providers.model_discovery import OFFLINE
from steno.records.entry import Compaction, Mode
from steno.render.items import TextForm
from steno.render.table_output import StyledText
from steno.render.terminal_text import terminal_json, terminal_line
from steno.suggest import suggest_name
from steno.values import replace_lone_surrogates

_HELP_OPTIONS: Final = frozenset({"-h", "--help"})
_ACTION_PLACES: Final = frozenset(
    {"", "session", "fork", "label", "rename", "redact", "rm", "rule", "revoke"}
)
"""The error places that `_name_command_in_errors` replaces with the name of the command."""


async def run_slash_command(context: CommandContext, name: str, text: str) -> Report:
    """Run a command with the text that was typed after its name.

    Raises Missing if the command is unknown, and StenoError if it fails.
    """
    with _name_command_in_errors(name):
        return await _run_command(context, name, text)


@contextmanager
def _name_command_in_errors(name: str) -> Generator[None]:
    """Begin errors with the command, as in `/rename: ...`, unless they name another place."""
    try:
        yield
    except StenoError as exc:
        if exc.place == name or exc.place in _ACTION_PLACES:
            exc.place = f"/{name}"
            exc.args = (f"{exc.place}: {exc.message}",)
        raise


async def _run_command(context: CommandContext, name: str, text: str) -> Report:
    command = SLASH_COMMANDS_BY_NAME.get(name)
    if command is None:
        hint = suggest_name(f"/{name}", [f"/{known}" for known in SLASH_COMMANDS_BY_NAME])
        raise Missing(f"unknown command; {hint}", code="no_such_command", place=f"/{name}")
    if command.is_interface:
        raise _terminal_only(name)
    if text.strip() and not command.argument:
        raise UsageError("this command has no argument", code="no_argument", place=f"/{name}")
    definition = command.load()
    parser = CommandParser(prog=f"/{name}", add_help=False, epilog=definition.epilog)
    definition.add_to(parser, in_terminal=True)
    arguments = definition.split(text.strip())
    if _HELP_OPTIONS.intersection(arguments):
        return text_report(parser.parser_for(arguments).format_help(), f"/{name}", TextForm.PLAIN)
    options = parser.parse_args(arguments)
    state = context.open_session.state
    await state.open_store()
    conversation = state.conversation
    branch = OpenBranch(
        conversation.id,
        conversation.branch,
        conversation.entries_view(),
        state.environment.target.context_tokens,
    )
    context = context._replace(branch=branch)
    run = partial(definition.run, context, options)
    is_async = iscoroutinefunction(definition.run)
    result: Report | Awaitable[Report] = run() if is_async else await asyncio.to_thread(run)
    report = result if isinstance(result, Report) else await result
    if not vars(options).get("json"):
        return report
    lines = [terminal_json(msgspec.json.encode(value)).decode() for value in report.data]
    return text_report("\n".join(lines), report.title, TextForm.PLAIN)


def _terminal_only(name: str) -> StenoError:
    """Return the error for a command that only an interface itself can run."""
    return StenoError(
        "this command works only in a terminal", code="terminal_only", place=f"/{name}"
    )


def _sentence(*pieces: StyledText) -> Report:
    return Report([Paragraph(*pieces)])


# -- model and mode --------------------------------------------------------------------------


async def _run_model(session: app.AgentSession, name: str) -> Report:
    if name:
        return await session.change_model(name)
    user_file = session.state.config.loaded_settings.user_file
    row_hint = (
        ()
        if user_file is None
        else (", or add ", code("[providers.NAME]"), " to ", code(str(user_file)))
    )
    return _sentence(
        "To add a model, set a key such as ",
        code("ANTHROPIC_API_KEY"),
        ", start a server such as Ollama",
        *row_hint,
        ". ",
        code("steno models"),
        " lists all providers.",
    )


async def _run_mode(session: app.AgentSession, name: str) -> Report:
    if name:
        if name not in tuple(Mode):
            raise InvalidValue(
                f"must be one of {', '.join(Mode)}", code="no_such_mode", place="/mode"
            )
        session.change_mode(Mode(name))
    return _sentence("The mode is ", code(session.state.conversation.mode), ".")


# -- sessions and branches -------------------------------------------------------------------


async def _run_new(session: app.AgentSession, title: str) -> Report:
    await session.session_list.new(title)
    return _sentence("The next prompt starts a new session.")


async def _run_resume(session: app.AgentSession, name: str) -> Report:
    if not name:
        raise InvalidValue(
            "name a session: its ID, a prefix of its ID, or last",
            code="session_not_named",
            place="/resume",
        )
    await session.session_list.resume(name)
    return _sentence("Resumed session ", code(session.state.conversation.id), ".")


async def _run_rename(session: app.AgentSession, title: str) -> Report:
    await session.session_list.rename_current(title)
    return _sentence(f"This session has the title {session.state.title}.")


async def _run_fork(session: app.AgentSession, name: str) -> Report:
    return _sentence("Switched to the new branch ", code(session.branches.fork(name)), ".")


async def _run_label(session: app.AgentSession, text: str) -> Report:
    last = last_message(session.state.conversation.entries_view(), with_shell=True)
    if last is None:
        raise Missing("there is no message to label", code="empty_session", place="/label")
    session.branches.label(last.id, text)
    return _sentence(f"The last message has the label {text}.")


# -- runs ------------------------------------------------------------------------------------


async def _run_retry(session: app.AgentSession, _: str) -> Report:
    conversation = session.state.conversation
    last = last_message(conversation.entries_view(), with_shell=True)
    is_open = bool(conversation.outstanding)
    await session.retry()
    # After a call nothing is sent again: the turn continues.
    continues = is_open or (last is not None and isinstance(last.payload, ToolResultMessage))
    return _sentence("Continuing." if continues else "Retrying.")


async def _run_compact(session: app.AgentSession, _: str) -> Report:
    if session.state.environment.model_selection.vendor == OFFLINE:
        raise StenoError(
            "the offline assistant cannot summarise; choose another model with /model",
            code="offline_model",
            place="/compact",
        )
    entry = await session.active_run.compact()
    if entry is None or not isinstance(entry.payload, Compaction):
        return _sentence("Nothing was summarised.")
    return text_report(entry.payload.summary, "Summary, which the model receives from here on")


async def _run_clear(session: app.AgentSession, _: str) -> Report:
    if not session.clear_context():
        return _sentence("The context is already empty.")
    return _sentence(
        "The context is empty. The session keeps all messages; to continue from one of them, "
        "fork it in ",
        code("/tree"),
        ".",
    )


async def _run_theme(session: app.AgentSession, name: str) -> Report:
    """Return how to store a theme in the settings; the terminal has already applied it."""
    if not name:
        raise _terminal_only("theme")
    loaded, variable = session.state.config.loaded_settings, variable_name("theme")
    if variable in loaded.origins.get("theme", ()):  # which takes precedence over the file
        hint = f"to keep it, set {variable}={name}"
    elif loaded.user_file is None:
        hint = f"to keep it, set {variable}={name} in your environment"
    else:  # only the user's own file has settings of a terminal
        user_file = terminal_line(str(loaded.user_file))
        value = msgspec.json.encode(replace_lone_surrogates(name)).decode()
        hint = f"to keep it, add theme = {value} to {user_file}"
    return text_report(hint, form=TextForm.PLAIN)


def _session_command(
    run: Callable[[app.AgentSession, str], Awaitable[Report]],
) -> CommandDefinition:
    async def run_with_text(context: CommandContext, options: argparse.Namespace) -> Report:
        return await run(context.open_session, options.text)

    return CommandDefinition(run_with_text)


SESSION_COMMANDS: Final[Mapping[str, CommandDefinition]] = MappingProxyType(
    {
        "model": _session_command(_run_model),
        "mode": _session_command(_run_mode),
        "new": _session_command(_run_new),
        "resume": _session_command(_run_resume),
        "rename": _session_command(_run_rename),
        "fork": _session_command(_run_fork),
        "label": _session_command(_run_label),
        "retry": _session_command(_run_retry),
        "compact": _session_command(_run_compact),
        "clear": _session_command(_run_clear),
        "theme": _session_command(_run_theme),
    }
)
"""The commands of this module, by name; each takes any text as its argument."""
