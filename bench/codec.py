"""Benchmark: encode and decode 1,000 messages of a realistic conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from langchain_core.messages import messages_from_dict, messages_to_dict
from pydantic_ai.messages import ModelMessagesTypeAdapter

import steno
from bench.conversation import make_conversation
from bench.findings import Finding, compare
from bench.floor import BareMessage, HookedMessage
from bench.harness import Case, Stopwatch
from bench.peers import in_langchain, in_pydantic_ai, in_steno
from steno.codec import decode_messages, encode_messages
from steno.json_object import JsonObject, raw_members

COUNT = 1_000


def run(watch: Stopwatch) -> list[Finding]:
    """Time both directions."""
    turns = make_conversation(COUNT)
    ours = in_steno(turns)
    data = encode_messages(ours)
    assert decode_messages(data) == ours
    frameworks = (in_pydantic_ai(turns), in_langchain(turns))
    return [*_encode(watch, ours, data, *frameworks), *_decode(watch, data, *frameworks)]


def _encode(
    watch: Stopwatch,
    ours: tuple[steno.Message, ...],
    data: bytes,
    pydantic_ai: list[Any],
    langchain: list[Any],
) -> list[Finding]:
    bare = msgspec.json.decode(data, type=tuple[BareMessage, ...])
    encode_same = msgspec.json.Encoder(enc_hook=_encode_ours).encode
    encode_bare = msgspec.json.Encoder().encode
    assert encode_same(ours) == encode_bare(bare) == data
    steno_, same, no_checks, *frameworks = watch.measure(
        f"codec: encode {COUNT:,} messages",
        [
            Case("steno", lambda: encode_messages(ours)),
            Case("msgspec, same types", lambda: encode_same(ours)),
            Case("msgspec, no checks", lambda: encode_bare(bare)),
            Case("pydantic-ai", lambda: ModelMessagesTypeAdapter.dump_json(pydantic_ai)),
            Case("langchain-core", lambda: orjson.dumps(messages_to_dict(langchain))),
        ],
    )
    work = f"encode {COUNT:,} messages ({len(data) / 1e6:.1f} MB)"
    return [
        *compare(work, steno_, same, no_checks, slower=1.3),
        *compare(work, steno_, *frameworks, faster=3),
    ]


def _decode(
    watch: Stopwatch, data: bytes, pydantic_ai: list[Any], langchain: list[Any]
) -> list[Finding]:
    decode_same = msgspec.json.Decoder(tuple[steno.Message, ...]).decode
    decode_bare = msgspec.json.Decoder(tuple[BareMessage, ...]).decode
    decode_hooked = msgspec.json.Decoder(tuple[HookedMessage, ...]).decode
    pydantic_data = ModelMessagesTypeAdapter.dump_json(pydantic_ai)
    langchain_data = orjson.dumps(messages_to_dict(langchain))
    assert ModelMessagesTypeAdapter.validate_json(pydantic_data) == pydantic_ai
    assert messages_from_dict(orjson.loads(langchain_data)) == langchain
    steno_, same, no_checks, empty_checks, dicts, *frameworks = watch.measure(
        f"codec: decode {COUNT:,} messages",
        [
            Case("steno", lambda: decode_messages(data)),
            Case("msgspec, same types", lambda: decode_same(data)),
            Case("msgspec, no checks", lambda: decode_bare(data)),
            Case("msgspec, checks that do nothing", lambda: decode_hooked(data)),
            Case("orjson, to dicts", lambda: orjson.loads(data)),
            Case("pydantic-ai", lambda: ModelMessagesTypeAdapter.validate_json(pydantic_data)),
            Case("langchain-core", lambda: messages_from_dict(orjson.loads(langchain_data))),
        ],
    )
    work = f"decode {COUNT:,} messages ({len(data) / 1e6:.1f} MB)"
    return [
        *compare(work, steno_, same, slower=1.3),
        *compare(work, steno_, no_checks, empty_checks),
        *compare(work, steno_, dicts, faster=1),
        *compare(work, steno_, *frameworks, faster=5),
    ]


def _encode_ours(value: object) -> Any:
    assert type(value) is JsonObject
    return raw_members(value)
