"""Benchmark: build the schema of a tool from a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pydantic_ai
from langchain_core.utils.function_calling import convert_to_openai_tool

from bench.findings import Finding, below, compare
from bench.harness import Case, Stopwatch
from steno import ToolDefinition

LIMIT_S = 0.3e-3


def run(watch: Stopwatch) -> list[Finding]:
    """Time a new function of six parameters."""
    ours, *peers = watch.measure(
        "tools: schema of a function",
        [
            Case("steno", ToolDefinition.from_function, prepare=_make_function),
            Case("pydantic-ai", _describe_with_pydantic_ai, prepare=_make_function),
            Case("langchain-core", convert_to_openai_tool, prepare=_make_function),
        ],
    )
    work = "tool definition from a function"
    return [below(work, ours, LIMIT_S), *compare(work, ours, *peers)]


def _describe_with_pydantic_ai(function: Callable[..., Any]) -> Any:
    return pydantic_ai.Tool(function).tool_def


def _make_function() -> Callable[..., Any]:
    """Return a new function with a new type, so that no cache can help."""

    @dataclass
    class Options:
        """How to read the files."""

        encoding: str = "utf-8"
        context: int = 3

    def search(  # noqa: PLR0917 - as tools are
        pattern: str,
        path: str = "src",
        mode: Literal["regex", "literal"] = "regex",
        limit: int | None = None,
        exclude: list[str] | None = None,
        options: Options | None = None,
    ) -> str:
        """Search the files of a folder for a pattern.

        Args:
            pattern: What to look for.
            path: The folder, seen from the root of the workspace.
            mode: Whether the pattern is a regular expression.
            limit: How many lines to return at most.
            exclude: Names of files that are left out.
            options: How to read the files.
        """
        return f"{pattern} {path} {mode} {limit} {exclude} {options}"

    return search
