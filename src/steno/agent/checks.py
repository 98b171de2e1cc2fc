"""What an agent can be made of. A mix-up is told where it is made, in one line that says what to do.

Without this a wrong argument would come up in the middle of a run, as an attribute that something
does not have. What follows a protocol is asked for its methods, so that anybody may write one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steno.agent.limits import Limits
from steno.agent.permission import Permissions
from steno.context import Target
from steno.conversation import Conversation
from steno.errors import InvalidValue
from steno.ports import Capability, Tool
from steno.tool import ToolDefinition

_PARTS_OF_TOOL: Final = ("definition", "capability", "ruled_as", "subjects", "preview", "run")


def check_partners(provider: object, conversation: object) -> None:
    """Look at who speaks with whom. Raises InvalidValue."""
    if not _has(provider, "stream"):
        advice = ""
        if isinstance(provider, Conversation):
            advice = "the provider comes first, then the conversation"
        elif _has(provider, "__await__"):
            advice = "await?"
        words = 'one, such as connect("anthropic")'
        raise InvalidValue(_mix_up("provider", words, provider, advice))
    if not isinstance(conversation, Conversation):
        words = "a Conversation, such as Conversation() or store.new()"
        raise InvalidValue(_mix_up("conversation", words, conversation))


def check_gate(gate: object) -> None:
    """Look at who decides. Raises InvalidValue."""
    if not _has(gate, "offers", "decide", "denies", "admit"):
        advice = ""
        if isinstance(gate, Permissions):
            advice = "Gate(permissions)?"
        elif _has(gate, "ask"):
            advice = "Gate(approver=…)?"
        raise InvalidValue(_mix_up("gate", "a Gate", gate, advice))


def check_runner(runner: object) -> None:
    """Look at what runs tools. Raises InvalidValue."""
    if not _has(runner, "run"):
        advice = "Runner(store)?" if _has(runner, "put_blob") else ""
        raise InvalidValue(_mix_up("runner", "a Runner", runner, advice))


def check_resolver(resolver: object) -> None:
    """Look at who opens what messages point at. Raises InvalidValue."""
    if resolver is not None and not _has(resolver, "resolve", "is_current", "changes"):
        raise InvalidValue(_mix_up("resolver", "one, such as Inputs(workspace)", resolver))


def checked_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools of an iterable. Raises InvalidValue for what is none."""
    if not isinstance(tools, Iterable):
        advice = "its .tools?" if hasattr(tools, "tools") else "tools=[…]?"
        raise InvalidValue(_mix_up("tools", "a list of tools", tools, advice))
    found = tuple(tools)
    for number, tool in enumerate(found):
        if (lack := _lack_of(tool)) is not None:
            raise InvalidValue(_mix_up(f"tools[{number}]", "a tool", tool, lack))
    return found


def check_settings(*, target: object, limits: object, telemetry: object) -> None:
    """Look at what is asked of a model, how far it may go, and what measures it. Raises InvalidValue."""
    if not isinstance(target, Target):
        raise InvalidValue(_mix_up("target", 'a Target, such as Target(model="…")', target))
    if not isinstance(limits, Limits):
        raise InvalidValue(
            _mix_up("limits", "Limits of steno.agent, such as Limits(turns=20)", limits)
        )
    if not _has(telemetry, "run", "turn", "call"):
        raise InvalidValue(_mix_up("telemetry", "one, such as OpenTelemetry()", telemetry))


def check_texts(**texts: object) -> None:
    """Look at settings that are strings. Raises InvalidValue."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InvalidValue(_mix_up(name, "a string", text))


def check_functions(**functions: object) -> None:
    """Look at settings that are functions. Raises InvalidValue."""
    for name, function in functions.items():
        if not callable(function):
            raise InvalidValue(_mix_up(name, "a function", function))


def _has(value: object, *methods: str) -> bool:
    """Tell whether a value has all these methods; a class is not yet one of its objects."""
    is_object = not isinstance(value, type)
    return is_object and all(callable(getattr(value, name, None)) for name in methods)


def _lack_of(tool: object) -> str | None:
    """Return what is missing in a tool; None if nothing is."""
    if isinstance(tool, type):
        return f"{tool.__name__}(…)?"
    missing = next((name for name in _PARTS_OF_TOOL if not hasattr(tool, name)), None)
    if missing is not None:
        return "@tool?" if callable(tool) else f"it has no {missing}"
    if not isinstance(getattr(tool, "definition", None), ToolDefinition):
        return "its definition must be a ToolDefinition"
    if not isinstance(getattr(tool, "capability", None), Capability):
        return "its capability must be a Capability, such as Capability.READ"
    if not isinstance(getattr(tool, "ruled_as", None), tuple):  # a text would be many names
        return "its ruled_as must be a tuple of names, such as ()"
    return None


def _mix_up(place: str, words: str, value: object, advice: str = "") -> str:
    kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return f"{place}: must be {words}, not {kind}" + (f"; {advice}" if advice else "")
