"""What was found: one line for each comparison, with the goal it has to meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.harness import Timing

Unit = Literal["s", "B"]

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((1e6, "MB"), (1e3, "KB"), (1.0, "B"))


@dataclass(frozen=True)
class Finding:
    """Steno beside one peer (or beside nobody), in one work."""

    work: str
    ours: Timing | str
    """A measured cost, or what was found where it is no number."""
    unit: Unit = "s"
    peer: Timing | None = None
    goal: str = ""
    met: bool | None = None
    """None where there is no goal."""

    @property
    def ratio(self) -> float | None:
        """How many times cheaper steno is; below 1 it is dearer."""
        if self.peer is None or isinstance(self.ours, str):
            return None
        return self.ours.times_faster_than(self.peer)


def beside(
    work: str,
    ours: Timing,
    *peers: Timing,
    unit: Unit = "s",
    faster: float | None = None,
    slower: float | None = None,
) -> list[Finding]:
    """Compare with each peer. The goal: at least `faster` times, or at most `slower` times."""
    found: list[Finding] = []
    for peer in peers:
        ratio = ours.times_faster_than(peer)
        if faster is not None:
            goal = "not slower" if faster == 1 else f"≥ {faster:g}x faster"
            found.append(Finding(work, ours, unit, peer, goal, ratio >= faster))
        elif slower is not None:
            found.append(
                Finding(work, ours, unit, peer, f"≤ {slower:g}x slower", ratio * slower >= 1)
            )
        else:
            found.append(Finding(work, ours, unit, peer))
    return found


def below(work: str, ours: Timing, limit: float, *, unit: Unit = "s") -> Finding:
    """Hold a cost against a limit of its own. Minimum and median both have to keep it."""
    met = max(ours.best, ours.median) < limit
    return Finding(work, ours, unit, None, f"< {show(limit, unit)}", met)


def fact(work: str, found: str, *, goal: str, met: bool) -> Finding:
    """Record what is no cost."""
    return Finding(work, found, goal=goal, met=met)


def show(amount: float, unit: Unit) -> str:
    """Write an amount with three digits and a unit that suits it."""
    size, name = _scale(amount, unit)
    return f"{amount / size:.3g} {name}"


def show_timing(timing: Timing, unit: Unit) -> str:
    """Write the minimum and, where it differs, the median in parentheses."""
    if timing.best == timing.median:
        return show(timing.best, unit)
    size, name = _scale(timing.best, unit)
    return f"{timing.best / size:.3g} ({timing.median / size:.3g}) {name}"


def _scale(amount: float, unit: Unit) -> tuple[float, str]:
    steps = _TIMES if unit == "s" else _SIZES
    return next((step for step in steps if abs(amount) >= step[0]), steps[-1])


def show_ratio(ratio: float, unit: Unit) -> str:
    """Write a ratio in words, so that no one has to ask which way it goes."""
    more, less = ("faster", "slower") if unit == "s" else ("smaller", "larger")
    times, word = (ratio, more) if ratio >= 1 else (1 / ratio, less)
    return f"{times:.0f}x {word}" if times >= 100 else f"{times:.3g}x {word}"
