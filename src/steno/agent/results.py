"""Results of tool calls, written by the tools or by the agent itself.

A result that the agent writes itself has a stable code in its details, `{"code": "call_stopped"}`.
Programs compare the code; the text is for the model, and its wording may change. Only a result of a
tool contains a tool name and a start time, so a tool cannot forge one of these codes.
"""

from __future__ import annotations

import traceback
from enum import StrEnum
from typing import Any, Final

from steno.bounded_text import truncate_middle
from steno.errors import ToolFailed
from steno.log.queries import RESULT_CODE_KEY
from steno.messages.call import ToolCall
from steno.messages.content import Text
from steno.messages.message import ChatMessage, ToolResultMessage
from steno.messages.outcome import Failure, Outcome
from steno.ports import ToolOutput
from steno.values import replace_lone_surrogates

PARTIAL_OUTPUT_HEADING: Final = "Output before it was stopped:"
"""The first line of the block with the output of a call that was stopped."""
_MAX_SUMMARY_LENGTH: Final = 200
_MAX_ERROR_LENGTH: Final = 10_000
"""The maximum length of an exception text; tools return longer text as their output."""


class ResultCode(StrEnum):
    """The reason why the agent wrote a result itself. The values are stored and never change."""

    DENIED = "denied"
    """A gate denied the call without a more specific code."""
    DENIED_BY_MODE = "denied_by_mode"
    DENIED_BY_ROLE = "denied_by_role"
    DENIED_BY_RULE = "denied_by_rule"
    DENIED_BY_APPROVER = "denied_by_approver"
    NO_APPROVER = "no_approver"
    """The call needs approval, and the gate has no approver."""
    SUBJECTS_CHANGED = "subjects_changed"
    """The subjects of the call changed between the decision and the run."""
    INVALID_CALL = "invalid_call"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    CALL_NOT_RUN = "call_not_run"
    """The turn was stopped before the call began."""
    CALL_STOPPED = "call_stopped"
    """The call was stopped while it ran."""
    OUTCOME_UNKNOWN = "outcome_unknown"
    """The program ended while the call ran."""
    RESULT_REDACTED = "result_redacted"
    """A result of the same turn was redacted."""


RESULT_TEXTS: Final = {
    ResultCode.CALL_NOT_RUN: "The call was not run because the turn was stopped first.",
    ResultCode.CALL_STOPPED: (
        "The call was stopped while it was running. It may have had some of its effects."
    ),
    ResultCode.OUTCOME_UNKNOWN: (
        "The program ended while this call was running. The call may have had some or all of its "
        "effects; check before you repeat it."
    ),
    ResultCode.RESULT_REDACTED: (
        "A result of this turn was redacted. The output of this call is not available."
    ),
}
"""The text that the model reads for each code of a cancelled call."""


# -- results of the agent ------------------------------------------------------------------------


def build_agent_result(
    call_id: str, code: ResultCode, text: str, outcome: Outcome = Outcome.ERROR
) -> ToolResultMessage:
    """Build a result written by the agent, with a code for programs and a text for the model."""
    return ChatMessage.tool_result(
        call_id,
        text,
        outcome=outcome,
        details={RESULT_CODE_KEY: str(code)},
        failure=Failure(message=text),
    )


def build_cancelled_result(call_id: str, code: ResultCode) -> ToolResultMessage:
    """Build the result of a cancelled call, with the text that belongs to the code."""
    return build_agent_result(call_id, code, RESULT_TEXTS[code], Outcome.CANCELLED)


# -- results of tools ----------------------------------------------------------------------------


def build_output_result(call: ToolCall, output: ToolOutput) -> ToolResultMessage:
    """Build the result of a call from the output of its tool.

    Raises TypeError if the output is not a ToolOutput, InvalidMessage if its content is invalid.
    """
    if not isinstance(output, ToolOutput):
        raise TypeError(f"the tool must return a ToolOutput, not {type(output).__name__}")
    failure: Failure | None = None
    if output.outcome is not Outcome.OK:
        text = "".join([block.text for block in output.content if isinstance(block, Text)])
        first_line = text.strip().partition("\n")[0][:_MAX_SUMMARY_LENGTH]
        failure = Failure(message=first_line or f"the tool reported: {output.outcome}")
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=output.content,
        outcome=output.outcome,
        details=output.details,
        failure=failure,
    )


def build_failure_result(call: ToolCall, exc: ToolFailed) -> ToolResultMessage:
    """Build the error result for a failure that the tool reported."""
    message = _truncate_text(str(exc)) or "The tool failed without an error message."
    return _build_error_result(call, Failure(message=message, recoverable=exc.recoverable))


def build_fault_result(call: ToolCall, exc: BaseException) -> ToolResultMessage:
    """Build the error result for an unexpected exception of a tool.

    The model receives only the message; the traceback is recorded with the result.
    """
    # Unlike `str(exc)`, these functions do not raise if `__str__` of the exception does.
    message = _truncate_text("".join(traceback.format_exception_only(exc)).strip())
    traceback_frame: Any = exc.__traceback__
    if traceback_frame is not None:  # skip the first frame, which is always in steno
        traceback_frame = traceback_frame.tb_next or traceback_frame
    trace = _truncate_text("".join(traceback.format_exception(type(exc), exc, traceback_frame)))
    return _build_error_result(call, Failure(message=message, traceback=trace, recoverable=False))


def _truncate_text(text: str) -> str:
    """Truncate a text in the middle and replace lone surrogates, which no message may contain."""
    half = _MAX_ERROR_LENGTH // 2
    short = truncate_middle(text, max_head=half, max_tail=half, note="\n[…]\n")
    return replace_lone_surrogates(short)


def _build_error_result(call: ToolCall, failure: Failure) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(failure.message),),
        outcome=Outcome.ERROR,
        failure=failure,
    )
