"""What the full screen has windows for, as numbered lists: models, sessions, the tree.

`/resume` lists, and `/resume 3` takes what stood there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

from steno.entry import Entry
from steno.errors import InvalidValue, Missing
from steno.identity import utc_now
from steno.message import UserMessage
from steno.printable import age, counted, cut, on_one_line
from steno.tui.desk import Desk, Kept, Twig, Words
from steno.tui.plain.voice import Voice
from steno.tui.screens.comparing import compare
from steno.tui.screens.entry_words import names_at
from steno.views import text_of

HINTS: Final = (
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
"""What may stand behind these commands here, and what it does."""
_LONGEST: Final = 100

Confirm: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks whether something is meant."""


@final
class Lists:
    """Says lists, and takes what is chosen from them."""

    def __init__(self, desk: Desk, voice: Voice, confirm: Confirm) -> None:
        """Take whoever asks whether something is meant."""
        self._desk = desk
        self._voice = voice
        self._confirm = confirm
        self._models: list[str] = []
        self._sessions: list[Kept] = []

    # -- models ------------------------------------------------------------------------------

    async def list_models(self) -> None:
        """Say which models there are."""
        found = await self._desk.models()
        self._models = [one.text for one in found]
        now = self._desk.standing.model
        self._voice.say("Models", f"{len(found)}, {now} answers now")
        self._number([_about(one.text, one.about) for one in found])

    def model_named(self, argument: str) -> str:
        """Return the model that is meant by a name, or by a number of the list."""
        number = _number_in(argument, len(self._models))
        return argument if number is None else self._models[number]

    # -- sessions ----------------------------------------------------------------------------

    async def sessions(self, argument: str) -> None:
        """List sessions, go on with one, rename or delete one."""
        word, _, rest = argument.partition(" ")
        if word in ("", "find"):
            await self._list_sessions(rest.strip())
        elif word == "rename":
            name, _, title = rest.strip().partition(" ")
            await self._desk.shelf.rename(self._session(name), title.strip())
            self._voice.say("Session", f"it is called {title.strip()}")
        elif word == "delete":
            session = self._session(rest.strip())
            if await self._confirm(f"delete session {on_one_line(session)} for good?"):
                await self._desk.shelf.delete(session)
                self._voice.say("Session", "deleted")
        else:
            await self._desk.shelf.resume(self._session(argument))

    async def _list_sessions(self, search: str) -> None:
        self._sessions = list(await self._desk.shelf.sessions(search))
        self._voice.say("Sessions", f"{len(self._sessions)}, the latest first")
        now = utc_now()
        self._number(
            [
                _about(
                    one.title or "no title",
                    f"{counted(one.entries, 'entry', 'entries')}, {age(one.changed_at, now)}",
                    "" if one.is_here else one.folder or "",
                    one.snippet,
                )
                for one in self._sessions
            ]
        )

    def _session(self, argument: str) -> str:
        if not argument:
            raise InvalidValue("/resume: say which session, by its number in the list or its id")
        number = _number_in(argument, len(self._sessions))
        return argument if number is None else self._sessions[number].id

    # -- the tree ----------------------------------------------------------------------------

    async def tree(self, argument: str) -> Words | None:
        """Say the tree, or move in it; return what is to be said otherwise, where that is asked."""
        word, _, rest = argument.partition(" ")
        name, _, text = rest.strip().partition(" ")
        branches = self._desk.branches
        match word:
            case "":
                await self._draw()
            case "go":
                branches.switch(rest.strip())
            case "fork":
                branches.fork(text.strip(), at=(await self._twig(name)).entry.id)
            case "label":
                branches.label((await self._twig(name)).entry.id, text.strip())
                self._voice.say("Notice", "it has this name now")
            case "edit":
                twig = await self._twig(name)
                if not isinstance(twig.entry.payload, UserMessage):
                    raise InvalidValue("/tree edit: only what you said can be said otherwise")
                return branches.fork_before(twig.entry.id, text.strip())
            case "compare":
                await self._compare(name, text.strip())
            case _:
                twig = await self._twig(word)
                self._voice.say(_head(twig), text_of(twig.entry).strip() or twig.gist)
        return None

    async def _draw(self) -> None:
        twigs = await self._desk.branches.twigs()
        shown = [one for one in twigs if one.is_remarkable or one.labels or one.branches]
        names = self._desk.branches.names()
        self._voice.say(
            "Tree",
            f"{counted(len(twigs), 'entry', 'entries')}, branches {', '.join(names)}; "
            f"here the {len(shown)} that matter most",
        )
        self._voice.more(
            [cut(f"{one.rails}{_head(one)}: {on_one_line(one.gist)}", _LONGEST) for one in shown]
        )

    async def _twig(self, number: str) -> Twig:
        twigs = await self._desk.branches.twigs()
        found = [one for one in twigs if str(one.number) == number.removeprefix("#")]
        if not found:
            raise Missing(f"/tree: there is no entry {on_one_line(number)}; /tree lists them")
        return found[0]

    async def _compare(self, one: str, other: str) -> None:
        names = self._desk.branches.names()
        if one not in names or other not in names:
            raise Missing(f"/tree compare: name two of {', '.join(names)}")
        twigs = {twig.entry.id: twig for twig in await self._desk.branches.twigs()}
        compared = compare(self._desk.entries(one), self._desk.entries(other))
        self._voice.say("Both", counted(compared.shared, "entry", "entries"))
        for name, entries in (
            (one, [row.left for row in compared.rows if row.left is not None]),
            (other, [row.right for row in compared.rows if row.right is not None]),
        ):
            self._voice.say(f"Only in {name}", counted(len(entries), "entry", "entries"))
            self._voice.more([cut(_line(twigs, entry), _LONGEST) for entry in entries])

    def _number(self, texts: Sequence[str]) -> None:
        self._voice.more([cut(f"{place}. {text}", _LONGEST) for place, text in enumerate(texts, 1)])


def _number_in(argument: str, count: int) -> int | None:
    """Return which of so many is meant, from 0; ids may be digits, too, but are longer."""
    is_number = argument.isascii() and argument.isdigit() and not argument.startswith("0")
    return int(argument) - 1 if is_number and int(argument) <= count else None


def _about(name: str, *facts: str) -> str:
    return ": ".join(
        filter(None, [on_one_line(name), ", ".join(map(on_one_line, filter(None, facts)))])
    )


def _head(twig: Twig) -> str:
    facts = [*([] if twig.is_active else ["elsewhere"]), *names_at(twig)]
    return " ".join(
        [f"{twig.number}.", on_one_line(twig.kind), *([f"({', '.join(facts)})"] if facts else [])]
    )


def _line(twigs: Mapping[str, Twig], entry: Entry) -> str:
    """Return an entry on a line, as the tree numbers it. Raises Missing."""
    twig = twigs.get(entry.id)
    if twig is None:
        raise Missing("/tree compare: the record has changed meanwhile; try again")
    return f"{twig.number}. {on_one_line(f'{twig.kind}: {twig.gist[: 10 * _LONGEST]}')}"
