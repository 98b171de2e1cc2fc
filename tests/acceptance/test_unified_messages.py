"""Acceptance tests of document S2: files, images, tools, control and MCP in messages."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image as Picture
from PIL import ImageDraw, ImageFont

from steno import (
    AssistantMessage,
    ChatMessage,
    Conversation,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidMessage,
    InvalidToolCall,
    InvalidValue,
    Message,
    MessageRole,
    Opaque,
    Outcome,
    OutOfOrder,
    RecognitionMode,
    Request,
    Resource,
    SystemMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    tool,
)
from steno.agent import (
    AgentRole,
    ApprovalRequest,
    CallbackApprover,
    ContextChanged,
    EndReason,
    Gate,
    Notice,
    Permissions,
    ResultCode,
    RunResult,
)
from steno.codec import decode_document, decode_message, encode_document, encode_message
from steno.context import ContextBuilder, ModelTarget
from steno.errors import ToolFailed, Unreachable, Unresolved
from steno.inputs import InputResolver, image_limits_for
from steno.log import result_code
from steno.messages import ChangeCode
from steno.ports import Capability, ResolvedReference, ToolContext
from steno.records import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Mode,
    ModeChange,
    Repair,
    Resolution,
    ResolutionStatus,
)
from steno.render import format_change
from steno.schema import validate_value
from steno.store import open_store
from steno.testing import ReplayingProvider, ScriptedTool
from steno.tools import Toolbox, Workspace
from steno.transport import RecordedResponse, ReplayTransport
from steno.wire import WIRES, load_wire
from tests.acceptance.command_line import CommandOutput, run_steno
from tests.acceptance.exchange import (
    Exchange,
    FixedReader,
    RecordingResolver,
    calls,
    details_of,
    payloads,
    text_of,
    to_json,
)
from tests.acceptance.library import SERVER, Library, link
from tests.acceptance.local_vendor import MODEL, run_vendor
from tests.acceptance.provider_responses import IMAGE_REFUSED, anthropic_stream, openai_stream

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
PROVIDER_WIRES = [name for name in WIRES if name != "chat"]  # no provider uses `chat`
SEES, BLIND = ModelTarget(vision=True), ModelTarget(vision=False)
LINE = "The invoice is due on Monday."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with text files and images, which no test changes."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "numbers.txt").write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    (folder / "secret.txt").write_text("hunter2\n", encoding="utf-8")
    (folder / "broken.png").write_bytes(b"not an image")
    picture = Picture.new("RGB", (640, 90), "white")
    ImageDraw.Draw(picture).text((20, 25), LINE, "black", ImageFont.load_default(32))
    for name in ("invoice.png", "invoice.bmp"):
        picture.save(folder / name)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A running MCP server, which sets no time to live; the user has set one of 0 s for JSON."""
    library = Library(tmp_path_factory.mktemp("library"), {"application/json": 0})
    yield library
    library.close()


class Attached(NamedTuple):
    """A session on the command line, in plan mode, with a file, an image and a resource."""

    home: Path
    output: CommandOutput
    rows: dict[str, dict[str, Any]]
    """The rows of `steno inputs --json`, by kind."""


@pytest.fixture(scope="module")
def attached(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Attached:
    """A session that the program recorded with a real OCR engine and a real MCP server."""
    home = tmp_path_factory.mktemp("home")
    server = {"command": sys.executable, "args": [str(SERVER), str(home / "reads"), "0"]}
    (home / "servers.json").write_text(json.dumps({"mcpServers": {"library": server}}))
    output = run_steno(
        *("-p", "What is in @numbers.txt:2-3, @invoice.png and @library:library://note/rules?"),
        *("--model", "offline", "--mode", "plan", "--mcp-config", home / "servers.json"),
        home=home,
        folder=folder,
    )
    listed = run_steno("inputs", "last", "--json", home=home, folder=folder)
    return Attached(home, output, {row["kind"]: row for row in json_lines(listed)})


def json_lines(output: CommandOutput) -> list[dict[str, Any]]:
    """The JSON objects that the program printed, one on each line."""
    assert output.status == 0, output.err
    return [json.loads(line) for line in output.out.splitlines()]


def encode_for(wire: str, request: Request) -> Any:
    """The JSON that a provider receives."""
    return load_wire(wire).encode_request(request).json


def image(mode: str, path: str = "invoice.png") -> Image:
    """An image of the workspace."""
    return Image(source=ImageFile(path), mode=RecognitionMode(mode))


# == Requirement: Unified Message Type Enumeration =================================================


@pytest.mark.requirement("S2-01")
@pytest.mark.parametrize(
    ("message", "kind", "role"),
    [
        (ChatMessage.user("Hello."), UserMessage, "user"),
        (ChatMessage.assistant("Hello."), AssistantMessage, "assistant"),
        (ChatMessage.system("Hello."), SystemMessage, "system"),
    ],
)
def test_plain_text_is_a_text_block_of_a_message_with_a_role(
    message: Message, kind: type, role: str
) -> None:
    assert type(message) is kind
    assert message.role is MessageRole.parse(role)
    assert message.content == (Text("Hello."),)
    assert message.text == "Hello."
    assert to_json(message) == {"type": role, "content": [{"type": "text", "text": "Hello."}]}


@pytest.mark.requirement("S2-01")
@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, SystemMessage])
def test_a_text_message_has_any_number_of_parts_in_order(kind: Any) -> None:
    parts = (Text("One, "), Text("two, "), Text("three."))
    message = kind(content=parts)
    assert message.content == parts
    assert message.text == "One, two, three."
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("S2-02")
@pytest.mark.parametrize("mode", ["vision", "ocr", "auto"])
@pytest.mark.parametrize(
    ("source", "stored"),
    [
        (ImageUrl("https://example.org/a.png"), "https://example.org/a.png"),
        (ImageData(b"\x89PNG\r\n"), "iVBORw0K"),
        (ImageFile("shots/a.png"), "shots/a.png"),
    ],
    ids=["url", "base64", "file"],
)
def test_an_image_has_a_source_and_a_recognition_mode(
    source: ImageUrl | ImageData | ImageFile, stored: str, mode: str
) -> None:
    block = Image(source=source, mime_type="image/png", mode=RecognitionMode(mode))
    assert (block.source, block.mode) == (source, mode)
    message = ChatMessage.user([Text("Look."), block])
    written = to_json(message)["content"][1]
    assert written["type"] == "image"
    assert stored in written["source"].values()
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("S2-02")
def test_the_log_stores_the_recognised_text_of_an_image_or_the_error(folder: Path) -> None:
    reader = FixedReader()
    exchange = Exchange("ok", resolver=InputResolver(folder, ocr=reader))
    exchange.send("Read.", image("ocr"))
    reader.is_broken = True
    exchange.send("Read it again.", image("ocr"))
    recognised, failed = exchange.recorded(Resolution)
    assert (recognised.status, recognised.error) == (ResolutionStatus.RESOLVED, None)
    assert reader.text in text_of(recognised)
    assert (failed.status, failed.content) == (ResolutionStatus.FAILED, ())
    assert "the engine stopped" in str(failed.error)


@pytest.mark.requirement("S2-03")
@pytest.mark.parametrize(
    ("suffix", "lines"),
    [("", {}), (":2", {"start_line": 2}), (":2-3", {"start_line": 2, "end_line": 3})],
)
def test_a_reference_in_a_prompt_is_parsed_to_a_path_and_a_range_of_lines(
    folder: Path, suffix: str, lines: dict[str, Any]
) -> None:
    prompt = f"Explain @numbers.txt{suffix}"
    message = InputResolver(folder).prompt(prompt).message
    assert message.content == (Text(prompt), FileReference(path="numbers.txt", **lines))
    reference = {"type": "file_reference", "path": "numbers.txt"}
    assert to_json(message)["content"][1] == reference | lines
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("S2-03")
def test_the_log_stores_the_content_and_the_status_of_a_file_reference(folder: Path) -> None:
    exchange = Exchange("ok", resolver=InputResolver(folder))
    exchange.send("Explain.", FileReference(path="numbers.txt", start_line=3))
    exchange.send("Explain.", FileReference(path="missing.txt"))
    resolved, failed = exchange.recorded(Resolution)
    prompt = exchange.conversation.entry(resolved.target).payload
    assert isinstance(prompt, UserMessage)
    assert prompt.content[resolved.block] == FileReference(path="numbers.txt", start_line=3)
    assert resolved.status is ResolutionStatus.RESOLVED
    assert "three" in text_of(resolved)
    assert failed.status is ResolutionStatus.FAILED
    assert "missing.txt" in str(failed.error)


@pytest.mark.requirement("S2-03")
def test_the_command_line_lists_each_reference_with_its_status(attached: Attached) -> None:
    row = attached.rows["file"]
    assert (row["name"], row["status"], row["since"]) == ("numbers.txt:2-3", "resolved", "same")


@pytest.mark.requirement("S2-04")
def test_one_message_has_several_tool_calls_with_ids_names_and_arguments() -> None:
    read = ToolCall(id="c1", name="read", arguments='{"path": "a.py", "lines": [1, 2]}')
    message = ChatMessage.assistant("I look.", [read, ToolCall(id="c2", name="list_files")])
    assert [(call.id, call.name) for call in message.tool_calls] == [
        ("c1", "read"),
        ("c2", "list_files"),
    ]
    assert read.parsed == {"path": "a.py", "lines": (1, 2)}
    kinds = [block["type"] for block in to_json(message)["content"]]
    assert kinds == ["text", "tool_call", "tool_call"]
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("S2-04")
def test_the_ids_of_tool_calls_are_unique() -> None:
    assert len({ToolCall.create("read", {}).id for _ in range(100)}) == 100
    conversation = Conversation([ChatMessage.user("Read it twice.")])
    same = ToolCall(id="c1", name="read")
    with pytest.raises(OutOfOrder) as refused:
        conversation.append(ChatMessage.assistant(None, [same, same]))
    assert refused.value.code == "call_id_repeated"


@pytest.mark.requirement("S2-04")
def test_each_tool_call_has_an_approval_status_of_its_own() -> None:
    assert {status.value for status in ApprovalStatus} == {"pending", "approved", "denied"}
    conversation = Conversation([calls("read", "write", "run")])
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
    conversation.decide("c2", ApprovalStatus.DENIED, actor="ada")
    conversation.decide("c3", ApprovalStatus.PENDING)
    approvals = payloads(conversation.entries(), Approval)
    assert {approval.call_id: approval.status.value for approval in approvals} == {
        "c1": "approved",
        "c2": "denied",
        "c3": "pending",
    }


@pytest.mark.requirement("S2-05")
def test_a_tool_result_has_the_id_of_its_call_its_content_its_status_and_its_times() -> None:
    before = datetime.now(UTC)
    exchange = Exchange(calls("look"), "ok", tools=[ScriptedTool("look", ["blue"])])
    exchange.send("Which colour?")
    (result,) = exchange.recorded(ToolResultMessage)
    assert (to_json(result)["type"], result.role) == ("tool_result", MessageRole.TOOL)
    assert (result.tool_call_id, result.content) == ("c1", (Text("blue"),))
    assert (result.outcome, result.is_error) == (Outcome.OK, False)
    assert result.started_at is not None
    assert before <= result.started_at <= datetime.now(UTC)
    assert result.duration_s is not None
    assert result.duration_s >= 0


def change_mode(conversation: Conversation) -> None:
    conversation.change_mode(Mode.PLAN)


def switch_branch(conversation: Conversation) -> None:
    conversation.fork("side-road")
    conversation.switch("side-road")


def change_model(conversation: Conversation) -> None:
    conversation.change_model("vendor/large-model")


def set_label(conversation: Conversation) -> None:
    conversation.label(conversation.entries()[0], "the-start")


@pytest.mark.requirement("S2-06")
@pytest.mark.parametrize(
    ("control", "kind", "parameters"),
    [
        (change_mode, "mode_change", {"old": "act", "new": "plan"}),
        (switch_branch, "branch_switch", {"old": "main", "new": "side-road"}),
        (change_model, "model_change", {"old": "", "new": "vendor/large-model"}),
        (set_label, "label", {"text": "the-start"}),
    ],
)
def test_a_control_entry_has_a_type_and_parameters_and_is_not_sent_to_a_model(
    control: Callable[[Conversation], None], kind: str, parameters: Mapping[str, str]
) -> None:
    conversation = Conversation([ChatMessage.system("Be brief."), ChatMessage.user("Hello.")])
    control(conversation)
    written = to_json(conversation.entries()[-1].payload)
    assert written["type"] == kind
    assert parameters.items() <= written.items()
    assert len(conversation.messages()) == 2
    request = ContextBuilder().build(conversation.entries(), ModelTarget(model="m")).request
    assert [message.role for message in request.messages] == [MessageRole.SYSTEM, MessageRole.USER]
    for wire in PROVIDER_WIRES:
        body = json.dumps(encode_for(wire, request))
        assert not [
            text for text in (kind, "side-road", "large-model", "the-start") if text in body
        ]


@pytest.mark.requirement("S2-07")
def test_a_resource_has_its_server_its_uri_its_content_its_type_and_the_time(
    library: Library,
) -> None:
    before = datetime.now(UTC)
    resolver = InputResolver(servers=library.servers)
    exchange = Exchange("ok", resolver=resolver, run=library.run)
    exchange.send("See.", link("note/seven"))
    (resolution,) = exchange.recorded(Resolution)
    (resource,) = resolution.content
    assert isinstance(resource, Resource)
    assert (resource.server, resource.uri) == ("library", "library://note/seven")
    assert (resource.text or "").startswith("note seven")
    assert resource.mime_type == "text/plain"
    assert resource.retrieved_at is not None
    assert before <= resource.retrieved_at <= datetime.now(UTC)
    assert to_json(resolution)["content"][0]["type"] == "resource"


# == Requirement: Message Type Serialization =======================================================

CALL = ToolCall(id="c1", name="read", arguments='{"path": "a.py"}')
RESOURCE = Resource(
    server="library",
    uri="library://schema",
    mime_type="text/plain",
    text="TABLE books",
    retrieved_at=datetime(2026, 1, 2, tzinfo=UTC),
)
EACH_TYPE: dict[str, Any] = {
    "system": ChatMessage.system("Be brief."),
    "user": ChatMessage.user(
        [Text("Größe?"), image("ocr"), FileReference(path="a.py", start_line=1), RESOURCE]
    ),
    "assistant": ChatMessage.assistant("I read it.", [CALL]),
    "tool_result": ChatMessage.tool_result("c1", "pass", tool_name="read", details={"lines": 1}),
    "mode_change": ModeChange(old=Mode.PLAN, new=Mode.ACT),
    "branch_switch": BranchSwitch(old="main", new="other"),
    "approval": Approval(call_id="c1", status=ApprovalStatus.PENDING, arguments_sha256="0" * 64),
    "resolution": Resolution(
        target="m1", block=1, status=ResolutionStatus.RESOLVED, content=(RESOURCE,)
    ),
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The newest JSON Schema of the stored format in the documentation."""
    newest = max(SCHEMAS.glob("*.schema.json"), key=lambda path: int(path.name.split(".")[0][6:]))
    loaded: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.requirement("S2-08")
@pytest.mark.parametrize("kind", EACH_TYPE)
def test_json_names_the_type_nests_the_data_and_fits_the_documented_schema(
    kind: str, schema: dict[str, Any]
) -> None:
    written = to_json(EACH_TYPE[kind])
    assert written["type"] == kind
    assert all(block["type"] for block in written.get("content", []))
    name = type(EACH_TYPE[kind]).__name__
    definition = {"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"}
    assert schema["$defs"][name]["description"]
    assert validate_value(written, definition) == ()
    for field in schema["$defs"][name]["required"]:
        without = {key: value for key, value in written.items() if key != field}
        assert validate_value(without, definition) != ()


@pytest.mark.requirement("S2-08")
def test_json_is_readable_by_people() -> None:
    text = encode_message(EACH_TYPE["user"]).decode()
    assert text.isprintable()
    for part in ("Größe?", '"mode":"ocr"', "2026-01-02T00:00:00Z", "TABLE books"):
        assert part in text


HOLOGRAM = b'{"type":"hologram", "beam": {"width": 1.50, "on":[true,null]}}'


@pytest.mark.requirement("S2-09")
def test_a_message_of_an_unknown_type_is_kept_byte_for_byte_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = decode_message(HOLOGRAM)
    assert isinstance(message, Opaque)
    assert (message.kind, message.raw) == ("hologram", HOLOGRAM.decode())
    assert encode_message(message) == HOLOGRAM
    (warning,) = caplog.records
    assert (warning.name, warning.levelname) == ("steno.codec", "WARNING")
    assert "hologram" in warning.getMessage()


@pytest.mark.requirement("S2-09")
def test_a_block_of_an_unknown_type_is_kept_and_the_rest_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raw = b'{"type":"user","content":[{"type":"text","text":"Hi"},' + HOLOGRAM + b"]}"
    message = decode_message(raw)
    assert isinstance(message, UserMessage)
    assert message.text == "Hi"
    block = message.content[1]
    assert isinstance(block, Opaque)
    assert block.kind == "hologram"
    assert encode_message(message) == raw
    assert "hologram" in caplog.text


@pytest.mark.requirement("S2-09")
def test_an_entry_of_an_unknown_type_is_kept_and_never_sent() -> None:
    user = b'{"v":2,"id":"m1","payload":{"type":"user","content":[{"type":"text","text":"Hi"}]}}'
    unknown = b'{"v":2,"id":"m2","parent":"m1","payload":' + HOLOGRAM + b"}"
    raw = b'{"version":2,"entries":[' + user + b"," + unknown + b"]}"
    document = decode_document(raw)
    assert isinstance(document.entries[1].payload, Opaque)
    assert encode_document(document) == raw
    request = ContextBuilder().build(document.entries, ModelTarget()).request
    assert [message.text for message in request.messages] == ["Hi"]


CURRENT: tuple[Any, ...] = (
    ChatMessage.user("Fix the bug."),
    ChatMessage.assistant(
        "I look.", [ToolCall(id="c1", name="read", arguments='{"path": "a.go"}')]
    ),
    ChatMessage.tool_result("c1", "package auth"),
)
OLD_CALL = {"id": "c1", "name": "read", "arguments": {"path": "a.go"}}
FLAT: list[dict[str, Any]] = [
    {"role": "user", "content": "Fix the bug."},
    {"role": "assistant", "content": "I look.", "tool_calls": [OLD_CALL], "function_call": None},
    {"role": "tool", "tool_call_id": "c1", "content": "package auth"},
]
TAGGED: list[dict[str, Any]] = [
    {"type": "user", "content": [{"type": "text", "text": "Fix the bug."}]},
    {
        "type": "assistant",
        "content": [{"type": "text", "text": "I look."}, {"type": "tool_call"} | OLD_CALL],
        "timestamp": "2026-02-18T12:00:00Z",
    },
    {
        "type": "tool_result",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "package auth"}],
        "is_error": False,
    },
]


def assert_current(migrated: Any) -> None:
    """Check messages of an older version; they may keep fields of that version besides."""
    for old, current in zip(migrated, CURRENT, strict=True):
        assert type(old) is type(current)
        for field in ("role", "text", "tool_call_id"):
            assert getattr(old, field) == getattr(current, field)
        read = [(call.id, call.name, call.parsed) for call in old.tool_calls]
        assert read == [(call.id, call.name, call.parsed) for call in current.tool_calls]
    assert (migrated[2].outcome, migrated[2].details, migrated[2].failure) == ("ok", None, None)


@pytest.mark.requirement("S2-10")
@pytest.mark.parametrize("older", [FLAT, TAGGED], ids=["version 0", "version 1"])
def test_one_message_of_an_older_version_is_read_like_a_current_one(older: Any) -> None:
    assert_current([decode_message(json.dumps(message)) for message in older])


@pytest.mark.requirement("S2-10")
@pytest.mark.parametrize(
    "older", [FLAT, {"version": 1, "id": "s", "messages": TAGGED}], ids=["version 0", "version 1"]
)
def test_a_document_of_an_older_version_is_migrated_when_it_is_read(older: Any) -> None:
    document = decode_document(json.dumps(older))
    assert_current(document.messages)
    written = encode_document(document)
    assert b'"version":2' in written
    assert_current(decode_document(written).messages)
    request = ContextBuilder().build(document.entries, ModelTarget()).request
    for wire in PROVIDER_WIRES:
        body = json.dumps(encode_for(wire, request))
        assert not [text for text in ('"function_call": null', "timestamp") if text in body]


@pytest.mark.requirement("S2-10")
def test_the_command_line_reads_a_file_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(FLAT), encoding="utf-8")
    imported = run_steno("sessions", "import", "old.json", home=tmp_path)
    assert imported.status == 0
    shown = run_steno("sessions", "show", imported.out.strip(), "--json", home=tmp_path)
    kinds = [row["payload"]["type"] for row in json_lines(shown)]
    assert kinds == ["user", "assistant", "tool_result"]


# == Requirement: File Reference Processing ========================================================


class Resolved(NamedTuple):
    """What happened to a prompt with a reference to a file."""

    exchange: Exchange
    result: RunResult
    returned: ResolvedReference
    recorded: Resolution

    @property
    def sent(self) -> str:
        """The text that the model received."""
        assert self.result.end_reason is EndReason.DONE
        assert self.recorded.status is ResolutionStatus.RESOLVED
        sent = text_of(self.exchange.last_request)
        assert text_of(self.recorded) in sent
        return sent

    @property
    def error_code(self) -> str | None:
        """The code of the error with which the prompt failed."""
        assert self.result.end_reason is EndReason.FAILED
        assert isinstance(self.result.error, Unresolved)
        assert (self.recorded.status, self.recorded.content) == (ResolutionStatus.FAILED, ())
        assert self.recorded.error
        assert self.exchange.script.requests == []
        return self.returned.error_code


def resolve(workspace: Path | None, path: str | Path, *lines: int, **options: Any) -> Resolved:
    """Send a prompt with a reference to a file or to its lines."""
    range_of_lines: dict[str, Any] = dict(zip(("start_line", "end_line"), lines, strict=False))
    resolver = RecordingResolver(workspace)
    exchange = Exchange("ok", resolver=resolver, **options)
    result = exchange.send("Read it.", FileReference(path=str(path), **range_of_lines))
    return Resolved(exchange, result, resolver.results[-1], exchange.recorded(Resolution)[-1])


def numbered(text: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text.splitlines()]


@pytest.mark.requirement("S2-11")
def test_an_absolute_path_is_read_and_its_content_is_recorded_and_sent(folder: Path) -> None:
    sent = resolve(folder, folder / "numbers.txt").sent
    assert all(word in sent for word in ("one", "two", "three", "four"))


@pytest.mark.requirement("S2-11")
def test_an_absolute_path_to_no_file_is_an_error(folder: Path) -> None:
    assert resolve(folder, folder / "missing.txt").error_code == "file_not_found"


@pytest.mark.requirement("S2-11")
def test_an_absolute_path_outside_of_the_workspace_is_denied(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    assert resolve(folder, tmp_path / "outside.txt").error_code == "outside_workspace"


@pytest.mark.requirement("S2-11")
def test_a_deny_rule_applies_to_an_absolute_path(folder: Path) -> None:
    gate = Gate(Permissions.of(deny=["read(secret*)"]))
    assert resolve(folder, folder / "secret.txt", gate=gate).error_code == "denied_by_rule"


@pytest.mark.requirement("S2-12")
def test_a_relative_path_starts_at_the_workspace(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numbers.txt").write_text("of the current folder", encoding="utf-8")
    sent = resolve(folder, "numbers.txt").sent
    assert "three" in sent
    assert "current folder" not in sent


@pytest.mark.requirement("S2-12")
def test_a_relative_path_without_a_workspace_is_an_error() -> None:
    assert resolve(None, "numbers.txt").error_code == "no_workspace"


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize(
    ("lines", "words"), [((1, 1), ["one"]), ((2, 3), ["two", "three"]), ((4,), ["four"])]
)
def test_exactly_the_lines_of_the_range_are_sent_with_their_numbers(
    folder: Path, lines: tuple[int, ...], words: list[str]
) -> None:
    sent = resolve(folder, "numbers.txt", *lines).sent
    for number, word in enumerate(("one", "two", "three", "four"), start=1):
        assert (word in sent) is (word in words)
        assert ([str(number), word] in numbered(sent)) is (word in words)


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize("lines", [(5, 6), (3, 5)])
def test_a_range_beyond_the_end_of_the_file_is_an_error(
    folder: Path, lines: tuple[int, int]
) -> None:
    assert resolve(folder, "numbers.txt", *lines).error_code == "line_not_found"


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ({"start_line": 0, "end_line": 1}, "out_of_range"),
        ({"start_line": -1}, "out_of_range"),
        ({"start_line": 3, "end_line": 2}, "end_before_start"),
        ({"end_line": 2}, "end_without_start"),
    ],
)
def test_an_impossible_range_is_refused(lines: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        FileReference(path="numbers.txt", **lines)
    assert refused.value.code == code


@pytest.mark.requirement("S2-13")
def test_the_command_line_sends_only_the_lines_of_the_range(attached: Attached) -> None:
    lines = numbered(attached.output.out)
    assert (["2", "two"] in lines, ["3", "three"] in lines) == (True, True)
    assert "four" not in attached.output.out


@pytest.mark.requirement("S2-14")
def test_the_planner_may_read_a_file_and_the_permission_is_recorded(folder: Path) -> None:
    gate = Gate(Permissions.of(role=AgentRole.PLANNER))
    resolved = resolve(folder, "numbers.txt", gate=gate)
    assert "one" in resolved.sent
    assert details_of(resolved.recorded)["allowed_by"]


@pytest.mark.requirement("S2-14")
def test_the_planner_gets_a_permission_error_for_a_file_that_a_rule_denies(folder: Path) -> None:
    gate = Gate(Permissions.of(role=AgentRole.PLANNER, deny=["read(secret*)"]))
    resolved = resolve(folder, "secret.txt", gate=gate)
    assert resolved.error_code == "denied_by_rule"
    assert "permission" in str(resolved.recorded.error)
    assert "hunter2" not in resolved.result.reason


@pytest.mark.requirement("S2-14")
def test_the_planner_may_not_write_a_file(tmp_path: Path) -> None:
    permissions = Permissions.of(role=AgentRole.PLANNER, allow=["write"])
    (result,) = write_file(tmp_path, Gate(permissions)).recorded(ToolResultMessage)
    assert (result.outcome, result_code(result)) == (Outcome.DENIED, ResultCode.DENIED_BY_ROLE)
    assert not (tmp_path / "a.txt").exists()


def write_file(folder: Path, gate: Gate) -> Exchange:
    """Let a model write a file with the built-in tool."""

    async def run_in_toolbox(coroutine: Any) -> RunResult:
        async with toolbox:
            result: RunResult = await coroutine
            return result

    toolbox = Toolbox(Workspace(folder))
    response = calls("write", arguments='{"path": "a.txt", "content": "written"}')
    exchange = Exchange(
        *(response, "ok"),
        tools=toolbox.tools,
        gate=gate,
        run=lambda coroutine: asyncio.run(run_in_toolbox(coroutine)),
    )
    exchange.send("Write it.")
    return exchange


# == Requirement: Tool Request Processing ==========================================================

WEATHER = [("call_9", "weather", '{"town": "Oslo"}'), ("call_3", "weather", '{"town": "Rome"}')]
OPENAI_CALLS = [
    {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": text}}
    for index, (id, name, text) in enumerate(WEATHER)
]


def decode_whole_response() -> AssistantMessage:
    message = {"role": "assistant", "content": None, "tool_calls": OPENAI_CALLS}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return load_wire("openai_chat").decode_response(json.dumps({"choices": [choice]}).encode())


def decode_streamed_response() -> AssistantMessage:
    body = openai_stream({"tool_calls": OPENAI_CALLS}, finish="tool_calls")
    request = Request(messages=(ChatMessage.user("How is the weather?"),))
    return asyncio.run(ReplayingProvider("openai_chat", [body]).stream(request).collect())


@pytest.mark.requirement("S2-15")
@pytest.mark.parametrize("decode", [decode_whole_response, decode_streamed_response])
def test_tool_calls_of_an_openai_response_keep_their_ids_and_are_parsed(
    decode: Callable[[], AssistantMessage],
) -> None:
    message = decode()
    assert [block["type"] for block in to_json(message)["content"]] == ["tool_call", "tool_call"]
    for call, (id, name, arguments) in zip(message.tool_calls, WEATHER, strict=True):
        assert isinstance(call, ToolCall)
        assert (call.id, call.name, call.arguments) == (id, name, arguments)
        assert call.parsed == json.loads(arguments)


@pytest.mark.requirement("S2-15")
def test_arguments_that_are_not_json_make_an_invalid_call_that_is_answered() -> None:
    fragment = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"to'}}
    turn = openai_stream({"tool_calls": [fragment]}, finish="tool_calls")
    provider = ReplayingProvider("openai_chat", [turn, openai_stream({"content": "Sorry."})])
    weather = ScriptedTool("weather")
    exchange = Exchange(provider=provider, tools=[weather])
    assert exchange.send("How is it?").end_reason is EndReason.DONE
    (call,) = exchange.recorded(AssistantMessage)[0].tool_calls
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.arguments) == ("call_1", '{"to')
    (result,) = exchange.recorded(ToolResultMessage)
    assert (result.tool_call_id, result.is_error) == ("call_1", True)
    assert weather.calls == []


@pytest.mark.requirement("S2-16")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_call_is_run_only_if_it_is_approved_and_its_result_is_recorded(
    tmp_path: Path, allowed: bool
) -> None:
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.call.id)
        return allowed and not (tmp_path / "a.txt").exists()

    exchange = write_file(tmp_path, Gate(Permissions.of(), CallbackApprover(decide)))
    assert asked == ["c1"]
    assert (tmp_path / "a.txt").exists() is allowed
    status = exchange.recorded(Approval)[-1].status
    assert status is (ApprovalStatus.APPROVED if allowed else ApprovalStatus.DENIED)
    (result,) = exchange.recorded(ToolResultMessage)
    assert (result.tool_call_id, result.is_error) == ("c1", not allowed)
    assert result.outcome is (Outcome.OK if allowed else Outcome.DENIED)
    assert exchange.last_request.messages[-1].text == result.text


@pytest.mark.requirement("S2-17")
def test_calls_of_a_message_are_decided_in_order_and_get_one_result_each() -> None:
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.call.id)
        return request.call.id != "c3"

    save = ScriptedTool("save", ["first", "second"], capability=Capability.WRITE)
    drop = ScriptedTool("drop", capability=Capability.WRITE)
    tools = [save, drop, ScriptedTool("look", ["seen"])]
    gate = Gate(Permissions.of(deny=["drop"]), CallbackApprover(decide))
    response = calls("save", "drop", "save", "look", "save")
    exchange = Exchange(response, "ok", tools=tools, gate=gate)
    exchange.send("Save.")
    assert asked == ["c1", "c3", "c5"]
    assert [call.id for call in save.calls] == ["c1", "c5"]
    assert drop.calls == []
    results = exchange.recorded(ToolResultMessage)
    assert [(result.tool_call_id, result.outcome.value) for result in results] == [
        ("c1", "ok"),
        ("c2", "denied"),
        ("c3", "denied"),
        ("c4", "ok"),
        ("c5", "ok"),
    ]


@pytest.mark.requirement("S2-17")
def test_calls_that_only_read_run_concurrently() -> None:
    together = asyncio.Barrier(3)

    async def meet(call: ToolCall, context: ToolContext) -> str:
        async with asyncio.timeout(20):  # a call that runs alone never passes the barrier
            await together.wait()
        return "met"

    look = ScriptedTool("look", [meet, meet, meet])
    exchange = Exchange(calls("look", "look", "look"), "ok", tools=[look])
    exchange.send("Look.")
    results = exchange.recorded(ToolResultMessage)
    assert [(result.tool_call_id, result.text) for result in results] == [
        ("c1", "met"),
        ("c2", "met"),
        ("c3", "met"),
    ]


@pytest.mark.requirement("S2-17")
def test_calls_that_write_run_one_after_the_other() -> None:
    running: list[str] = []
    overlaps: list[str] = []

    async def save(call: ToolCall, context: ToolContext) -> str:
        overlaps.extend(running)
        running.append(call.id)
        for _ in range(20):  # let others run
            await asyncio.sleep(0)
        running.remove(call.id)
        return "saved"

    tools = [ScriptedTool("save", [save, save, save], capability=Capability.WRITE)]
    gate = Gate(Permissions.of(allow=["save"]))
    exchange = Exchange(calls("save", "save", "save"), "ok", tools=tools, gate=gate)
    exchange.send("Save.")
    assert [result.text for result in exchange.recorded(ToolResultMessage)] == ["saved"] * 3
    assert overlaps == []


@pytest.mark.requirement("S2-18")
def test_pending_calls_are_presented_and_each_decision_is_stored_before_the_tool_runs(
    tmp_path: Path,
) -> None:
    address = f"sqlite:{tmp_path / 'work.db'}"
    presented: list[tuple[str, str]] = []
    stored: list[dict[str, str]] = []

    def read_statuses() -> dict[str, str]:
        with open_store(address) as other:  # as another program reads the file
            approvals = payloads(other.open(conversation.id).entries(), Approval)
        return {approval.call_id: approval.status.value for approval in approvals}

    def decide(request: ApprovalRequest) -> bool:
        presented.append((request.call.id, request.preview.text))
        stored.append(read_statuses())
        return request.call.id == "c1"

    def save(call: ToolCall, context: ToolContext) -> str:
        stored.append(read_statuses())
        return "saved"

    with open_store(address) as store:
        conversation = store.new()
        tools = [ScriptedTool("save", [save], capability=Capability.WRITE, preview="saves a file")]
        gate = Gate(Permissions.of(), CallbackApprover(decide))
        response = calls("save", "save")
        Exchange(response, "ok", conversation=conversation, tools=tools, gate=gate).send("Save.")
    assert presented == [("c1", "saves a file"), ("c2", "saves a file")]
    approved = {"c1": "approved"}
    assert stored == [{"c1": "pending"}, approved, approved | {"c2": "pending"}]
    assert read_statuses() == approved | {"c2": "denied"}


@pytest.mark.requirement("S2-18")
def test_pending_calls_survive_a_restart_and_are_decided_on_the_command_line(
    tmp_path: Path,
) -> None:
    address = f"sqlite:{tmp_path / 'work.db'}"
    with open_store(address) as store:  # the program stopped while it asked
        conversation = store.new([ChatMessage.user("Save."), calls("save", "save")])
        for call_id in ("c1", "c2"):
            conversation.decide(call_id, ApprovalStatus.PENDING)

    def run_approvals(*options: str) -> dict[str, str]:
        command = ("approvals", conversation.id, "--json", *options)
        rows = json_lines(run_steno(*command, home=tmp_path, store=address))
        return {row["call_id"]: row["status"] for row in rows}

    assert run_approvals() == {"c1": "pending", "c2": "pending"}
    run_approvals("--approve", "c1", "--deny", "c2", "--reason", "use a copy")
    assert run_approvals() == {"c1": "approved", "c2": "denied"}

    save = ScriptedTool("save", ["saved"], capability=Capability.WRITE)
    with open_store(address) as store:
        # An approval counts only with a signature of the gate: the key of the user.
        key = (tmp_path / ".config" / "steno" / "seal.key").read_bytes()
        gate = Gate(sign_text=lambda text: hmac.new(key, text.encode(), "sha256").hexdigest())
        exchange = Exchange("ok", conversation=store.open(conversation.id), tools=[save], gate=gate)
        exchange.resume()
    assert [call.id for call in save.calls] == ["c1"]
    saved, denied = exchange.recorded(ToolResultMessage)
    assert (saved.outcome, denied.outcome) == (Outcome.OK, Outcome.DENIED)
    assert "use a copy" in (denied.text or "")


# == Requirement: Tool Result Handling =============================================================


@tool(capability="read")
def count_rows(table: str) -> dict[str, Any]:
    """Count the rows of a table."""
    return {"table": table, "rows": {"cars": 2}[table]}


@pytest.mark.requirement("S2-19")
def test_a_successful_result_has_its_call_structured_output_and_metadata() -> None:
    before = datetime.now(UTC)
    response = calls("count_rows", arguments='{"table": "cars"}')
    exchange = Exchange(response, "Two.", tools=[count_rows])
    exchange.send("How many?")
    (result,) = exchange.recorded(ToolResultMessage)
    assert (result.tool_call_id, result.tool_name) == ("c1", "count_rows")
    assert (result.outcome, result.failure) == (Outcome.OK, None)
    output = {"table": "cars", "rows": 2}
    assert json.loads(result.text or "") == output
    assert output in (details_of(result), *details_of(result).values())
    assert result.started_at is not None
    assert before <= result.started_at <= datetime.now(UTC)
    assert result.duration_s is not None


@pytest.mark.requirement("S2-20")
def test_an_exception_of_a_tool_is_recorded_with_its_message_and_stack_trace() -> None:
    response = calls("count_rows", arguments='{"table": "boats"}')
    exchange = Exchange(response, "Sorry.", tools=[count_rows])
    assert exchange.send("How many?").end_reason is EndReason.DONE
    (result,) = exchange.recorded(ToolResultMessage)
    assert (result.tool_call_id, result.outcome) == ("c1", Outcome.ERROR)
    assert result.failure is not None
    assert "boats" in result.failure.message
    assert result.failure.traceback is not None
    assert "KeyError" in result.failure.traceback
    assert "in count_rows" in result.failure.traceback
    assert result.failure.recoverable is False
    assert decode_message(encode_message(result)) == result


@pytest.mark.requirement("S2-20")
@pytest.mark.parametrize("recoverable", [True, False])
def test_a_tool_states_whether_its_error_is_recoverable(recoverable: bool) -> None:
    look = ScriptedTool("look", [ToolFailed("no such town", recoverable=recoverable)])
    exchange = Exchange(calls("look"), "Sorry.", tools=[look])
    exchange.send("Look.")
    (result,) = exchange.recorded(ToolResultMessage)
    assert result.outcome is Outcome.ERROR
    assert result.failure is not None
    assert (result.failure.message, result.failure.recoverable) == ("no such town", recoverable)


def gemini_result(id: str, response: dict[str, str]) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "weather", "response": response}}


SUNNY, UNKNOWN = "sunny", "no such town"
RESULTS_BY_WIRE: dict[str, tuple[str, int, list[dict[str, Any]]]] = {
    "openai_chat": (
        "messages",
        3,
        [
            {"role": "tool", "tool_call_id": "c1", "content": SUNNY},
            {"role": "tool", "tool_call_id": "c2", "content": UNKNOWN},
        ],
    ),
    "openai_responses": (
        "input",
        3,
        [
            {"type": "function_call_output", "call_id": "c1", "output": SUNNY},
            {"type": "function_call_output", "call_id": "c2", "output": UNKNOWN},
        ],
    ),
    "anthropic_messages": (
        "messages",
        2,
        [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": SUNNY},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "is_error": True,
                        "content": UNKNOWN,
                    },
                ],
            }
        ],
    ),
    "gemini": (
        "contents",
        2,
        [
            {
                "role": "user",
                "parts": [
                    gemini_result("c1", {"output": SUNNY}),
                    gemini_result("c2", {"error": UNKNOWN}),
                ],
            }
        ],
    ),
    "ollama_chat": (
        "messages",
        3,
        [
            {"role": "tool", "tool_name": "weather", "tool_call_id": "c1", "content": SUNNY},
            {"role": "tool", "tool_name": "weather", "tool_call_id": "c2", "content": UNKNOWN},
        ],
    ),
}


@pytest.mark.requirement("S2-21")
@pytest.mark.parametrize("wire", PROVIDER_WIRES)
def test_results_follow_their_calls_in_the_format_of_the_provider(wire: str) -> None:
    weather = ScriptedTool("weather", [SUNNY, ToolFailed(UNKNOWN)])
    exchange = Exchange(
        *(calls("weather", "weather"), "It is sunny."),
        conversation=Conversation([ChatMessage.system("Be brief.")]),
        tools=[weather],
    )
    exchange.send("How is it?")
    key, position, results = RESULTS_BY_WIRE[wire]
    sent = encode_for(wire, exchange.last_request)[key]
    assert sent[position:] == results
    assert '"c2"' in json.dumps(sent[position - 1])  # the calls


@pytest.mark.requirement("S2-21")
def test_a_model_continues_with_the_results_of_its_calls() -> None:
    call = {"index": 0, "id": "call_7", "function": {"name": "look", "arguments": "{}"}}
    turn = openai_stream({"tool_calls": [call]}, finish="tool_calls")
    provider = ReplayingProvider("openai_chat", [turn, openai_stream({"content": "It is blue."})])
    exchange = Exchange(provider=provider, tools=[ScriptedTool("look", ["blue"])])
    result = exchange.send("Which colour?")
    assert (result.turns, result.text) == (2, "It is blue.")
    asked, answered = provider.sent[1].json["messages"][-2:]
    assert asked["tool_calls"][0]["id"] == "call_7"
    assert answered == {"role": "tool", "tool_call_id": "call_7", "content": "blue"}


# == Requirement: System Control Messages ==========================================================


@pytest.mark.requirement("S2-22")
def test_a_change_of_the_mode_is_recorded_and_changes_the_system_prompt() -> None:
    system = ChatMessage.system("You fix code.")
    exchange = Exchange("a", "b", conversation=Conversation([system]))
    exchange.conversation.change_mode(Mode.PLAN)
    exchange.send("Plan it.")
    change = exchange.conversation.change_mode(Mode.ACT)
    exchange.send("Do it.")
    assert change.payload == ModeChange(old=Mode.PLAN, new=Mode.ACT)
    assert [type(entry.payload) for entry in exchange.conversation.entries()] == [
        *(SystemMessage, ModeChange, UserMessage, AssistantMessage),
        *(ModeChange, UserMessage, AssistantMessage),
    ]
    planning, acting = exchange.script.requests
    assert planning.system_prompt is not None
    assert planning.system_prompt.startswith("You fix code.")
    assert "plan mode" in planning.system_prompt
    assert acting.system_prompt == "You fix code."
    roles = [message.role.value for message in acting.messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert exchange.conversation.messages()[0] == system


@pytest.mark.requirement("S2-22")
def test_the_command_line_records_a_change_from_plan_to_act(
    attached: Attached, folder: Path
) -> None:
    command = ("-c", "-p", "list files in .", "--model", "offline", "--mode", "act")
    assert run_steno(*command, home=attached.home, folder=folder).status == 0
    audit = run_steno("audit", "last", "--kind", "mode_change", "--json", home=attached.home)
    changes = [entry["audit"]["steno"] for entry in json.loads(audit.out)["entries"]]
    assert (changes[-1]["old"], changes[-1]["new"]) == ("plan", "act")


@pytest.mark.requirement("S2-23")
def test_a_switch_of_branches_is_recorded_at_its_place_and_listed_in_the_audit(
    tmp_path: Path,
) -> None:
    address = f"sqlite:{tmp_path / 'work.db'}"
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("One."), ChatMessage.assistant("Two.")])
        conversation.fork("bolder")
        switch = conversation.switch("bolder")
        conversation.append(ChatMessage.user("Three."))
        assert switch.payload == BranchSwitch(old="main", new="bolder")
        kinds = [type(entry.payload) for entry in conversation.entries("bolder")]
        assert kinds == [UserMessage, AssistantMessage, BranchSwitch, UserMessage]
        assert len(conversation.entries("main")) == 2
    command = ("audit", conversation.id, "--kind", "branch_switch", "--json")
    (entry,) = json.loads(run_steno(*command, home=tmp_path, store=address).out)["entries"]
    assert entry["id"] == switch.id
    assert entry["timestamp"]
    assert entry["audit"]["steno"] == {"type": "branch_switch", "old": "main", "new": "bolder"}


# == Requirement: Image Message Processing =========================================================


def images_in(request: Request) -> int:
    """The number of images in the last message of a request."""
    return sum(isinstance(block, Image) for block in request.messages[-1].content)


@pytest.mark.requirement("S2-24")
def test_in_vision_mode_a_model_that_accepts_images_receives_the_image(folder: Path) -> None:
    provider = ReplayingProvider("anthropic_messages", [anthropic_stream("A letter.")])
    reader = FixedReader()
    resolver = InputResolver(folder, ocr=reader)
    exchange = Exchange(provider=provider, resolver=resolver, target=SEES)
    assert exchange.send("What is it?", image("vision")).text == "A letter."
    source = provider.sent[0].json["messages"][0]["content"][1]["source"]
    sent = Picture.open(BytesIO(base64.b64decode(source["data"])))
    assert (source["media_type"], sent.format, sent.size) == ("image/png", "PNG", (640, 90))
    assert reader.images == []
    details = details_of(exchange.recorded(Resolution)[0])
    assert (details["mode"], details["used"]) == ("vision", "vision")


@pytest.mark.requirement("S2-24")
def test_in_vision_mode_a_model_that_accepts_no_images_receives_nothing(folder: Path) -> None:
    exchange = Exchange("ok", resolver=InputResolver(folder), target=BLIND)
    assert exchange.send("What is it?", image("vision")).end_reason is EndReason.FAILED
    assert exchange.script.requests == []


ANALYSES = [
    (f"A white sheet with one line:\n\n```\n{LINE}\n```\n", "A white sheet", LINE),
    (f"It shows a bill. It reads:\n\n> {LINE}\n", "It shows a bill", LINE),
    ("A white sheet with black print.", "A white sheet with black print.", None),
]


@pytest.mark.requirement("S2-24")
def test_the_response_about_an_image_is_linked_to_it_and_listed_as_its_analysis(
    folder: Path, tmp_path: Path
) -> None:
    address = f"sqlite:{tmp_path / 'work.db'}"
    responses = [response for response, _, _ in ANALYSES]
    with open_store(address) as store:
        resolver = InputResolver(folder)
        exchange = Exchange(*responses, conversation=store.new(), resolver=resolver, target=SEES)
        for _ in ANALYSES:
            exchange.send("What is it?", image("vision"))
        entries = exchange.conversation.entries()
    prompts = [entry.id for entry in entries if isinstance(entry.payload, UserMessage)]
    answers = [entry.id for entry in entries if isinstance(entry.payload, AssistantMessage)]
    written = [to_json(entry.payload) for entry in entries]
    assert [members for members in written if members["type"] == "image_analysis"] == [
        {"type": "image_analysis", "target": prompt, "block": 1, "answer": answer}
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    listed = run_steno("inputs", exchange.conversation.id, "--json", home=tmp_path, store=address)
    rows = [row["vision_analysis"] for row in json_lines(listed)]
    assert [row["answer"] for row in rows] == answers
    for row, (_, description, text) in zip(rows, ANALYSES, strict=True):
        assert row["description"].startswith(description)
        assert LINE not in row["description"]
        assert (row["text"] and row["text"].strip()) == text


@pytest.mark.requirement("S2-24")
def test_an_image_is_linked_to_the_final_response_and_not_to_one_that_calls_tools(
    folder: Path,
) -> None:
    look = ChatMessage.assistant("I look closer.", [ToolCall(id="c1", name="zoom")])
    exchange = Exchange(
        *(look, "A bill."),
        tools=[ScriptedTool("zoom", ["seen"])],
        resolver=InputResolver(folder),
        target=SEES,
    )
    exchange.send("What is it?", image("vision"))
    entries = exchange.conversation.entries()
    responses = [entry for entry in entries if isinstance(entry.payload, AssistantMessage)]
    assert [entry.message and entry.message.text for entry in responses] == [
        *("I look closer.", "A bill.")
    ]
    analyses = [to_json(entry.payload) for entry in entries]
    answers = [analysis["answer"] for analysis in analyses if analysis["type"] == "image_analysis"]
    assert answers == [responses[-1].id]


@pytest.mark.requirement("S2-24")
def test_the_response_about_an_image_is_available_for_later_messages(folder: Path) -> None:
    exchange = Exchange("A bill.", "Monday.", resolver=InputResolver(folder), target=SEES)
    exchange.send("What is it?", image("vision"))
    exchange.send("When is it due?")
    asked, answered, _ = exchange.last_request.messages
    assert [type(block) for block in asked.content] == [Text, Image]
    assert answered.text == "A bill."


@pytest.mark.requirement("S2-25")
def test_in_ocr_mode_the_installed_engine_reads_the_image_with_confidence_and_language(
    folder: Path,
) -> None:
    exchange = Exchange("ok", resolver=InputResolver(Workspace(folder)), target=SEES)
    exchange.send("What does it say?", image("ocr"))
    (resolution,) = exchange.recorded(Resolution)
    assert resolution.status is ResolutionStatus.RESOLVED
    assert LINE in text_of(resolution)
    details = details_of(resolution)
    assert (details["mode"], details["used"], details["language"]) == ("ocr", "ocr", "en")
    assert 0.5 < details["confidence"] <= 1
    assert details["engine"]
    assert images_in(exchange.last_request) == 0
    assert LINE in text_of(exchange.last_request)


@pytest.mark.requirement("S2-25")
def test_in_ocr_mode_the_record_has_what_the_engine_states(folder: Path) -> None:
    exchange = Exchange("ok", resolver=InputResolver(folder, ocr=FixedReader()), target=SEES)
    exchange.send("What does it say?", image("ocr"))
    (resolution,) = exchange.recorded(Resolution)
    assert FixedReader.text in text_of(resolution)
    details = details_of(resolution)
    assert (details["confidence"], details["language"]) == (0.87, "en")
    assert details["engine"] == "test engine"


@pytest.mark.requirement("S2-26")
def test_in_auto_mode_a_model_that_accepts_images_receives_the_image_without_ocr(
    folder: Path,
) -> None:
    reader = FixedReader()
    exchange = Exchange("A bill.", resolver=InputResolver(folder, ocr=reader), target=SEES)
    exchange.send("What is it?", image("auto"))
    assert images_in(exchange.last_request) == 1
    assert reader.images == []
    details = details_of(exchange.recorded(Resolution)[0])
    assert (details["mode"], details["used"]) == ("auto", "vision")


@pytest.mark.requirement("S2-26")
def test_in_auto_mode_the_text_is_sent_after_the_provider_refused_the_image(folder: Path) -> None:
    reader = FixedReader()
    recordings = [IMAGE_REFUSED, openai_stream({"content": "A bill."})]
    provider = ReplayingProvider("openai_chat", recordings)
    resolver = InputResolver(folder, ocr=reader)
    exchange = Exchange(provider=provider, resolver=resolver, target=SEES)
    assert exchange.send("What is it?", image("auto")).text == "A bill."
    first, second = (json.dumps(sent.json) for sent in provider.sent)
    assert ("image_url" in first, reader.text in first) == (True, False)
    assert ("image_url" in second, reader.text in second) == (False, True)
    assert len(reader.images) == 1
    used = [details_of(resolution)["used"] for resolution in exchange.recorded(Resolution)]
    assert used == ["vision", "ocr"]


@pytest.mark.requirement("S2-27")
def test_in_auto_mode_a_model_that_accepts_no_images_receives_text_and_the_user_is_informed(
    folder: Path,
) -> None:
    reader = FixedReader()
    exchange = Exchange("ok", resolver=InputResolver(folder, ocr=reader), target=BLIND)
    exchange.send("What is it?", image("auto"))
    assert len(exchange.script.requests) == 1
    assert images_in(exchange.last_request) == 0
    assert reader.text in text_of(exchange.last_request)
    details = details_of(exchange.recorded(Resolution)[0])
    assert (details["used"], details["fallback_kind"]) == ("ocr", "blind")
    notices = [notice.text for notice in exchange.reported(Notice)]
    assert any(details["fallback"] in text and "invoice.png" in text for text in notices)


@pytest.mark.requirement("S2-25", "S2-27")
def test_the_command_line_reports_that_an_image_was_sent_as_its_text(attached: Attached) -> None:
    assert attached.output.status == 0
    assert LINE in attached.output.out
    row = attached.rows["image"]
    assert (row["name"], row["status"]) == ("invoice.png", "resolved")
    assert (row["details"]["used"], row["details"]["language"]) == ("ocr", "en")
    assert row["details"]["fallback"] in attached.output.err
    assert "invoice.png" in attached.output.err


ADDRESS = "https://93.184.215.14/invoice.png"  # a public address, so that no name is looked up


@pytest.mark.requirement("S2-28")
@pytest.mark.parametrize("fault", ["invalid format", "network error", "engine error"])
def test_a_failed_recognition_is_recorded_reported_and_can_be_tried_again(
    folder: Path, tmp_path: Path, fault: str
) -> None:
    picture = (folder / "invoice.png").read_bytes()
    name = "broken.png" if fault == "invalid format" else "invoice.png"
    (tmp_path / "invoice.png").write_bytes((folder / name).read_bytes())
    reader = FixedReader(is_broken=fault == "engine error")
    found = RecordedResponse((picture,), content_type="image/png")
    answers: Iterator[Any] = iter([Unreachable("connection reset"), found])
    resolver = InputResolver(
        tmp_path, ocr=reader, transport=lambda: ReplayTransport([next(answers)])
    )
    gate = Gate(Permissions.of(allow=["fetch(https://93.184.215.14/**)"]))
    exchange = Exchange("ok", resolver=resolver, target=SEES, gate=gate)
    block = image("ocr")
    if fault == "network error":
        block = Image(source=ImageUrl(ADDRESS), mode=RecognitionMode.OCR)

    result = exchange.send("Read.", block)
    (failed,) = exchange.recorded(Resolution)
    assert failed.status is ResolutionStatus.FAILED
    assert failed.error
    assert "invoice.png" in failed.error
    assert result.end_reason is EndReason.FAILED
    assert failed.error in result.reason
    assert exchange.script.requests == []

    (tmp_path / "invoice.png").write_bytes(picture)
    reader.is_broken = False
    assert exchange.send("Read.", block).end_reason is EndReason.DONE
    assert reader.text in text_of(exchange.last_request)


REMOTE = "http://93.184.215.14/invoice.png"


@pytest.mark.requirement("S2-28")
@pytest.mark.parametrize("fault", ["invalid format", "network error"])
def test_the_command_line_names_a_failed_image_and_sends_the_same_prompt_again(
    folder: Path, tmp_path: Path, fault: str
) -> None:
    picture = (folder / "invoice.png").read_bytes()
    (tmp_path / "invoice.png").write_bytes(b"not an image")
    address = f"sqlite:{tmp_path / 'work.db'}"
    name = REMOTE if fault == "network error" else "invoice.png"
    steno = partial(run_steno, home=tmp_path, store=address)
    options = ("--model", MODEL, "--allow", "fetch(http://93.184.215.14/**)")
    with run_vendor("A bill.", pages={REMOTE: picture}) as vendor:
        configuration = tmp_path / ".config" / "steno" / "config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(vendor.settings, encoding="utf-8")
        prompt = ("-p", f"What is in @{name}?", *options)
        failed = steno(*prompt, http_proxy="http://127.0.0.1:9")  # no server has this port
        assert vendor.received == []
        (tmp_path / "invoice.png").write_bytes(picture)
        tried = steno("-c", "--retry", *options, http_proxy=vendor.address)
    assert (failed.status, failed.out) == (1, "")
    assert name in failed.err
    assert "--retry" in failed.err
    assert (tried.status, tried.out) == (0, "A bill.\n"), tried.err
    [received] = vendor.received
    assert f"What is in @{name}?" in json.dumps(received["messages"][-1])
    media_type, data = find_image("openai_chat", received)
    sent = Picture.open(BytesIO(base64.b64decode(data)))
    assert (media_type, sent.size) == ("image/png", (640, 90))

    with open_store(address) as store:
        [header] = store.headers()
        entries = [record.entry for record in store.records(header.id) if record.entry]
    first, second = payloads(entries, UserMessage)
    assert first == second
    broken, read = payloads(entries, Resolution)
    assert (broken.status, read.status) == (ResolutionStatus.FAILED, ResolutionStatus.RESOLVED)
    assert broken.error
    assert broken.error in failed.err


def data_url(url: str) -> tuple[str, str]:
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return media_type, data


def find_image(wire: str, body: Any) -> tuple[str | None, str]:
    """The media type and the base64 text of an image at the end of the last message."""
    match wire:
        case "openai_chat":
            return data_url(body["messages"][-1]["content"][-1]["image_url"]["url"])
        case "openai_responses":
            return data_url(body["input"][-1]["content"][-1]["image_url"])
        case "anthropic_messages":
            source = body["messages"][-1]["content"][-1]["source"]
            return source["media_type"], source["data"]
        case "gemini":
            data = body["contents"][-1]["parts"][-1]["inlineData"]
            return data["mimeType"], data["data"]
        case _:
            return None, body["messages"][-1]["images"][-1]


def assert_no_internal_details(body: Any, details: Mapping[str, Any]) -> None:
    """Check that the body of a request has no details that are for the log only."""
    text = json.dumps(body)
    internal = ["allowed_by", "duration_s", "fallback", "sha256", details["sha256"]]
    internal += [details["allowed_by"], details.get("engine", "sha256")]
    assert [word for word in internal if word in text] == []


@pytest.mark.requirement("S2-29")
@pytest.mark.parametrize("wire", PROVIDER_WIRES)
def test_an_image_is_sent_in_the_format_and_at_the_place_that_the_provider_expects(
    folder: Path, wire: str
) -> None:
    resolver = InputResolver(folder, image_limits=image_limits_for(wire))
    exchange = Exchange("ok", resolver=resolver, target=SEES)
    exchange.send("What is it?", image("vision", "invoice.bmp"))
    body = encode_for(wire, exchange.last_request)
    media_type, data = find_image(wire, body)
    sent = Picture.open(BytesIO(base64.b64decode(data, validate=True)))
    assert sent.size == (640, 90)
    assert sent.format in {"PNG", "JPEG"}  # all providers accept both, and none accepts BMP
    assert media_type in {None, Picture.MIME[sent.format]}
    details = details_of(exchange.recorded(Resolution)[0])
    assert details["mime_type"] == "image/bmp"
    assert_no_internal_details(body, details)


@pytest.mark.requirement("S2-29")
@pytest.mark.parametrize("wire", PROVIDER_WIRES)
def test_recognised_text_is_sent_as_text_without_the_image(folder: Path, wire: str) -> None:
    resolver = InputResolver(folder, ocr=FixedReader())
    exchange = Exchange("ok", resolver=resolver, target=SEES)
    exchange.send("What is it?", image("ocr"))
    body = encode_for(wire, exchange.last_request)
    assert FixedReader.text in "".join(texts_of_prompt(wire, body))
    picture = base64.b64encode((folder / "invoice.png").read_bytes()).decode()
    assert picture[:40] not in json.dumps(body)
    assert_no_internal_details(body, details_of(exchange.recorded(Resolution)[0]))


def texts_of_prompt(wire: str, body: Any) -> list[str]:
    """The texts of the last message in the body of a request."""
    if wire == "gemini":
        return [part["text"] for part in body["contents"][-1]["parts"]]
    content = body["input" if wire == "openai_responses" else "messages"][-1]["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


# == Requirement: MCP Resource Message Handling ====================================================


@pytest.fixture
def reading(library: Library) -> Callable[..., Exchange]:
    """Create an exchange whose prompts refer to resources of the server."""

    def create(*responses: Any, **options: Any) -> Exchange:
        options.setdefault("resolver", InputResolver(servers=library.servers))
        return Exchange(*responses, run=library.run, **options)

    return create


def resource_in(resolution: Resolution) -> Resource:
    """The resource that was read."""
    (resource,) = resolution.content
    assert isinstance(resource, Resource)
    return resource


@pytest.mark.requirement("S2-30")
def test_a_resource_is_read_from_its_server_and_added_to_the_active_branch(
    library: Library, reading: Callable[..., Exchange]
) -> None:
    exchange = reading("ok", conversation=Conversation([ChatMessage.system("Be brief.")]))
    exchange.conversation.fork("side")
    exchange.conversation.switch("side")
    exchange.send("What are the rules?", link("note/branch"))
    assert library.count_reads(link("note/branch")) == 1
    (resolution,) = payloads(exchange.conversation.entries("side"), Resolution)
    assert payloads(exchange.conversation.entries("main"), Resolution) == []
    text = resource_in(resolution).text or ""
    assert text.startswith("note branch")
    assert text in text_of(exchange.last_request)
    assert [message.role.value for message in exchange.last_request.messages] == ["system", "user"]
    assert exchange.last_request.tools == ()  # the model needs no tool to read the resource


@pytest.mark.requirement("S2-30")
def test_the_command_line_attaches_a_resource_of_a_configured_server(attached: Attached) -> None:
    assert "note rules, read number 1" in attached.output.out
    row = attached.rows["resource"]
    assert row["status"] == "resolved"
    assert (row["details"]["server"], row["details"]["uri"]) == ("library", "library://note/rules")
    assert (attached.home / "reads").read_text(encoding="utf-8") == "library://note/rules\n"


@pytest.mark.requirement("S2-31")
@pytest.mark.parametrize("wire", PROVIDER_WIRES)
def test_a_model_receives_a_resource_as_information_of_the_system(
    reading: Callable[..., Exchange], wire: str
) -> None:
    exchange = reading("ok")
    exchange.send("What are the rules?", link("note/framed"))
    body = encode_for(wire, exchange.last_request)
    frame = frame_before("note framed, read number ", texts_of_prompt(wire, body))
    assert "library://note/framed" in frame
    assert "system" in frame
    details = details_of(exchange.recorded(Resolution)[0])
    assert (details["server"], details["uri"]) == ("library", "library://note/framed")
    assert details["mime_type"] == "text/plain"
    assert datetime.fromisoformat(details["retrieved_at"]) <= datetime.now(UTC)
    assert_no_internal_details(body, details)


def frame_before(content: str, texts: list[str]) -> str:
    """The text between the prompt, which is a line, and the content of an attachment."""
    text = "\n".join(texts)
    assert content in text
    return text.partition(content)[0].partition("\n")[2]


@pytest.mark.requirement("S2-31")
@pytest.mark.parametrize("wire", PROVIDER_WIRES)
def test_a_resource_is_information_of_the_system_also_without_a_resolver(wire: str) -> None:
    exchange = Exchange("ok")
    exchange.send("Which tables are there?", RESOURCE)
    texts = texts_of_prompt(wire, encode_for(wire, exchange.last_request))
    frame = frame_before("TABLE books", texts)
    assert RESOURCE.uri in frame
    assert "system" in frame


@pytest.mark.requirement("S2-31")
def test_a_long_resource_is_shortened_to_fit_and_kept_whole_in_the_log(
    reading: Callable[..., Exchange],
) -> None:
    exchange = reading("ok", target=ModelTarget(context_tokens=4_000))
    exchange.send("Summarise.", link("archive/old"))
    sent = text_of(exchange.last_request)
    assert "old, document 0000" in sent
    assert len(sent) < 4_000 * 4  # a token has about four characters
    (resolution,) = exchange.recorded(Resolution)
    assert len(resource_in(resolution).text or "") > 40_000
    changes = [event.change.code for event in exchange.reported(ContextChanged)]
    assert ChangeCode.SHORTENED in changes


@pytest.mark.requirement("S2-32")
def test_a_resource_is_read_once_and_used_again_while_it_is_fresh(
    library: Library, reading: Callable[..., Exchange]
) -> None:
    exchange = reading("a", "b", "c")
    exchange.send("What are the rules?", link("note/cached"))
    exchange.send("Once more.", link("note/cached"))
    exchange.send("Thanks.")
    assert library.count_reads(link("note/cached")) == 1
    first, second = exchange.recorded(Resolution)
    assert first.content == second.content
    assert (details_of(first)["from_cache"], details_of(second)["from_cache"]) == (False, True)


def retrieved(link: Resource, *, minutes_ago: int, target: str = "m1") -> Resolution:
    """The resolution of a resource that was read from a server without times."""
    time = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    details = {"kind": "resource", "server": link.server, "uri": link.uri}
    details |= {"mime_type": "text/plain", "retrieved_at": time.isoformat()}
    resource = Resource(
        server=link.server, uri=link.uri, mime_type="text/plain", text="x", retrieved_at=time
    )
    return Resolution(
        target=target,
        block=1,
        status=ResolutionStatus.RESOLVED,
        content=(resource,),
        details=details | {"ttl_s": 3600},
    )


@pytest.mark.requirement("S2-32")
def test_a_resource_is_fresh_for_one_hour_if_no_time_is_set(
    library: Library, reading: Callable[..., Exchange]
) -> None:
    exchange = reading("a")
    exchange.send("What are the rules?", link("note/hour"))
    assert details_of(exchange.recorded(Resolution)[0])["ttl_s"] == 3600
    resolver = InputResolver(servers=library.servers)
    assert resolver.is_fresh(retrieved(link("note/young"), minutes_ago=59))
    assert not resolver.is_fresh(retrieved(link("note/old"), minutes_ago=61))


@pytest.mark.requirement("S2-32")
def test_the_command_line_lists_whether_a_resource_is_fresh_or_stale(
    attached: Attached, tmp_path: Path
) -> None:
    assert attached.rows["resource"]["since"] == "fresh"
    address = f"sqlite:{tmp_path / 'work.db'}"
    with open_store(address) as store:
        conversation = store.new()
        for minutes in (5, 300):
            block = link(f"note/{minutes}")
            prompt = conversation.append(ChatMessage.user([Text("See."), block]))
            conversation.append(retrieved(block, minutes_ago=minutes, target=prompt.id))
            conversation.append(ChatMessage.assistant("ok"))
    listed = run_steno("inputs", conversation.id, "--json", home=tmp_path, store=address)
    assert [row["since"] for row in json_lines(listed)] == ["fresh", "stale"]


@pytest.mark.requirement("S2-32")
def test_a_stale_resource_is_read_again(library: Library, reading: Callable[..., Exchange]) -> None:
    resolver = InputResolver(servers=library.servers, resource_ttl_s=1e-6)
    exchange = reading("a", "b", resolver=resolver)
    exchange.send("What are the rules?", link("note/stale"))
    exchange.send("And now?", link("note/stale"))
    assert library.count_reads(link("note/stale")) == 2


@pytest.mark.requirement("S2-32")
def test_a_setting_per_type_decides_and_an_earlier_message_keeps_its_content(
    library: Library, reading: Callable[..., Exchange]
) -> None:
    exchange = reading("a", "b", "c")  # the cache is off for JSON
    exchange.send("Which rows?", link("table/typed"), link("note/typed"))
    exchange.send("And now?", link("table/typed"), link("note/typed"))
    exchange.send("Thanks.")
    assert library.count_reads(link("table/typed")) == 2
    assert library.count_reads(link("note/typed")) == 1
    resources = [resource_in(resolution) for resolution in exchange.recorded(Resolution)]
    first, second = (resource for resource in resources if resource.uri == link("table/typed").uri)
    assert first.text != second.text
    earlier, later, _ = (message.text or "" for message in exchange.last_request.messages[::2])
    assert (str(first.text) in earlier, str(second.text) in earlier) == (True, False)
    assert (str(first.text) in later, str(second.text) in later) == (False, True)


DAY_S = 24 * 60 * 60


@pytest.mark.requirement("S2-32")
@pytest.mark.parametrize(
    ("server_s", "user_s", "expected_s", "reads"),
    [
        (90, {"text/*": 30}, {"note/a": 30, "table/a": 90}, {"note/a": 1, "table/a": 1}),
        (9 * DAY_S, {"*/json": 0}, {"note/a": DAY_S, "table/a": 0}, {"note/a": 1, "table/a": 2}),
    ],
)
def test_a_setting_per_type_comes_first_and_then_the_time_of_the_server_of_at_most_a_day(
    server_s: int,
    user_s: Mapping[str, float],
    expected_s: Mapping[str, float],
    reads: Mapping[str, int],
    tmp_path: Path,
) -> None:
    """Without either, a resource would be stale at once: the default is set to a microsecond."""
    library = Library(tmp_path, user_s, ttl_ms=server_s * 1_000)
    try:
        resolver = InputResolver(servers=library.servers, resource_ttl_s=1e-6)
        exchange = Exchange("a", "b", run=library.run, resolver=resolver)
        for prompt in ("Which rules?", "And now?"):
            exchange.send(prompt, *map(link, expected_s))
    finally:
        library.close()
    details = [details_of(resolution) for resolution in exchange.recorded(Resolution)]
    assert [found["ttl_s"] for found in details] == [*expected_s.values()] * 2
    assert {path: library.count_reads(link(path)) for path in reads} == reads


@pytest.mark.requirement("S2-32")
def test_a_resource_is_read_at_most_once_in_a_turn(
    library: Library, reading: Callable[..., Exchange]
) -> None:
    exchange = reading(calls("look"), "ok", tools=[ScriptedTool("look", ["seen"])])
    exchange.send("Compare.", link("table/twice"), link("table/twice"))
    assert len(exchange.script.requests) == 2
    assert library.count_reads(link("table/twice")) == 1


def use_shelves(reading: Callable[..., Exchange]) -> tuple[Exchange, dict[str, str]]:
    """Refer to two resources of about 1,200 tokens; the first is the last one that was used."""
    exchange = reading("a", "b", "c", target=ModelTarget(resource_tokens=100_000))
    for path in ("shelf/first", "shelf/second", "shelf/first"):
        exchange.send("See.", link(path))
    used = {resource_in(made).uri: made.target for made in exchange.recorded(Resolution)}
    return exchange, used


@pytest.mark.requirement("S2-33")
def test_resources_are_sent_whole_while_there_is_room(reading: Callable[..., Exchange]) -> None:
    exchange, _ = use_shelves(reading)
    texts = [message.text or "" for message in exchange.last_request.messages[::2]]
    assert ["book 060" in text for text in texts] == [True, True, True]
    assert exchange.reported(ContextChanged) == []


@pytest.mark.requirement("S2-33")
def test_the_resource_that_was_used_last_is_the_last_to_be_shortened(
    reading: Callable[..., Exchange],
) -> None:
    exchange, _ = use_shelves(reading)
    target = ModelTarget(resource_tokens=2_700)
    smaller = reading("d", conversation=exchange.conversation, target=target)
    smaller.send("Which books?")
    texts = [message.text or "" for message in smaller.last_request.messages[:-1:2]]
    assert ["book 060" in text for text in texts] == [False, False, True]


@pytest.mark.requirement("S2-33")
def test_a_resource_that_was_not_used_recently_is_left_out_and_the_log_names_it(
    reading: Callable[..., Exchange],
) -> None:
    exchange, used = use_shelves(reading)
    target = ModelTarget(resource_tokens=800)
    smaller = reading("d", conversation=exchange.conversation, target=target)
    smaller.send("Which books?")
    sent = text_of(smaller.last_request)
    assert ("first, book 000" in sent, "second, book 000" in sent) == (True, False)
    changes = [event.change for event in smaller.reported(ContextChanged)]
    removed = [change for change in changes if change.code is ChangeCode.RESOURCE_LEFT_OUT]
    entries = [change.entry for change in removed]
    assert used["library://shelf/second"] in entries
    assert used["library://shelf/first"] not in entries
    assert any("library://shelf/second" in format_change(change) for change in removed)
    repairs = payloads(smaller.conversation.entries(), Repair)
    assert used["library://shelf/second"] in [repair.target for repair in repairs]


# == Requirement: Message Type Validation ==========================================================


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize("text", ["", " ", "\n\t"])
@pytest.mark.parametrize("create", [ChatMessage.user, ChatMessage.system])
def test_a_user_or_system_message_without_text_is_refused(
    create: Callable[[str], Message], text: str
) -> None:
    with pytest.raises(InvalidMessage) as refused:
        create(text)
    assert refused.value.code == "blank"


@pytest.mark.requirement("S2-34")
def test_empty_text_is_allowed_for_the_assistant_and_for_results() -> None:
    assert ChatMessage.assistant("").text == ""
    assert ChatMessage.tool_result("c1", "").text == ""


@pytest.mark.requirement("S2-34")
def test_a_role_is_one_of_the_four_roles() -> None:
    assert {role.value for role in MessageRole} == {"system", "user", "assistant", "tool"}
    with pytest.raises(InvalidMessage) as refused:
        MessageRole.parse("wizard")
    assert refused.value.code == "unknown_role"
    assert isinstance(decode_message('{"role": "wizard", "content": "Hi"}'), Opaque)


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_empty_text_among_other_parts_of_a_user_message_is_refused(position: int) -> None:
    parts: list[Any] = [Text("Look."), image("auto"), Text("Well?")]
    assert ChatMessage.user(parts).content == tuple(parts)
    parts.insert(position, Text(""))
    with pytest.raises(InvalidMessage) as refused:
        ChatMessage.user(parts)
    assert f"content[{position}]" in refused.value.field


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize("part", [3, "text", CALL, None])
def test_a_part_of_a_wrong_type_is_refused_with_its_position(part: Any) -> None:
    with pytest.raises(InvalidMessage) as refused:
        ChatMessage.user([Text("Hi"), part])
    assert (refused.value.code, refused.value.field) == ("wrong_type", "content[1]")


PNG = ImageData(b"\x89PNG\r\n")
RULES: Callable[..., Resource] = partial(Resource, server="library", uri="library://note/rules")
NO_ZONE = datetime(2026, 6, 1)  # noqa: DTZ001 - the zone is missing on purpose

BROKEN_PARTS: list[tuple[Callable[[], object], str, str]] = [
    (partial(Text, "half of \ud83d"), "lone_surrogate", "text"),
    (partial(FileReference, path=""), "empty", "path"),
    (partial(FileReference, path="a\0b"), "nul_character", "path"),
    (partial(FileReference, path="../a"), "path_leaves_root", "path"),
    (partial(FileReference, path="a", start_line=0), "out_of_range", "start_line"),
    (partial(FileReference, path="a", start_line=3, end_line=2), "end_before_start", "end_line"),
    (partial(FileReference, path="a", end_line=2), "end_without_start", "end_line"),
    (partial(RULES, server=""), "empty", "server"),
    (partial(RULES, uri=""), "empty", "uri"),
    (partial(RULES, text="a", data=b"a"), "text_and_data", "data"),
    (partial(RULES, text="\ud83d"), "lone_surrogate", "text"),
    (partial(RULES, retrieved_at=NO_ZONE), "no_time_zone", "retrieved_at"),
    (partial(Image, source=PNG), "missing_mime_type", "mime_type"),
    (partial(Image, source=PNG, mime_type="text/plain"), "invalid_mime_type", "mime_type"),
    (partial(Image, source=ImageFile("a.png"), mode="ocr"), "wrong_type", "mode"),  # type: ignore[arg-type]
    (partial(ImageData, b""), "empty", "data"),
    (partial(ImageBlob, sha256="ab", size=1), "not_sha256", "sha256"),
    (partial(ImageBlob, sha256="ab" * 32, size=0), "out_of_range", "size"),
    (partial(ImageUrl, "file:///etc/passwd"), "invalid_url", "url"),
    (partial(ImageFile, ""), "empty", "path"),
    (partial(ImageFile, "../a.png"), "path_leaves_root", "path"),
    (partial(Thinking, "hm", redacted=True), "redacted_without_seal", "seal"),
    (partial(Opaque, kind="new", raw="{", origin="steno"), "not_json", "raw"),
]


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize(("make", "code", "field"), BROKEN_PARTS)
def test_a_part_that_breaks_a_rule_of_its_type_is_refused(
    make: Callable[[], object], code: str, field: str
) -> None:
    with pytest.raises(InvalidMessage) as refused:
        make()
    assert (refused.value.code, refused.value.field) == (code, field)


@pytest.mark.requirement("S2-35")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "empty"),
        ("..", "path_leaves_root"),
        ("../secret.txt", "path_leaves_root"),
        ("notes/../../secret.txt", "path_leaves_root"),
    ],
)
def test_an_empty_path_and_a_path_that_leaves_its_root_are_refused(path: str, code: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        FileReference(path=path)
    assert (refused.value.code, refused.value.field) == (code, "path")


@pytest.mark.requirement("S2-35")
def test_a_stored_reference_that_breaks_a_rule_is_kept_and_not_opened() -> None:
    reference = '{"type":"file_reference","path":"../secret.txt"}'
    raw = '{"type":"user","content":[{"type":"text","text":"Hi"},' + reference + "]}"
    message = decode_message(raw)
    assert isinstance(message, UserMessage)
    assert isinstance(message.content[1], Opaque)
    assert encode_message(message).decode() == raw


@pytest.mark.requirement("S2-35")
def test_the_last_line_of_a_range_is_not_before_the_first() -> None:
    for end in (3, 4):
        reference = FileReference(path="a.py", start_line=3, end_line=end)
        assert (reference.start_line, reference.end_line) == (3, end)
    with pytest.raises(InvalidMessage) as refused:
        FileReference(path="a.py", start_line=3, end_line=2)
    assert (refused.value.code, refused.value.field) == ("end_before_start", "end_line")


@pytest.mark.requirement("S2-35")
@pytest.mark.parametrize(
    ("path", "normalized"),
    [
        ("./notes//a.txt", "notes/a.txt"),
        ("notes/./old/../a.txt", "notes/a.txt"),
        ("/srv/./notes/../a.txt", "/srv/a.txt"),
    ],
)
def test_a_path_is_normalized(path: str, normalized: str) -> None:
    assert FileReference(path=path) == FileReference(path=normalized)
    assert FileReference(path=path).path == normalized


@pytest.mark.requirement("S2-35")
def test_a_link_that_leads_out_of_the_workspace_is_not_opened(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link.txt").symlink_to(folder / "secret.txt")
    assert resolve(tmp_path, "link.txt").error_code == "outside_workspace"


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("name", ""),
        ("name", "read file"),
        ("name", "fs.read"),
        ("name", "n" * 65),
        ("arguments", ""),
        ("arguments", '{"path": '),
        ("arguments", "{'path': 1}"),
        ("arguments", '["a"]'),
        ("arguments", "null"),
    ],
)
def test_a_tool_call_without_id_valid_name_or_json_arguments_is_refused(
    field: str, value: str
) -> None:
    members: dict[str, Any] = {"id": "c1", "name": "read", "arguments": '{"path": "a.py"}'}
    assert ToolCall(**members).parsed == {"path": "a.py"}
    with pytest.raises(InvalidMessage) as refused:
        ToolCall(**members | {field: value})
    assert refused.value.field == field


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize("status", ["maybe", "APPROVED", "", None])
def test_an_approval_status_outside_of_the_enumeration_is_refused(status: Any) -> None:
    conversation = Conversation([calls("read")])
    with pytest.raises(InvalidValue):
        conversation.decide("c1", status, actor="ada")
    with pytest.raises(InvalidValue):
        Approval(call_id="c1", status=status, arguments_sha256="0" * 64, actor="ada")
    conversation.decide("c1", "approved", actor="ada")
    statuses = [approval.status for approval in payloads(conversation.entries(), Approval)]
    assert statuses == [ApprovalStatus.APPROVED]
