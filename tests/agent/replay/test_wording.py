"""The wording of the agent's own results may change: a replay compares their codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from steno.agent.replay.recorded_run import with_recorded_wording
from steno.agent.replay.verify import replay
from steno.agent.results import ResultCode
from steno.log.queries import result_code
from steno.messages.content import Text
from steno.messages.message import ToolResultMessage
from steno.messages.outcome import Failure, Outcome
from steno.records.entry import Approval, Entry, Repair
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.replay.random_sessions import RandomSession
from tests.agent.replay.recorded_sessions import forged, full_session, replayed

OTHER = "In other words: "
OLD_TEXTS = {
    ResultCode.CALL_NOT_RUN: "The call was not run: the turn was stopped before.",
    ResultCode.CALL_STOPPED: "The call was stopped while it ran. It may have taken effect in part.",
    ResultCode.OUTCOME_UNKNOWN: (
        "The program ended while this call ran. It may have taken effect, in part or as a whole; "
        "look before you repeat it."
    ),
    ResultCode.RESULT_REDACTED: (
        "A result of this turn was taken out of the record; it is not there any more."
    ),
}
"""The texts of cancelled calls in sessions from before there were codes."""


def reworded(entry: Entry) -> Entry:
    """Return an entry as a version with other sentences would have recorded it."""
    payload = entry.payload
    if isinstance(payload, ToolResultMessage) and result_code(payload) is not None:
        text = OTHER + payload.content[0].text if isinstance(payload.content[0], Text) else OTHER
        content = (Text(text), *payload.content[1:])
        return replace(
            entry, payload=replace(payload, content=content, failure=Failure(message=text))
        )
    if isinstance(payload, Approval) and payload.reason is not None:
        return replace(entry, payload=replace(payload, reason=OTHER + payload.reason))
    return entry


def without_result_code(entry: Entry) -> Entry:
    """Return an entry as a version without codes would have recorded it."""
    payload = entry.payload
    if not isinstance(payload, ToolResultMessage) or (code := result_code(payload)) is None:
        return entry
    payload = replace(payload, details=None)
    if code in OLD_TEXTS:
        text = OLD_TEXTS[ResultCode(code)]
        content = (Text(text), *payload.content[1:])
        payload = replace(payload, content=content, failure=Failure(message=text))
    return replace(entry, payload=payload)


def without_codes_and_denials_reworded(entry: Entry) -> Entry:
    """Return an entry as a version without codes would have recorded it, its denials reworded."""
    payload = entry.payload
    if isinstance(payload, ToolResultMessage) and payload.outcome is Outcome.DENIED:
        entry = reworded(entry)
    return without_result_code(entry)


def codes_of(entry: Entry | None) -> str | None:
    payload = None if entry is None else entry.payload
    return result_code(payload) if isinstance(payload, ToolResultMessage) else None


def test_every_result_that_the_agent_writes_has_a_code() -> None:
    found = [code for record in full_session() if (code := codes_of(record.entry)) is not None]
    assert found == [
        ResultCode.DENIED_BY_APPROVER,
        ResultCode.UNKNOWN_TOOL,
        ResultCode.INVALID_CALL,
    ]


@pytest.mark.parametrize("change", [reworded, without_result_code])
def test_a_session_with_other_wording_or_without_codes_replays_as_the_same(
    change: Callable[[Entry], Entry],
) -> None:
    records = forged(full_session(), change)
    assert records != full_session()
    result = replayed(records)
    assert result.is_same, str(result.difference)
    assert (result.entries, result.digest) == (len(records), records[-1].digest)


def test_a_denial_with_other_wording_and_without_a_code_replays_as_the_same() -> None:
    records = forged(full_session(), without_codes_and_denials_reworded)
    [denied] = [
        entry.payload
        for record in records
        if (entry := record.entry) is not None
        and isinstance(entry.payload, ToolResultMessage)
        and entry.payload.outcome is Outcome.DENIED
    ]
    assert (denied.details, denied.text.startswith(OTHER)) == (None, True)
    result = replayed(records)
    assert result.is_same, str(result.difference)
    assert result.digest == records[-1].digest


@pytest.mark.parametrize(
    "change", [reworded, without_result_code, without_codes_and_denials_reworded]
)
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_sessions_with_other_wording_replay_as_the_same(
    first: int, change: Callable[[Entry], Entry]
) -> None:
    async def check(seed: int) -> None:
        records = forged(await RandomSession(seed).make(), change)
        for branch in {record.branch for record in records}:
            result = await replay(records, branch=branch)
            assert result.is_same, (seed, branch, str(result.difference))

    for seed in range(first, first + 30):
        run(check(seed), limit_s=60.0)


def test_another_reason_for_a_result_is_a_difference() -> None:
    def change(entry: Entry) -> Entry:
        payload = entry.payload
        if codes_of(entry) != ResultCode.INVALID_CALL:
            return entry
        assert isinstance(payload, ToolResultMessage)
        details = {"code": str(ResultCode.UNKNOWN_TOOL)}
        return replace(entry, payload=replace(payload, details=details))

    difference = replayed(forged(full_session(), change)).difference
    assert difference is not None
    assert [part.name for part in difference.parts] == ["payload.details"]


def test_another_wording_of_a_repair_is_taken_from_the_record() -> None:
    made = Repair(code="repaired", explanation="now", target="m1")
    recorded = replace(made, explanation="then")
    assert with_recorded_wording(made, recorded) == recorded
    for other in (replace(recorded, code="left_out"), replace(recorded, target="m2"), None):
        assert with_recorded_wording(made, other) == made


def test_a_tool_cannot_write_a_code_of_the_agent() -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."],
        read_tool("read", "A."),
    )
    run(harness.run())
    posing = replace(
        harness.result, outcome=Outcome.DENIED, details={"code": str(ResultCode.NO_APPROVER)}
    )
    assert result_code(posing) is None
