"""Decode requests of generateContent.

Ids are optional in this protocol: a result is matched with a call of the turn before it by id, or
else by name and order. Calls in steno always have an id, so a call without one gets an id that
depends only on the request; the recorded id is noted.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidValue
from steno.messages.call import AnyToolCall, InvalidToolCall, build_call
from steno.messages.content import Text
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.values import FORM_KEY
from steno.wire.extras import Members
from steno.wire.gemini.parts import (
    EitherCaseMembers,
    read_image_or_opaque,
    read_opaque,
    read_text_or_thinking,
    read_user_text,
    take_seal,
)
from steno.wire.gemini.payload import (
    FUNCTION_CALL,
    FUNCTION_RESPONSE,
    LEGAL_NAME,
    NAME,
    PROVIDER,
    THOUGHT_SIGNATURE,
)
from steno.wire.gemini.tools import read_tools
from steno.wire.request_decoder import (
    CallIdGenerator,
    build_opaque_message,
    preserve_empty_text,
    take_messages,
    take_settings,
)
from steno.wire.request_encoder import RequestTarget
from steno.wire.tolerant import raw_text

_USER_ROLES: Final = frozenset({None, "user", "function", "tool"})
_read_prompt_text: Final = preserve_empty_text(read_user_text, NAME)
_JSON_RESPONSE: Final = "json"
_TOOL_CHOICE_BY_MODE: Final = {"AUTO": "auto", "NONE": "none", "ANY": "required"}


def decode_request(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> Request:
    """Decode a recorded request; unknown members are kept in extras and opaque blocks.

    Pass the model, which is part of the URL, as `model`; a model in the body takes precedence.
    Seals (thought signatures) are bound to `provider` and the model. Raises InvalidRequest if
    `data` is not a request of this protocol.
    """
    body = EitherCaseMembers(data, "request")
    contents = take_messages(body, "contents")
    named = body.take("model", str)
    if named is not None:
        body.form["model"] = "body"
    tools = read_tools(body)
    settings: Members = {}
    config = body.take_object("generationConfig")
    if config is not None:
        settings = take_settings(
            config, limit="maxOutputTokens", stop="stopSequences", top_p="topP"
        )
        body.keep_rest("generationConfig", config, is_empty_kept=not settings)
    settings |= _read_tool_choice(body, tools)
    target = RequestTarget(provider, NAME, named or model or "")
    reader = _ContentsReader(target, CallIdGenerator(body.raw, f"{NAME}_call_"))
    messages = _read_system(body)
    for position, raw in enumerate(contents):
        messages += reader.read(raw, f"contents[{position}]")
    return Request(
        messages=tuple(messages), model=target.model, tools=tools, **settings, extras=body.extras()
    )


def _read_tool_choice(body: EitherCaseMembers, tools: tuple[ToolDefinition, ...]) -> Members:
    """Take the tool choice, if steno has an equivalent; any other choice becomes an extra."""
    config = body.take_object("toolConfig")
    if config is None:
        return {}
    calling = config.take_object("functionCallingConfig")
    choice = None
    if calling is not None:
        names = calling.peek("allowedFunctionNames", list[str])
        choice = _TOOL_CHOICE_BY_MODE.get(calling.peek("mode", str) or "")
        if "allowedFunctionNames" in calling:
            known = {tool.original_name or tool.name: tool.name for tool in tools}
            is_one = choice == "required" and names is not None and len(names) == 1
            choice = known.get(names[0]) if is_one and names else None
            choice = None if choice in _TOOL_CHOICE_BY_MODE.values() else choice
        if choice is not None:
            calling.take("mode", str)
            calling.take("allowedFunctionNames", list[str])
        config.keep_rest("functionCallingConfig", calling, is_empty_kept=choice is None)
    body.keep_rest("toolConfig", config, is_empty_kept=calling is None)
    return {} if choice is None else {"tool_choice": choice}


def _read_system(body: EitherCaseMembers) -> list[Message]:
    """Take the system instruction; one that is not only text becomes an extra."""
    raw = body.peek("systemInstruction", Raw)
    if raw is None:
        return []
    try:
        instruction = EitherCaseMembers(raw, "systemInstruction")
        texts: Any = tuple(map(_read_prompt_text, instruction.take_list("parts") or ()))
        message = SystemMessage(texts, extras=instruction.extras())
    except InvalidValue:  # SystemMessage rejects any part that is not text
        return []
    body.take("systemInstruction", Raw)
    return [message]


# -- contents ---------------------------------------------------------------------------------


@final
class _ContentsReader:
    """Reads contents in order, and matches each result with its call."""

    def __init__(self, target: RequestTarget, new_ids: CallIdGenerator) -> None:
        """Set the issuer of the seals, and the generator of missing call ids."""
        self._target = target
        self._new_ids = new_ids
        self._calls_by_id: dict[str, _UnansweredCall] = {}
        self._unanswered = _UnansweredCalls()
        """The calls of the latest turn that have no result yet."""
        self._ends_in_result = False
        self._is_unsigned = True

    def read(self, raw: Raw, place: str) -> list[Message]:
        """Return the messages of a content. Raises InvalidRequest if `raw` is not an object."""
        content = EitherCaseMembers(raw, place)
        role = content.take("role", str)
        parts = content.take_list("parts") or []
        messages: list[Message] = []
        try:
            if role == "model":
                self._unanswered = _UnansweredCalls()
                self._is_unsigned = True
                blocks = tuple([self._read_model_block(raw) for raw in parts])
                messages = [AssistantMessage(content=blocks, extras=content.extras())]
            elif role in _USER_ROLES and parts:
                if role != "user":
                    content.form["role"] = role
                messages = self._read_user_content(content, parts)
        except InvalidValue:
            messages = []
        self._ends_in_result = bool(messages) and isinstance(messages[-1], ToolResultMessage)
        return messages or [build_opaque_message(content.raw, NAME)]

    def _read_model_block(self, raw: Raw) -> AssistantBlock:
        part = EitherCaseMembers(raw, "part")
        call = part.take_object(FUNCTION_CALL)
        if call is not None:
            return self._read_call(part, call)
        return read_text_or_thinking(raw, self._target) or read_image_or_opaque(raw, self._target)

    def _read_call(self, part: EitherCaseMembers, call: EitherCaseMembers) -> AnyToolCall:
        form = part.form
        wire_id, name = call.take("id", str), call.take("name", str)
        id = wire_id if wire_id and wire_id not in self._calls_by_id else self._new_ids.make()
        if id != wire_id:
            form["id"] = wire_id
        if not LEGAL_NAME.fullmatch(name or ""):
            form["name"] = name
        raw = call.take("args", Raw)
        arguments = "" if raw is None else raw_text(raw)
        if arguments in ("", "null"):
            form["args"] = None if arguments else "absent"
            arguments = ""
        seal = take_seal(part, self._target)
        if self._is_unsigned and seal is None and THOUGHT_SIGNATURE not in part:
            form["unsigned"] = self._target.model
        self._is_unsigned = False
        part.keep_rest(FUNCTION_CALL, call)
        made = build_call(id, name or "", arguments, seal=seal, extras=part.extras())
        if isinstance(made, InvalidToolCall) and arguments:
            form["args"] = "verbatim"
            made = msgspec.structs.replace(made, extras=part.extras())
        self._calls_by_id[id] = _UnansweredCall(id, wire_id, name or "")
        self._unanswered.add(self._calls_by_id[id])
        return made

    def _read_user_content(self, content: EitherCaseMembers, parts: list[Raw]) -> list[Message]:
        messages: list[Message] = []
        after_result = self._ends_in_result
        for number, group in enumerate(_group_parts(parts)):
            # By default, a result joins the results before it, and no other message joins.
            joins, would_join = number > 0, group.is_result and after_result
            form = {} if joins == would_join else {"content": "joined" if joins else "own"}
            owner = content if number == 0 else None  # the first message has the members
            if group.is_result:
                messages.append(self._read_result(group.parts[0], owner, form))
            else:
                messages.append(_build_user_message(group.parts, owner, form))
            after_result = group.is_result
        return messages

    def _read_result(
        self, raw: Raw, content: EitherCaseMembers | None, form: Members
    ) -> ToolResultMessage:
        part = EitherCaseMembers(raw, "part")
        result = part.take_object(FUNCTION_RESPONSE)
        assert result is not None
        wire_id, name = result.take("id", str), result.take("name", str)
        call = self._unanswered.take(wire_id, name)
        if call is None:
            id = wire_id or self._new_ids.make()
            call = self._calls_by_id.get(id) or _UnansweredCall(id, id, name or "")
        if wire_id != call.wire_id:
            form["id"] = wire_id
        if name != call.name:
            form["name"] = name
        blocks, outcome = _read_response(result, form)
        media = result.take_list("parts")
        if media is not None:
            blocks += map(read_image_or_opaque, media)
            if not media or result.form:
                form["media"] = "object" if media else "empty"
        if content is not None:
            form |= content.form
            if left := content.remaining():
                form["members"] = left
        part.form |= form
        part.keep_rest(FUNCTION_RESPONSE, result)
        return ToolResultMessage(
            tool_call_id=call.id,
            content=tuple(blocks),
            outcome=outcome,
            tool_name=name or "",
            extras=part.extras(),
        )


class _PartGroup(NamedTuple):
    """Parts of one content that become one message: a result, or the parts between results."""

    parts: list[Raw]
    is_result: bool


def _group_parts(parts: list[Raw]) -> list[_PartGroup]:
    groups: list[_PartGroup] = []
    for raw in parts:
        is_result = EitherCaseMembers(raw, "part").take_object(FUNCTION_RESPONSE) is not None
        if is_result or not groups or groups[-1].is_result:
            groups.append(_PartGroup([raw], is_result))
        else:
            groups[-1].parts.append(raw)
    return groups


def _build_user_message(
    parts: list[Raw], content: EitherCaseMembers | None, form: Members
) -> UserMessage:
    blocks: list[UserBlock] = [_read_prompt_text(raw) or read_image_or_opaque(raw) for raw in parts]
    if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
        # UserMessage rejects content that is only blank text.
        blocks = [read_opaque(raw) for raw in parts]
    if content is not None:
        content.form |= form
        return UserMessage(tuple(blocks), extras=content.extras())
    return UserMessage(tuple(blocks), extras={NAME: {FORM_KEY: form}} if form else None)


def _read_response(result: EitherCaseMembers, form: Members) -> tuple[list[ResultBlock], Outcome]:
    """Return the content and the outcome of a tool result.

    By convention, the text is under `output`, or under `error` if the tool failed. A response in
    another form becomes JSON text, and its form is recorded in `form`.
    """
    raw = result.take("response", Raw)
    if raw is None:
        form["response"] = "absent"
        return [], Outcome.OK
    try:
        members: Members = msgspec.json.decode(raw, type=Members)
    except msgspec.ValidationError:
        members = {}
    outcome = Outcome.OK
    if members.get("error") is not None and "output" not in members:
        outcome = Outcome.ERROR
    text = members.get("error" if outcome is Outcome.ERROR else "output")
    if len(members) == 1 and isinstance(text, str) and (text or outcome is Outcome.OK):
        return [Text(text)], outcome
    form["response"] = _JSON_RESPONSE
    return [Text(raw_text(raw))], outcome


class _UnansweredCall(NamedTuple):
    """A call without a result: its id in steno, its recorded id and its tool name."""

    id: str
    wire_id: str | None
    name: str


@final
class _UnansweredCalls:
    """The calls without a result; calls with the same id or name are taken in order."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str | None], deque[_UnansweredCall]] = {}
        """Calls by id and by name; a call may have both keys."""
        self._taken: set[str] = set()

    def add(self, call: _UnansweredCall) -> None:
        """Add a call, under its recorded id and under its name."""
        if call.wire_id:
            self._calls.setdefault(("id", call.wire_id), deque()).append(call)
        self._calls.setdefault(("name", call.name), deque()).append(call)

    def take(self, wire_id: str | None, name: str | None) -> _UnansweredCall | None:
        """Take the call that a result belongs to; None if no call matches.

        A call is found by its id, or else by its name.
        """
        for key in (("id", wire_id), ("name", name)):
            calls = self._calls.get(key)
            while calls:
                call = calls.popleft()
                if call.id not in self._taken:
                    self._taken.add(call.id)
                    return call
        return None
