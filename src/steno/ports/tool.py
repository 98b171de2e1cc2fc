"""What does the work that a model asks for. How a tool is described is `ToolDefinition`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol, TypeAlias, final

from steno.call import ToolCall
from steno.content import Image, Text
from steno.message import ResultBlock
from steno.outcome import Outcome
from steno.tool import ToolDefinition
from steno.value import Quiet

Fit: TypeAlias = Callable[[bytes], Image]
"""Makes an image one that a model takes, small and without metadata.

Raises ToolFailed for what is no image, ImportError where the parts for it are not installed.
"""
UNSURE: Final = "\n"
"""How a subject begins that may turn out to be anything: no pattern but `*` alone covers it."""


class Capability(StrEnum):
    """What a tool may do to the world; each is more than the one before, in most eyes."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


@final
class ToolOutput(Quiet, frozen=True, kw_only=True):
    """What came of a call: blocks for the model, details for people and programs.

    An outcome other than ok is a failure that the tool itself reports, such as a test that
    fails or a file that is not there.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"outcome"})

    content: tuple[ResultBlock, ...]
    outcome: Outcome = Outcome.OK
    details: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, text: str, *, outcome: Outcome = Outcome.OK, details: Mapping[str, Any] | None = None
    ) -> ToolOutput:
        """Return an output of one text."""
        return cls(content=(Text(text),), outcome=outcome, details=details)


class Stage(Protocol):
    """What a tool has around it while it runs."""

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """What `Tool.subjects` returned when the call was decided about; None where nobody looked.

        A tool that opens what they name opens just that: to look up a path of the arguments once
        more could lead elsewhere by now.
        """
        ...

    def is_denied(self, subject: str) -> bool:
        """Tell whether a rule forbids the tool something that it came across, such as a file.

        May be called from any thread.
        """
        ...

    def report_output(self, text: str) -> None:
        """Show people something of the output while the tool still runs.

        The model sees of it only what was said in a call that is stopped.
        """
        ...

    def put_blob(self, data: bytes) -> str:
        """Keep bytes beside the record, such as the whole of a long output; return their SHA-256.

        Name it in the details of the output: what no record names is removed some day.
        """
        ...

    def read_blob(self, sha256: str) -> bytes:
        """Return bytes that were kept. Raises Missing, Damaged."""
        ...


class Tool(Protocol):
    """Something that a model can ask for.

    What a model should know is a `ToolOutput`, or `ToolFailed` where nothing came of it. Any
    other exception is a fault of the tool. A tool that is cancelled ends what it began.
    """

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told about it."""
        ...

    @property
    def capability(self) -> Capability:
        """The most that it does."""
        ...

    @property
    def ruled_as(self) -> tuple[str, ...]:
        """Names of other tools whose deny rules count for this one too; most have none."""
        ...

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return what a call is about, for rules: paths, commands, addresses.

        Rules allow a call if together they cover all of them, and deny it if one covers any. They
        are in one spelling: paths relative to the workspace with links resolved, commands one by
        one. What may turn out to be anything begins with `UNSURE`. None at all
        means that only the name of the tool can be ruled about. Raises ToolFailed for arguments
        that make no sense.
        """
        ...

    async def preview(self, call: ToolCall) -> str:
        """Return what a person should see who decides about the call: a diff, a command.

        Changes nothing. Raises ToolFailed if the call cannot succeed as things are.
        """
        ...

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Do it. The arguments fit the definition. Raises ToolFailed."""
        ...
