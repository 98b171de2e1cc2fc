"""Every rule of the vocabulary, broken once: with a secret in the content that breaks it.

`test_source_rules` compares this list with the source, so that a new rule needs a row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec

from steno import (
    Assembler,
    AssistantMessage,
    BlockSealed,
    ChatMessage,
    ConversationHistory,
    Entry,
    Failure,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidToolCall,
    JsonObject,
    MessageRole,
    Opaque,
    Outcome,
    Request,
    Resource,
    Seal,
    StopReason,
    SystemMessage,
    Text,
    Thinking,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
    check_order,
    map_tool_name,
    replace_lone_surrogates,
)
from steno.codec import decode_document
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    ImageAnalysis,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Resolution,
    ResolutionStatus,
)
from steno.values import PRECHECKED, RawJson
from tests.value_samples import SECRET

WRONG: Final = cast("Any", [SECRET])
"""What no field takes."""
HALF: Final = SECRET + "\ud83d"
"""Text that ends in half a surrogate pair."""
PNG: Final = "image/png"

SYSTEM = ChatMessage.system(SECRET)
USER = ChatMessage.user(SECRET)
ASSISTANT = ChatMessage.assistant(SECRET)
CALL = ToolCall(id="call_1", name="read", arguments=f'{{"path": "{SECRET}"}}')
CALLING = ChatMessage.assistant(SECRET, [CALL])
RESULT = ChatMessage.tool_result("call_1", SECRET)
SCHEMA: Final = {"type": "object"}
BEYOND_UTC = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
NAIVE = datetime(2026, 6, 1)  # noqa: DTZ001 - a time without a zone is what is refused


def _definition(**changes: Any) -> ToolDefinition:
    fields = {"name": "read", "description": SECRET, "parameters": SCHEMA} | changes
    return ToolDefinition(**fields)


def _wordless() -> str:
    return SECRET


_ODD = msgspec.defstruct("Odd", [("size", Annotated[int, msgspec.Meta(examples=[object()])])])


def _request(**changes: Any) -> Request:
    return Request(**({"messages": (USER,)} | changes))


def _loaded(type: Any, data: bytes) -> object:
    """Decode as the codec does, without its second, lossless try."""
    token = PRECHECKED.set(True)
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError as exc:
        raise exc.__cause__ or exc from None
    finally:
        PRECHECKED.reset(token)


def _result(**changes: Any) -> ToolResult:
    return ToolResult(**({"tool_call_id": "call_1", "content": (Text(SECRET),)} | changes))


def _resolution(**changes: Any) -> Resolution:
    fields: dict[str, Any] = {"target": "e1", "block": 0, "status": ResolutionStatus.PENDING}
    return Resolution(**(fields | changes))


def _approval(**changes: Any) -> Approval:
    fields = {"call_id": "call_1", "status": ApprovalStatus.PENDING, "arguments_sha256": "ab" * 32}
    return Approval(**(fields | changes))


BROKEN: Final[dict[str, Callable[[], object]]] = {
    # -- JSON ----
    "json_from_a_list": lambda: JsonObject(WRONG),
    "json_of_no_json": lambda: JsonObject({SECRET: object()}),
    "json_of_half_a_pair": lambda: JsonObject({"a": HALF}),
    "json_of_nan": lambda: JsonObject({SECRET: math.nan}),
    "json_name_not_text": lambda: JsonObject({cast("Any", (SECRET,)): 1}),
    "json_text_of_an_array": lambda: JsonObject.parse(f'["{SECRET}"]'),
    "json_text_torn": lambda: JsonObject.parse(f'{{"{SECRET}'),
    "json_bytes_not_utf8": lambda: JsonObject.parse(b'{"' + SECRET.encode() + b'\xff":1}'),
    "json_too_deep": lambda: JsonObject.parse('{"a":' + "[" * 5000),
    # -- role ----
    "role": lambda: MessageRole.parse(SECRET),
    # -- text ----
    "text_to_clean": lambda: replace_lone_surrogates(WRONG),
    # -- calls ----
    "outside_name": lambda: map_tool_name(f"{SECRET} {SECRET}"),
    "seal_empty": lambda: Seal(data="", provider="p", api="a", model=SECRET),
    "call_id_empty": lambda: ToolCall(id="", name="read", arguments=SECRET),
    "call_name": lambda: ToolCall(id="call_1", name=SECRET),
    "call_arguments_type": lambda: ToolCall(id="call_1", name="read", arguments=WRONG),
    "call_arguments_torn": lambda: ToolCall(id="c", name="read", arguments=f'{{"a": "{SECRET}'),
    "call_arguments_array": lambda: ToolCall(id="c", name="read", arguments=f'["{SECRET}"]'),
    "call_made_of_no_json": lambda: ToolCall.create("read", {SECRET: object()}),
    "call_made_of_half_a_pair": lambda: ToolCall.create("read", {"a": HALF}),
    "call_arguments_without_a_value": lambda: (
        ToolCall(id="c", name="read", arguments=f'{{"{SECRET}": 1e999}}').parsed
    ),
    "invalid_call_id": lambda: InvalidToolCall(id="", name=SECRET, reason="cut"),
    "invalid_call_name": lambda: InvalidToolCall(id="call_1", name=HALF, reason="cut"),
    # -- blocks ----
    "text_type": lambda: Text(WRONG),
    "text_half_a_pair": lambda: Text(HALF),
    "thinking_half_a_pair": lambda: Thinking(HALF),
    "thinking_redacted": lambda: Thinking(SECRET, redacted=True),
    "image_data_empty": lambda: ImageData(b""),
    "image_blob_hash": lambda: ImageBlob(sha256=SECRET, size=1),
    "image_blob_size": lambda: ImageBlob(sha256="ab" * 32, size=0),
    "image_url": lambda: ImageUrl(f"file:///{SECRET}"),
    "image_path_empty": lambda: ImageFile(""),
    "image_source": lambda: Image(source=WRONG),
    "image_without_type": lambda: Image(source=ImageData(SECRET.encode())),
    "image_type": lambda: Image(source=ImageData(SECRET.encode()), mime_type=SECRET),
    "image_mode": lambda: Image(source=ImageUrl("https://a.b"), mode=cast("Any", SECRET)),
    "file_path_empty": lambda: FileReference(path=""),
    "file_path_nul": lambda: FileReference(path=f"{SECRET}\0"),
    "file_path_climbs": lambda: FileReference(path=f"../{SECRET}"),
    "file_end_alone": lambda: FileReference(path=SECRET, end_line=3),
    "file_start_at_0": lambda: FileReference(path=SECRET, start_line=0),
    "file_range_backwards": lambda: FileReference(path=SECRET, start_line=3, end_line=2),
    "resource_uri_empty": lambda: Resource(server=SECRET, uri=""),
    "resource_text_and_data": lambda: Resource(server="s", uri="u", text=SECRET, data=b"x"),
    "resource_text": lambda: Resource(server="s", uri="u", text=HALF),
    "resource_data": lambda: Resource(server="s", uri="u", data=WRONG),
    "resource_time": lambda: Resource(server=SECRET, uri="u", retrieved_at=NAIVE),
    "opaque_raw": lambda: Opaque(kind="x", raw=HALF, origin="gemini"),
    "opaque_no_json": lambda: Opaque(kind="x", raw=f'{{"{SECRET}', origin="steno"),
    "verbatim_half_a_pair": lambda: RawJson(HALF),
    # -- messages ----
    "failure_message": lambda: Failure(message=HALF),
    "failure_traceback": lambda: Failure(message=SECRET, traceback=HALF),
    "message_bare": ChatMessage,
    "system_blank": lambda: ChatMessage.system(" \n\t"),
    "user_blank": lambda: ChatMessage.user(" \n\t"),
    "user_empty_part": lambda: ChatMessage.user([Text(SECRET), Text("")]),
    "user_no_blocks": lambda: ChatMessage.user(cast("Any", 5)),
    "user_content_list": lambda: UserMessage(cast("Any", [Text(SECRET)])),
    "user_content_text": lambda: UserMessage(cast("Any", SECRET)),
    "assistant_content_list": lambda: AssistantMessage(content=cast("Any", [Text(SECRET)])),
    "user_calls": lambda: UserMessage(cast("Any", (Text(SECRET), CALL))),
    "system_image": lambda: SystemMessage(
        cast("Any", (Image(source=ImageUrl(f"https://{SECRET}")),))
    ),
    "assistant_nothing": lambda: ChatMessage.assistant(None),
    "assistant_stop": lambda: AssistantMessage(content=(), stop_reason=cast("Any", SECRET)),
    "assistant_raw_stop": lambda: AssistantMessage(
        content=(), stop_reason=StopReason.UNKNOWN, raw_stop_reason=WRONG
    ),
    "result_without_call": lambda: ChatMessage.tool_result("", SECRET),
    "result_outcome": lambda: _result(outcome=SECRET),
    "result_ok_and_failed": lambda: _result(failure=Failure(message=SECRET)),
    "result_tool_name": lambda: _result(tool_name=HALF),
    "result_details": lambda: _result(details={SECRET: object()}),
    "result_details_list": lambda: _result(details=[SECRET]),
    "result_time": lambda: _result(started_at=NAIVE),
    "result_duration": lambda: _result(duration_s=-0.1),
    "unknown_no_members": lambda: Text("a", unknown=RawJson("garbage")),
    "result_duration_huge": lambda: _result(duration_s=10**400),
    "opaque_of_ours_wrapped": lambda: _loaded(
        Opaque, b'{"type":"opaque","kind":"x","raw":"{}","origin":"steno"}'
    ),
    "result_error_ok": lambda: ToolResult.error("call_1", SECRET, outcome=Outcome.OK),
    "usage_negative": lambda: Usage(input_tokens=-1),
    # -- tools and requests ----
    "tool_name": lambda: _definition(name=SECRET),
    "tool_description_type": lambda: _definition(description=WRONG),
    "tool_description_blank": lambda: _definition(description=" \n"),
    "tool_parameters": lambda: _definition(parameters={SECRET: object()}),
    "tool_parameters_type": lambda: _definition(parameters={"type": SECRET}),
    "tool_properties": lambda: _definition(parameters={**SCHEMA, "properties": [SECRET]}),
    "tool_required": lambda: _definition(parameters={**SCHEMA, "required": SECRET}),
    "tool_without_words": lambda: ToolDefinition.from_function(_wordless),
    "tool_of_no_class": lambda: ToolDefinition.from_type(int | None, description=SECRET),
    "tool_with_examples_of_no_json": lambda: ToolDefinition.from_type(_ODD, description=SECRET),
    "tool_arguments": lambda: _definition(
        parameters={**SCHEMA, "properties": {"path": {"type": "integer"}}}
    ).check_arguments(CALL),
    "request_model": lambda: _request(model=HALF),
    "request_empty": lambda: _request(messages=()),
    "request_no_message": lambda: _request(messages=(USER, SECRET)),
    "request_tokens": lambda: _request(max_tokens=0),
    "event_index": lambda: BlockSealed(-1, Seal(data=SECRET, provider="p", api="a", model="m")),
    "event_number": lambda: ToolCallDelta(-1, arguments_delta=SECRET),
    "event_arguments": lambda: ToolCallDelta(0, arguments_delta=[SECRET]),  # type: ignore[arg-type]
    "request_temperature": lambda: _request(temperature=2.1),
    "request_stop": lambda: _request(stop=(HALF,)),
    "request_tools": lambda: _request(tools=WRONG),
    "request_no_tool": lambda: _request(tools=(SECRET,)),
    "request_tools_alike": lambda: _request(tools=(_definition(), _definition(description="x"))),
    # -- entries ----
    "mode": lambda: ModeChange(old=Mode.PLAN, new=cast("Any", SECRET)),
    "model": lambda: ModelChange(old=SECRET, new=""),
    "label": lambda: Label(target="", text=SECRET),
    "approval_status": lambda: _approval(status=SECRET),
    "approval_undecided": lambda: _approval(reason=SECRET, actor="ada"),
    "resolution_block": lambda: _resolution(block=-1),
    "image_analysis_block": lambda: ImageAnalysis(target="e1", block=-1, answer="e2"),
    "image_analysis_answer": lambda: ImageAnalysis(target="e1", block=0, answer=""),
    "resolution_status": lambda: _resolution(status=SECRET),
    "resolution_content_list": lambda: _resolution(content=[Text(SECRET)]),
    "resolution_content": lambda: _resolution(content=(Text(SECRET),)),
    "resolution_error": lambda: _resolution(error=SECRET),
    "resolution_details": lambda: _resolution(details={SECRET: object()}),
    "entry_version": lambda: Entry(id="e1", payload=USER, v=4),
    "entry_id": lambda: Entry(id="", payload=USER),
    "entry_parent": lambda: Entry(id="e1", parent="", payload=USER),
    "entry_payload": lambda: Entry(id="e1", payload=cast("Any", Text(SECRET))),
    "entry_decision": lambda: Entry(id="e1", payload=USER, decision=HALF),
    "entry_time_beyond_utc": lambda: Entry(id="e1", payload=USER, time=BEYOND_UTC),
    "entry_time": lambda: Entry(id="e1", payload=USER, time=NAIVE),
    "entry_audit": lambda: Entry(id="e1", payload=USER, audit={SECRET: object()}),
    "assistant_calls_none": lambda: ChatMessage.assistant(None, cast("Any", 5)),
    # -- events and files ----
    "event_of_something_else": lambda: Assembler().feed(cast("Any", SECRET)),
    "document_from_a_path": lambda: decode_document(cast("Any", Path(SECRET))),
    # -- order ----
    "order_of_something_else": lambda: check_order([USER, cast("Any", SECRET)]),
    "history_of_nothing": lambda: ConversationHistory(cast("Any", None)),
    "history_takes_messages": lambda: ConversationHistory([cast("Any", SECRET)]),
    "history_without_system": lambda: ConversationHistory([USER]),
    "history_two_systems": lambda: ConversationHistory([SYSTEM, SYSTEM]),
    "history_two_users": lambda: ConversationHistory([SYSTEM, USER, USER]),
    "history_calls_open": lambda: ConversationHistory([SYSTEM, USER, CALLING, ASSISTANT]),
    "history_orphan": lambda: ConversationHistory([SYSTEM, USER, ASSISTANT, RESULT]),
    "history_repeated": lambda: ConversationHistory([SYSTEM, USER, CALLING, RESULT, RESULT]),
    "history_same_ids": lambda: ConversationHistory(
        [SYSTEM, USER, ChatMessage.assistant(None, [CALL, CALL])]
    ),
    "history_empty": lambda: ConversationHistory().check_complete(),
    "history_incomplete": lambda: ConversationHistory([SYSTEM, USER, CALLING]).check_complete(),
}
