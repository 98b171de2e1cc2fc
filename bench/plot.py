"""Plot the results: for each benchmark, the cost of each peer in units of the cost of steno."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.findings import Finding, show

COLOURS = {
    "msgspec": "#8a8f98",
    "orjson": "#c9a227",
    "pydantic": "#e8590c",
    "pydantic-ai": "#c2255c",
    "langchain-core": "#1c7c54",
    "langchain_core": "#1c7c54",
    "openai": "#3b5bdb",
    "anthropic": "#845ef7",
    "pydantic_ai": "#c2255c",
    "LangGraph": "#0b7285",
    "openai-agents": "#364fc7",
    "Textual": "#2b8a3e",
    "Textual's": "#2b8a3e",
}
OTHER = "#5c6773"
HEAD_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}


def draw(findings: Sequence[Finding], path: Path) -> None:
    """Write the plot, without benchmarks that have no peer."""
    labels: list[str] = []
    ratios: list[float] = []
    colours: list[str] = []
    heads: list[tuple[int, str]] = []
    last = ""
    for found in findings:
        if found.peer is None or found.ratio is None or isinstance(found.ours, str):
            continue
        if found.work != last:
            heads.append((len(labels), f"{found.work}: steno {show(found.ours.best, found.unit)}"))
            labels.append("")
            ratios.append(1.0)
            colours.append(OTHER)
            last = found.work
        labels.append(f"{found.peer.name}  {show(found.peer.best, found.unit)}")
        ratios.append(found.ratio)
        colours.append(COLOURS.get(_library(found.peer.name), OTHER))
    mpl.rcParams["svg.hashsalt"] = "steno"  # the same results give the same file
    figure = Figure(figsize=(10, 1.2 + 0.22 * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    positions = range(len(labels))
    # Bars start at 1, which is steno: a bar to the right is a slower peer, to the left a faster one.
    axes.barh(positions, [ratio - 1 for ratio in ratios], left=1.0, color=colours, height=0.8)
    axes.set_xscale("log")
    low, high = min([*ratios, 0.5]), max([*ratios, 2.0])
    axes.set_xlim(low / 1.5, high * 3)
    axes.axvline(1.0, color="black", linewidth=1)
    for position, ratio in zip(positions, ratios, strict=True):
        if labels[position]:
            axes.text(max(ratio, 1.0) * 1.06, position, f"{ratio:.3g}x", va="center", fontsize=7)
    for position, head in heads:
        axes.text(
            low / 1.5, position, " " + head, va="center", fontsize=8, weight="bold", bbox=HEAD_BOX
        )
    axes.set_yticks(positions, labels, fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel("times the cost of steno (log scale; the line at 1 is steno)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def _library(peer: str) -> str:
    return peer.partition(" ")[0].rstrip(",")
