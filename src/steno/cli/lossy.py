"""What an exported file does not say: a line for each kind of loss, or all of it for a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from steno.cli.log import Log
from steno.entry import Entry
from steno.formats import Loss
from steno.printable import counted, on_one_line

_PLACE: Final = re.compile(r"entries\[(\d+)\]")
_LEFT_OUT: Final = "left out: "
_BETWEEN_NAMES: Final = re.compile(r", (?![^(]*\))")
_POSITION: Final = re.compile(r"\[\d+\]")
_MOST_NUMBERS: Final = 5


class Located(NamedTuple):
    """A loss, and the entry that it is about; None where that is the whole session."""

    loss: Loss
    entry: Entry | None


def located(losses: Iterable[Loss], path: Sequence[Entry]) -> list[Located]:
    """Find the entries of an exported branch that losses are about."""
    found: list[Located] = []
    for loss in losses:
        place = _PLACE.fullmatch(loss.place)
        found.append(Located(loss, None if place is None else path[int(place[1])]))
    return found


def summary_of(losses: Iterable[Located], log: Log) -> Iterator[str]:
    """Return a line for each kind of loss, with how often and where it is met."""
    kinds: dict[str, dict[str, None]] = {}
    for loss, entry in losses:
        if entry is None:
            yield on_one_line(str(loss))
        else:
            for kind in _kinds_of(loss):
                kinds.setdefault(kind, {})[log.number(entry.id)] = None
    for kind, numbers in kinds.items():
        shown = [*list(numbers)[:_MOST_NUMBERS], *(["…"] if len(numbers) > _MOST_NUMBERS else [])]
        entries = counted(len(numbers), "entry", "entries")
        yield on_one_line(f"{kind} ({entries}: {', '.join(shown)})")


def _kinds_of(loss: Loss) -> list[str]:
    """Return what is lost of an entry, wherever in it that stands."""
    if not loss.what.startswith(_LEFT_OUT):
        return [loss.what]
    names = _BETWEEN_NAMES.split(loss.what.removeprefix(_LEFT_OUT))
    return [f"{_POSITION.sub('', name)}: left out" for name in names]


def report_of(losses: Iterable[Located], log: Log) -> bytes:
    """Return all losses as a JSON array."""
    report = [
        {
            "number": None if entry is None else log.numbers[entry.id],
            "entry": None if entry is None else entry.id,
            "place": loss.place,
            "what": loss.what,
        }
        for loss, entry in losses
    ]
    return msgspec.json.encode(report)
