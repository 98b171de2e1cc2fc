"""User input for a run: the prompt, and the messages that steer the run while it is in progress.

A prompt is rewound if its references cannot be resolved. Messages that are sent after it are held
back until its references are resolved, because a rewind would remove those messages as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, final

from steno.agent.recorder import RunRecorder
from steno.errors import StenoError
from steno.log.conversation import Conversation
from steno.log.queries import last_message, shell_command_of
from steno.messages.content import has_references
from steno.messages.message import AssistantMessage, UserMessage
from steno.records.entry import Entry, ModeChange, Resolution, Rewind, ShellCommand


class SteeringPolicy(StrEnum):
    """The point in a run at which a message sent during the run reaches the model."""

    AFTER_CALLS = "after_calls"
    """With the next request, after the calls of the current turn have their results."""
    AFTER_RUN = "after_run"
    """When the model is done; the run then continues with the message."""
    INTERRUPT = "interrupt"
    """At once; the response and the tools are stopped, and their partial output is recorded."""


_DUE_POLICIES: Final = (
    SteeringPolicy.INTERRUPT,
    SteeringPolicy.AFTER_CALLS,
    SteeringPolicy.AFTER_RUN,
)
"""The policies in the order in which their input is due; `AFTER_RUN` only at the end of a run."""


INTERRUPTED_EARLY: Final = "interrupted before it began; nothing was sent or run"


def interrupted_before_start(text: str = INTERRUPTED_EARLY) -> StenoError:
    """Return the error for input that was interrupted before it was sent or run."""
    return StenoError(text, code="interrupted")


class PromptInput(NamedTuple):
    """A prompt of the user, as typed and, once it is prepared, as the message to record."""

    text: str
    images: tuple[str | bytes, ...] = ()
    """File names, URLs, or pasted bytes."""
    piped: str = ""
    """Piped input; references in it are not resolved."""
    message: UserMessage | None = None
    """The message for the model; None until the prompt is prepared."""
    audit: Mapping[str, Any] = MappingProxyType({})
    """Audit members to record with the message, such as the `origin` of its text."""

    @property
    def message_text(self) -> str:
        """The text of the message, before its references are resolved."""
        return "" if self.message is None else self.message.text or ""

    @property
    def typed(self) -> PromptInput:
        """The prompt as the user typed it."""
        return PromptInput(self.text, self.images, self.piped)


AnyPrompt: TypeAlias = str | UserMessage | PromptInput
QueuedInput: TypeAlias = PromptInput | ShellCommand
"""A prompt, which needs a response, or a shell command, which does not."""


QueuedInputT = TypeVar("QueuedInputT", PromptInput, ShellCommand)


@final
class SteeringQueue:
    """A queue of the prompts and shell commands of one agent that are not recorded yet.

    The queue outlives a run: input that a run does not record stays queued for the next run.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[SteeringPolicy, QueuedInput]] = []

    def put(self, queued: QueuedInput, policy: SteeringPolicy) -> None:
        """Add a prompt or a shell command."""
        self._waiting.append((policy, queued))

    @property
    def has_prompts(self) -> bool:
        """Whether a prompt is queued; shell commands do not count."""
        return any(isinstance(queued, PromptInput) for _, queued in self._waiting)

    def take_due(self, *, is_over: bool) -> list[QueuedInput]:
        """Remove and return the input due before the next request, or all input if `is_over`."""
        policies = _DUE_POLICIES if is_over else _DUE_POLICIES[:-1]
        due = sorted(
            [waiting for waiting in self._waiting if waiting[0] in policies],
            key=lambda waiting: policies.index(waiting[0]),
        )
        self._waiting = [waiting for waiting in self._waiting if waiting[0] not in policies]
        return [queued for _, queued in due]

    def take(self, kind: type[QueuedInputT]) -> list[QueuedInputT]:
        """Remove and return the queued input of one kind, prompts or shell commands."""
        taken = [queued for _, queued in self._waiting if isinstance(queued, kind)]
        self._waiting = [waiting for waiting in self._waiting if not isinstance(waiting[1], kind)]
        return taken


@final
class InputRecorder:
    """Records the input of one run: first the prompt, then the queued messages."""

    def __init__(
        self,
        recorder: RunRecorder,
        queue: SteeringQueue,
        *,
        actor: str | None,
        resolves_references: bool,
    ) -> None:
        self._recorder = recorder
        self._queue = queue
        self._actor = actor
        self._resolves_references = resolves_references
        """Whether a prompt is rewound if its references cannot be resolved."""
        self.pending_prompt: PromptInput | None = None
        """The prompt of the run before it is recorded; None afterwards."""
        self.is_held: bool = False
        """Whether messages after the prompt are held back."""
        self.prompt: Entry | None = None
        """The entry of the prompt; None until the prompt is recorded."""

    def record_prompt(self) -> None:
        """Record the prompt, unless it is recorded already."""
        prompt, self.pending_prompt = self.pending_prompt, None
        if prompt is None:
            return
        assert prompt.message is not None
        self.is_held = self._resolves_references and has_references(prompt.message.content)
        conversation = self._recorder.conversation
        if self.is_held and not conversation.entries_view():
            # The prompt may have to be rewound, and a rewind needs an entry to return to.
            self._recorder.record(ModeChange(old=conversation.mode, new=conversation.mode))
        self.prompt = self._record(prompt)

    def record_due(self, *, is_over: bool) -> bool:
        """Record due messages, unless they are held back.

        Return whether a prompt was recorded or is held back, so that the run has to continue.
        """
        if self.is_held:
            return self._queue.has_prompts
        return self._record_all(self._queue.take_due(is_over=is_over))

    def release(self) -> None:
        """Stop holding messages back, because the prompt is resolved and about to be sent."""
        self.is_held = False

    def record_remaining(self) -> None:
        """Record the messages that are still queued at the end of the run.

        If the prompt was rewound, only shell commands are recorded; queued prompts stay in the
        queue until they are withdrawn or the next run records them.
        """
        if self.prompt is None or self._recorder.is_on_branch(self.prompt):
            self._record_all(self._queue.take_due(is_over=True))
        else:
            self._record_all(self._queue.take(ShellCommand))

    def _record_all(self, due: Sequence[QueuedInput]) -> bool:
        for queued in due:
            self._record(queued)
        return any(isinstance(queued, PromptInput) for queued in due)

    def _record(self, queued: QueuedInput) -> Entry:
        payload: UserMessage | ShellCommand | None
        if isinstance(queued, PromptInput):
            payload, audit = queued.message, queued.audit
        else:
            payload, audit = queued, {}
        members = {"actor": self._actor, **audit}
        known = {name: value for name, value in members.items() if value is not None}
        assert payload is not None
        return self._recorder.record(payload, audit=known or None)


# -- prompts in the log ----------------------------------------------------------------------------


def find_unsent_prompt(conversation: Conversation) -> PromptInput | None:
    """Return the last prompt that was rewound because of an unresolved reference.

    Return None if there is no such prompt, or if a message or a clear was recorded after the
    rewind. Shell commands do not count as messages.
    """
    last = _last_main_entry(conversation)
    if last is None or not isinstance(last.payload, Rewind):
        return None
    entry, failed = conversation.entry(last.payload.left), set[str]()
    while entry.parent is not None and entry.parent != last.parent:
        if isinstance(entry.payload, AssistantMessage):
            return None  # the user rewound a response
        if isinstance(entry.payload, Resolution) and entry.payload.error is not None:
            failed.add(entry.payload.target)
        entry = conversation.entry(entry.parent)
    if entry.id not in failed or not isinstance(entry.payload, UserMessage):
        return None
    message, origin = conversation.restore_blobs(entry.payload), (entry.audit or {}).get("origin")
    return PromptInput(message.text or "", message=message, audit={"origin": origin})


def _last_main_entry(conversation: Conversation) -> Entry | None:
    """Return the entry of the last rewind, clear or message of the branch; None if there is none.

    Shell commands do not count as messages.
    """
    for entry in reversed(conversation.entries_view()):
        is_message = entry.message is not None and shell_command_of(entry) is None
        if is_message or isinstance(entry.payload, Rewind) or entry.clears_context:
            return entry
    return None


def is_unanswered(conversation: Conversation) -> bool:
    """Return whether the last message of the branch is from the user, so that a run can answer it.

    A shell command counts as a message of the user.
    """
    last = last_message(conversation.entries_view(), with_shell=True)
    return last is not None and isinstance(last.message, UserMessage)
