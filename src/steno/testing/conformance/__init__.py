"""The conformance kit: one list of named cases for every wire and every provider, yours too.

A wire takes part through a `Speaker`, which says scripted answers as a server of its protocol
would; a provider through a `Stage`, which makes it give scripted answers.

    python -m steno.testing.conformance --wire my_package.speaking:MySpeaker

In pytest: `test_my_wire = wire_test(MySpeaker())`, from `steno.testing.conformance.in_pytest`.
"""

from steno.testing.conformance.cases import STREAM_CASES, WIRE_CASES, StreamCase, WireCase
from steno.testing.conformance.hearing import Unmet
from steno.testing.conformance.run import (
    Result,
    Verdict,
    matrix,
    run_stream_case,
    run_stream_cases,
    run_wire_case,
    run_wire_cases,
)
from steno.testing.conformance.script import (
    CallPart,
    End,
    Fail,
    KeepAlive,
    Line,
    Redact,
    Refuse,
    Say,
    Script,
    SealThinking,
    Silence,
    Think,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    whole,
)
from steno.testing.conformance.speaker import (
    CannotSay,
    Speaker,
    Verbatim,
    as_json,
    cannot_say,
    object_text,
    sse,
    without_none,
)
from steno.testing.conformance.speakers import SPEAKERS
from steno.testing.conformance.stage import HttpStage, ReplayStage, ScriptedStage, Stage

__all__ = [
    "SPEAKERS",
    "STREAM_CASES",
    "WIRE_CASES",
    "CallPart",
    "CannotSay",
    "End",
    "Fail",
    "HttpStage",
    "KeepAlive",
    "Line",
    "Redact",
    "Refuse",
    "ReplayStage",
    "Result",
    "Say",
    "Script",
    "ScriptedStage",
    "SealThinking",
    "Silence",
    "Speaker",
    "Stage",
    "StreamCase",
    "Think",
    "UnknownBlock",
    "UnknownEvent",
    "UnknownMember",
    "Unmet",
    "UsageOnly",
    "Verbatim",
    "Verdict",
    "WholeCall",
    "WireCase",
    "as_json",
    "cannot_say",
    "matrix",
    "object_text",
    "run_stream_case",
    "run_stream_cases",
    "run_wire_case",
    "run_wire_cases",
    "sse",
    "whole",
    "without_none",
]
