"""The conformance kit: named test cases for all wires and providers, including your own.

To test a wire, write a `ScriptedServer`, which encodes scripts like a server of the protocol.
To test a provider, write a `ProviderHarness`, which builds a provider that streams scripts.

    python -m steno.testing.conformance --wire my_package.servers:MyServer

In pytest: `test_my_wire = wire_test(MyServer())`, from `steno.testing.conformance.in_pytest`.
"""

from steno.testing.case_results import CaseFailure, CaseOutcome, CaseResult, format_matrix
from steno.testing.conformance.cases import (
    STREAM_CASES,
    WIRE_CASES,
    StreamCase,
    WireCase,
    run_stream_case,
    run_stream_cases,
    run_wire_case,
    run_wire_cases,
)
from steno.testing.conformance.scripted_server import (
    CallFragment,
    JsonText,
    KeepAlive,
    NotExpressible,
    RedactedThinking,
    Refusal,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    StalledConnection,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    build_whole_response,
    encode_json,
    encode_sse_event,
    json_object_text,
    raise_not_expressible,
    without_none,
)
from steno.testing.conformance.servers import SERVERS
from steno.testing.conformance.stream_cases import (
    HttpProviderHarness,
    ProviderHarness,
    ReplayProviderHarness,
    ScriptedProviderHarness,
)

__all__ = [
    "SERVERS",
    "STREAM_CASES",
    "WIRE_CASES",
    "CallFragment",
    "CaseFailure",
    "CaseOutcome",
    "CaseResult",
    "HttpProviderHarness",
    "JsonText",
    "KeepAlive",
    "NotExpressible",
    "ProviderHarness",
    "RedactedThinking",
    "Refusal",
    "ReplayProviderHarness",
    "Script",
    "ScriptLine",
    "ScriptedProviderHarness",
    "ScriptedServer",
    "ServerFailure",
    "StalledConnection",
    "StreamCase",
    "TextPiece",
    "ThinkingPiece",
    "ThinkingSeal",
    "TurnEnd",
    "UnknownBlock",
    "UnknownEvent",
    "UnknownMember",
    "UsageOnly",
    "WholeCall",
    "WireCase",
    "build_whole_response",
    "encode_json",
    "encode_sse_event",
    "format_matrix",
    "json_object_text",
    "raise_not_expressible",
    "run_stream_case",
    "run_stream_cases",
    "run_wire_case",
    "run_wire_cases",
    "without_none",
]
