"""Requests made at random from the SDKs' own types come back as they were, and go elsewhere.

The types say what a request may hold: every member, part, tool and choice. A value is made by
walking them; to any object a member may be added that no SDK knows yet, and what is optional may
be null. A failure names its seed: `made(wire, seed)` is the request.
"""

from __future__ import annotations

import json
import random
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import permutations
from typing import Any, Final, Literal, Required, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

from steno.testing.case_results import expect_json
from steno.wire import load_wire, translate
from tests.wire.sdk.sdk_types import plain_values

WIRES: Final = ("anthropic_messages", "gemini", "ollama_chat", "openai_chat", "openai_responses")
SEEDS: Final = 60
SEEDS_ABROAD: Final = 12
DEEPEST: Final = 8

PIXELS: Final = "iVBORw0KGgo="
TEXTS: Final = (
    "Hi",
    "",
    " ",
    "ends in blanks \n",
    "\u2028 \U0001f600",
    '{"a": 1}',
    "{",
    "[]",
    "\0",
)
NAMED: Final[Mapping[str, Sequence[str]]] = {
    "arguments": ("{}", '{"a": 1.50}', "", "{broken", "[1]"),
    "call_id": ("call_1", "call_2", "a.b:c", "not legal"),
    "data": (PIXELS, "AAAA", "no base64!"),
    "media_type": ("image/png", "application/pdf", "image/heic"),
    "mime_type": ("image/png", "audio/wav"),
    "model": ("m-1",),
    "name": ("look", "read_file", "auto", "fs.read/x"),
    "signature": (PIXELS,),
    "url": ("https://example.org/a.png", f"data:image/png;base64,{PIXELS}", "ftp://a/b"),
}
SAME: Final = {"id": "call_id", "tool_call_id": "call_id", "tool_use_id": "call_id"} | {
    "image_url": "url",
    "tool_name": "name",
}
SCHEMAS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
)
NUMBERS: Final = {bool: (True, False), int: (0, 1, 1024, -1), float: (0, 0.5, 1.0, 2)}
FOREIGN: Final = ("PathLike", "IO[", "Callable", "type[", "ClientSession", "PIL.")
"""What an SDK takes from Python alone, and sends as something else."""


class Maker:
    """Makes values of types."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.pick = self._random.choice
        self._oddity = self.pick((0, 0.05, 0.2))
        self._fullness = self.pick((0.1, 0.3, 0.5))

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def make(self, type_: Any, name: str = "", depth: int = 0) -> Any:
        """Make a value; the name of the member that it is for tells what would make sense."""
        origin, args = get_origin(type_), get_args(type_)
        if isinstance(type_, TypeAliasType):
            return self.make(type_.__value__, name, depth)
        if origin is Literal:
            return self.pick(args)
        if origin in (Union, types.UnionType):
            return self.make(self._option(args, depth), name, depth)
        if is_typeddict(type_):
            hints: dict[str, Any] = get_type_hints(type_, include_extras=True)
            wanted = {key for key, hint in hints.items() if get_origin(hint) is Required}
            return self._object({key: (hints[key], key in wanted) for key in hints}, depth)
        if isinstance(type_, type) and issubclass(type_, BaseModel):
            fields = {f.alias or key: f for key, f in type_.model_fields.items()}.items()
            return self._object({key: (f.annotation, f.is_required()) for key, f in fields}, depth)
        if isinstance(type_, type) and issubclass(type_, Enum):
            return self.pick([member.value for member in type_] or ["NEW"])
        if "schema" in name.lower() or (name == "parameters" and type_ is not str):
            return self.pick(SCHEMAS)
        if origin in (dict, Mapping):
            keys = self._random.sample(["a", "type", "b c"], self.pick((0, 1, 2)))
            return {key: self.make(args[1], "", depth + 2) for key in keys}
        if origin in (list, Iterable, Sequence):
            count = 0 if depth > DEEPEST else self.pick((1, 1, 2, 3) if depth < 5 else (0, 1, 2))
            return [self.make(args[0], name, depth + 1) for _ in range(count)]
        if args:  # Required, Annotated and the like
            return self.make(args[0], name, depth)
        if type_ in NUMBERS:
            return self.pick(NUMBERS[type_])
        if type_ is str:
            return self.pick(NAMED.get(SAME.get(name, name), TEXTS))
        return PIXELS if type_ is bytes else self._anything()

    def _option(self, options: Sequence[Any], depth: int) -> Any:
        known = [option for option in options if not any(word in str(option) for word in FOREIGN)]
        flat = [option for option in known if option is str or get_origin(option) is Literal]
        some = [option for option in known if option is not types.NoneType]
        return self.pick(flat if depth > DEEPEST and flat else some or known)

    def _object(self, members: Mapping[str, tuple[Any, bool]], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, (type_, is_required) in members.items():
            if is_required:
                made[name] = self.make(type_, name, depth + 1)
            elif depth <= DEEPEST and self.happens(self._fullness):
                is_null = self.happens(self._oddity / 2)
                made[name] = None if is_null else self.make(type_, name, depth + 1)
        if self.happens(self._oddity):
            made[self.pick(("x_new", "newThing", "x-y"))] = self._anything()
        return made

    def _anything(self) -> Any:
        return self.pick((None, True, 1 << 63, 1.5, "new", [None, {}], {"type": "new", "a": [1]}))


# -- what the types of each SDK are --------------------------------------------------------------


@lru_cache
def body_type(wire: str) -> Any:
    """Return the type of a whole request."""
    if wire == "anthropic_messages":
        from anthropic.types import message_create_params as messages

        return messages.MessageCreateParams
    if wire == "openai_chat":
        from openai.types.chat import completion_create_params as chat

        return chat.CompletionCreateParams
    if wire == "openai_responses":
        from openai.types.responses import response_create_params as responses

        return responses.ResponseCreateParams
    if wire == "ollama_chat":
        from ollama._types import ChatRequest

        return ChatRequest
    from google.genai import types as google

    class Body(BaseModel, extra="forbid"):  # the SDK has one for its own arguments alone
        contents: list[google.Content]
        systemInstruction: google.Content | None = None
        tools: list[google.Tool] | None = None
        toolConfig: google.ToolConfig | None = None
        generationConfig: google.GenerationConfig | None = None
        safetySettings: list[google.SafetySetting] | None = None

    return Body


@lru_cache
def judge(wire: str) -> TypeAdapter[Any]:
    return TypeAdapter(body_type(wire))


def made(wire: str, seed: int) -> dict[str, Any]:
    """Make a request."""
    maker = Maker(f"{wire} {seed}")
    body: dict[str, Any] = maker.make(body_type(wire))
    if wire in COMPLETED:
        COMPLETED[wire](body, maker)
    return body


def _complete_ollama(body: dict[str, Any], maker: Maker) -> None:
    """Make what the type of a request says less about than the SDK has types for."""
    from ollama._types import Message, Tool

    body["messages"] = maker.make(list[Message])
    body["tools"] = maker.make(list[Tool])
    for message in body["messages"]:
        message["role"] = maker.pick(("system", "user", "assistant", "tool"))
        if message.get("images"):
            message["images"] = [maker.pick(NAMED["data"])]


def _complete_gemini(body: dict[str, Any], maker: Maker) -> None:
    for content in body["contents"]:
        content["role"] = maker.pick(("user", "model"))


def _complete_responses(body: dict[str, Any], maker: Maker) -> None:
    from openai.types.responses.response_input_param import ResponseInputParam

    body["model"] = "m-1"
    body["input"] = maker.make(ResponseInputParam, depth=2)


COMPLETED: Final[Mapping[str, Callable[[dict[str, Any], Maker], None]]] = {
    "gemini": _complete_gemini,
    "ollama_chat": _complete_ollama,
    "openai_responses": _complete_responses,
}


# -- the laws ------------------------------------------------------------------------------------


@pytest.mark.requirement("S1-02")
@pytest.mark.parametrize("name", WIRES)
def test_whatever_the_types_allow_comes_back_as_it_was(name: str) -> None:
    wire = load_wire(name)
    for seed in range(SEEDS):
        body = made(name, seed)
        encoded = wire.encode_request(wire.decode_request(json.dumps(body)))
        expect_json(encoded.json, body, f"request {seed}")


@pytest.mark.requirement("S1-02")
@pytest.mark.parametrize(("source", "target"), permutations(WIRES, 2))
def test_whatever_the_types_allow_is_said_as_the_types_of_others_allow(
    source: str, target: str
) -> None:
    for seed in range(SEEDS_ABROAD):
        body = json.dumps(made(source, seed))
        sent = translate(body, source=source, target=target).json
        if target != "gemini":
            sent.setdefault("model", "m-1")  # in the address of a request to Google
        if target == "anthropic_messages":
            for setting in ("temperature", "top_p"):
                sent.pop(setting, None)  # taken by the API, and by the SDK as extras alone
        if target == "ollama_chat":
            sent.pop("tools", None)  # the SDK's types are older than most of a schema
        understood = plain_values(judge(target).validate_python(sent))
        expect_json(understood, sent, f"request {seed}, as the SDK understands it")
