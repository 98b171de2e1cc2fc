"""Results: one for each comparison, with the goal that it must meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.harness import Timing

Unit = Literal["s", "B"]

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((1e6, "MB"), (1e3, "KB"), (1.0, "B"))


@dataclass(frozen=True)
class Finding:
    """The result of steno in one benchmark, alone or compared with one peer."""

    work: str
    ours: Timing | str
    """A measured cost, or the result as text."""
    unit: Unit = "s"
    peer: Timing | None = None
    goal: str = ""
    met: bool | None = None
    """Whether the goal is met; None without a goal."""

    @property
    def ratio(self) -> float | None:
        """The cost of the peer in units of the cost of steno; below 1, the peer is cheaper."""
        if self.peer is None or isinstance(self.ours, str):
            return None
        return self.ours.times_faster_than(self.peer)


def compare(
    work: str,
    ours: Timing,
    *peers: Timing,
    unit: Unit = "s",
    faster: float | None = None,
    slower: float | None = None,
) -> list[Finding]:
    """Compare steno with each peer. The goal: `faster` times as fast, or at most `slower`."""
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
    """Compare a cost with a limit. Both the minimum and the median must meet it."""
    met = max(ours.best, ours.median) < limit
    return Finding(work, ours, unit, None, f"< {show(limit, unit)}", met)


def fact(work: str, found: str, *, goal: str, met: bool) -> Finding:
    """Return a result that is not a cost."""
    return Finding(work, found, goal=goal, met=met)


def show(amount: float, unit: Unit) -> str:
    """Return an amount with three digits and a suitable unit."""
    size, name = _scale(amount, unit)
    return f"{amount / size:.3g} {name}"


def show_timing(timing: Timing, unit: Unit) -> str:
    """Return the minimum and, if it differs, the median in parentheses."""
    if timing.best == timing.median:
        return show(timing.best, unit)
    size, name = _scale(timing.best, unit)
    return f"{timing.best / size:.3g} ({timing.median / size:.3g}) {name}"


def _scale(amount: float, unit: Unit) -> tuple[float, str]:
    steps = _TIMES if unit == "s" else _SIZES
    return next((step for step in steps if abs(amount) >= step[0]), steps[-1])


def show_ratio(ratio: float, unit: Unit) -> str:
    """Return a ratio as text that includes its direction: "2x faster"."""
    more, less = ("faster", "slower") if unit == "s" else ("smaller", "larger")
    times, word = (ratio, more) if ratio >= 1 else (1 / ratio, less)
    return f"{times:.0f}x {word}" if times >= 100 else f"{times:.3g}x {word}"
