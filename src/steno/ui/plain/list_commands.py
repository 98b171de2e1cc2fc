"""The commands `/model`, `/resume` and `/tree`, which write a list and take a choice from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias, final

from steno.agent import PromptInput
from steno.app.branch_tree import BranchTreeRow
from steno.app.session import AgentSession
from steno.app.session_list import SessionSummary
from steno.errors import InvalidValue, Missing
from steno.ids import utc_now
from steno.log.queries import searchable_text
from steno.render.quantities import format_age, format_count
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.ui.compare_state import CompareState
from steno.ui.plain.line_writer import LineWriter
from steno.ui.tree_state import entry_names

LIST_COMMAND_HINTS: Final = (
    ("/model 2", "take the second model of the list"),
    ("/resume 3", "go on with the third session of the list"),
    ("/resume find WORDS", "list the sessions that hold them"),
    ("/resume rename 3 TITLE", "give it another title"),
    ("/resume delete 3", "remove it for good, after a question"),
    ("/tree 12", "say all of entry 12"),
    ("/tree go NAME", "go over to a branch"),
    ("/tree fork 12 NAME", "begin a branch behind entry 12"),
    ("/tree label 12 NAME", "give it a name"),
    ("/tree edit 12", "say again what you said there, in a new branch"),
    ("/tree compare ONE OTHER", "say what two branches have of their own"),
)
"""The arguments that these commands take here."""
_MAX_LINE_WIDTH: Final = 100
Confirm: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the user a question, and returns whether the answer is yes."""


@final
class ListCommands:
    """Writes lists, and reads the user's choice from them."""

    def __init__(self, session: AgentSession, writer: LineWriter, confirm: Confirm) -> None:
        self._session = session
        self._writer = writer
        self._confirm = confirm
        self._models: list[str] = []
        self._sessions: list[SessionSummary] = []

    # -- models ------------------------------------------------------------------------------

    async def list_models(self) -> None:
        """Write the list of models."""
        models = await self._session.list_models()
        self._models = [model.text for model in models]
        current_model = self._session.status.model
        self._writer.write("Models", f"{len(models)}, {current_model} answers now")
        self._write_numbered([_describe(model.text, model.description) for model in models])

    def model_named(self, argument: str) -> str:
        """Return the model of a name, or of a number in the list."""
        number = _parse_number(argument, len(self._models))
        return argument if number is None else self._models[number]

    # -- sessions ----------------------------------------------------------------------------

    async def run_resume(self, argument: str) -> None:
        """List sessions; resume, rename or delete one."""
        word, _, rest = argument.partition(" ")
        if word in ("", "find"):
            await self._list_sessions(rest.strip())
        elif word == "rename":
            name, _, title = rest.strip().partition(" ")
            await self._session.session_list.rename(self._find_session_id(name), title.strip())
            self._writer.write("Session", f"it is called {title.strip()}")
        elif word == "delete":
            session = self._find_session_id(rest.strip())
            if await self._confirm(f"delete session {terminal_line(session)} for good?"):
                await self._session.session_list.delete(session)
                self._writer.write("Session", "deleted")
        else:
            await self._session.session_list.resume(self._find_session_id(argument))

    async def _list_sessions(self, search: str) -> None:
        self._sessions = list(await self._session.session_list.summaries(search))
        self._writer.write("Sessions", f"{len(self._sessions)}, the latest first")
        now = utc_now()
        self._write_numbered(
            [
                _describe(
                    summary.title or "no title",
                    f"{format_count(summary.entries, 'entry', 'entries')}, {format_age(summary.changed_at, now)}",
                    "" if summary.is_in_this_folder else summary.folder or "",
                    summary.snippet,
                )
                for summary in self._sessions
            ]
        )

    def _find_session_id(self, argument: str) -> str:
        if not argument:
            raise InvalidValue(
                "say which session, by its number in the list or its id",
                code="session_not_named",
                place="/resume",
            )
        number = _parse_number(argument, len(self._sessions))
        return argument if number is None else self._sessions[number].id

    # -- the tree ----------------------------------------------------------------------------

    async def run_tree(self, argument: str) -> PromptInput | None:
        """Write the tree, or move in it; return the prompt to edit, if that is requested."""
        word, _, rest = argument.partition(" ")
        name, _, text = rest.strip().partition(" ")
        branches = self._session.branches
        match word:
            case "":
                await self._write_tree()
            case "go":
                branches.switch(rest.strip())
            case "fork":
                branches.fork(text.strip(), at=(await self._find_row(name)).entry.id)
            case "label":
                branches.label((await self._find_row(name)).entry.id, text.strip())
                self._writer.write("Notice", "it has this name now")
            case "edit":
                return branches.fork_before((await self._find_row(name)).entry.id, text.strip())
            case "compare":
                await self._compare(name, text.strip())
            case _:
                row = await self._find_row(word)
                self._writer.write(
                    _row_head(row), searchable_text(row.entry).strip() or row.summary
                )
        return None

    async def _write_tree(self) -> None:
        rows = await self._session.branches.rows()
        shown = [row for row in rows if row.is_notable or row.labels or row.branches]
        names = self._session.branches.names()
        self._writer.write(
            "Tree",
            f"{format_count(len(rows), 'entry', 'entries')}, branches {', '.join(names)}; "
            f"here the {len(shown)} that matter most",
        )
        self._write_short(
            [f"{row.graph_prefix}{_row_head(row)}: {terminal_line(row.summary)}" for row in shown]
        )

    async def _find_row(self, number: str) -> BranchTreeRow:
        rows = await self._session.branches.rows()
        found = [row for row in rows if str(row.number) == number.removeprefix("#")]
        if not found:
            raise Missing(
                f"there is no entry {terminal_line(number)}; /tree lists them",
                code="entry_missing",
                place="/tree",
            )
        return found[0]

    async def _compare(self, left: str, right: str) -> None:
        names = self._session.branches.names()
        if left not in names or right not in names:
            raise Missing(
                f"name two of {', '.join(names)}", code="branches_not_named", place="/tree compare"
            )
        state = CompareState(self._session, await self._session.branches.rows(), left, right)
        self._writer.write("Both", format_count(state.shared, "entry", "entries"))
        for side, name in enumerate(state.names):
            rows = state.own_rows(side)
            self._writer.write(f"Only in {name}", format_count(len(rows), "entry", "entries"))
            self._write_short([f"{row.number}. {_row_summary(row)}" for row in rows])

    def _write_numbered(self, texts: Iterable[str]) -> None:
        self._write_short([f"{number}. {text}" for number, text in enumerate(texts, 1)])

    def _write_short(self, lines: Iterable[str]) -> None:
        self._writer.write_lines([truncate_to_width(line, _MAX_LINE_WIDTH) for line in lines])


def _parse_number(argument: str, count: int) -> int | None:
    """Return the index of a number in a list; ids may be digits, too, but are longer."""
    is_number = argument.isascii() and argument.isdigit() and not argument.startswith("0")
    return int(argument) - 1 if is_number and int(argument) <= count else None


def _describe(name: str, *facts: str) -> str:
    return ": ".join(
        filter(None, [terminal_line(name), ", ".join(map(terminal_line, filter(None, facts)))])
    )


def _row_head(row: BranchTreeRow) -> str:
    facts = [*([] if row.is_active else ["elsewhere"]), *entry_names(row)]
    return " ".join(
        [f"{row.number}.", terminal_line(row.kind), *([f"({', '.join(facts)})"] if facts else [])]
    )


def _row_summary(row: BranchTreeRow) -> str:
    # Text that does not fit need not be sanitized either.
    return terminal_line(f"{row.kind}: {row.summary[: 10 * _MAX_LINE_WIDTH]}")
