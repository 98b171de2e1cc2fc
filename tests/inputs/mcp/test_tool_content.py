"""Whatever a server returns becomes blocks that can be recorded and sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.codec import decode_message, encode_message
from steno.inputs.mcp.protocol import CallToolResult
from steno.inputs.mcp.tools import MAX_BLOCKS, MAX_IMAGES, build_call_output
from steno.json_object import JsonObject
from steno.messages.content import Image, Opaque, Resource, Text
from steno.messages.message import ToolResultMessage
from steno.messages.outcome import Outcome
from steno.ports import PrepareImage, ToolOutput
from tests.inputs.mcp.tool_doubles import fit_image
from tests.tools.fake_tool_context import FakeToolContext

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "text", "uri", "resource", "data", "blob", "mimeType", "\ud800"]),
        inner | st.sampled_from(["text", "image", "audio", "resource", "resource_link", "odd"]),
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def received(*blocks: Any, context: FakeToolContext | None = None, **more: Any) -> ToolOutput:
    called = CallToolResult(content=blocks, **more)
    output = build_call_output(
        called, server="s", context=context or FakeToolContext(), prepare_image=fit_image
    )
    check_legal(output)
    return output


def check_legal(output: ToolOutput) -> None:
    """Fail unless the content can be part of a message, and be encoded and decoded again."""
    message = ToolResultMessage(
        tool_call_id="c", content=output.content, outcome=output.outcome, details=output.details
    )
    assert decode_message(encode_message(message)) == message


def texts(output: ToolOutput) -> list[str]:
    return [block.text for block in output.content if isinstance(block, Text)]


def details(output: ToolOutput) -> JsonObject:
    return JsonObject(output.details)


# -- the five kinds ------------------------------------------------------------------------------


def test_text_is_text_and_escape_sequences_in_it_stay_on_record() -> None:
    output = received({"type": "text", "text": "a\x1b[31mb"}, {"type": "text", "text": ""})
    assert output.content == (Text("a\x1b[31mb"),)
    assert output.details is None


def test_an_image_is_made_to_fit() -> None:
    block = {"type": "image", "data": base64_of(b"PNG..."), "mimeType": "text/html"}
    (image,) = received(block).content
    assert isinstance(image, Image)
    assert image.mime_type == "image/png"


def test_audio_is_stored_and_replaced_by_a_note() -> None:
    block = {"type": "audio", "data": base64_of(b"RIFF"), "mimeType": "audio/wav"}
    note, kept = received(block).content
    said = "[audio (audio/wav, 6 bytes) that cannot be played; stored in the session]"
    assert note == Text(said)
    assert isinstance(kept, Opaque)
    assert (kept.kind, kept.origin, json.loads(kept.raw)) == ("audio", "mcp", block)


def test_a_link_is_a_resource_without_content_and_with_a_label() -> None:
    block = {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "b\u202e"}
    output = received({**block, "mimeType": "text/plain", "size": 3})
    link = Resource(server="s", uri="file:///a", mime_type="text/plain")
    assert output.content == (Text("[a link to a: b]"), link)
    beside = [{"name": "a", "description": "b\u202e", "size": 3, "block": 0}]
    assert details(output) == {"beside": beside}


def test_a_resource_with_text_holds_it() -> None:
    inner = {"uri": "x:1", "text": "hello", "mimeType": "text/plain", "_meta": {"n": 1}}
    output = received({"type": "resource", "resource": inner, "annotations": {"priority": 1}})
    assert output.content == (
        Resource(server="s", uri="x:1", mime_type="text/plain", text="hello"),
    )
    beside = {"annotations": {"priority": 1}, "resource": {"_meta": {"n": 1}}, "block": 0}
    assert details(output) == {"beside": [beside]}


def test_bytes_of_a_resource_are_kept_and_not_sent() -> None:
    inner = {"uri": "x:1", "blob": base64_of(b"\0" * 30), "mimeType": "application/zip"}
    link, note, kept = received({"type": "resource", "resource": inner}).content
    assert link == Resource(server="s", uri="x:1", mime_type="application/zip")
    assert isinstance(note, Text)
    assert note.text.startswith("[binary data (application/zip, 30 bytes) that cannot be shown")
    assert isinstance(kept, Opaque)
    assert json.loads(kept.raw)["resource"] == inner


def test_a_resource_that_is_an_image_is_one() -> None:
    inner = {"uri": "x:1", "blob": base64_of(b"PNG"), "mimeType": "image/png"}
    link, image = received({"type": "resource", "resource": inner}).content
    assert isinstance(link, Resource)
    assert isinstance(image, Image)


def test_extra_members_of_a_block_are_recorded() -> None:
    block = {"type": "text", "text": "x", "annotations": {"audience": ["user"]}, "_meta": {"k": 1}}
    output = received({"type": "text", "text": "y"}, block)
    beside = {"annotations": {"audience": ["user"]}, "_meta": {"k": 1}, "block": 1}
    assert details(output) == {"beside": [beside]}


# -- structured content --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("structured", "said"),
    [
        ({"a": 1}, ['{ "a": 1 }']),
        ({"result": "plain"}, ["plain"]),
        ({"result": 5}, ["5"]),
        ({"content": "of a file"}, ["of a file"]),
        ({"result": [1, "b"]}, ["1", "b"]),
        ({"result": ["a", "b"]}, ["a", "b"]),
        ([1, 2], ["[1, 2]"]),
    ],
)
def test_structured_content_that_a_text_repeats_is_not_shown_twice(
    structured: Any, said: list[str]
) -> None:
    output = received(*[{"type": "text", "text": one} for one in said], structured=structured)
    assert texts(output) == said
    assert details(output) == {"structured": structured}


def test_structured_content_that_no_text_repeats_is_shown() -> None:
    output = received({"type": "text", "text": "2 found"}, structured={"found": ["a", "b"]})
    assert texts(output) == ["2 found", '{"found":["a","b"]}']
    assert details(output) == {"structured": {"found": ["a", "b"]}}


def test_large_structured_content_is_stored_as_a_blob() -> None:
    context = FakeToolContext()
    structured = {"rows": ["x" * 100] * 2_000}
    output = received(context=context, structured=structured)
    (first, *_) = details(output).to_dict()["kept"]
    assert first["block"] == "structured"
    assert json.loads(context.blobs[first["full_output"]]) == structured
    assert len(texts(output)[0]) < 60_000


# -- errors, and nothing -------------------------------------------------------------------------


def test_an_error_without_a_word_is_an_error() -> None:
    output = received(is_error=True)
    assert output.outcome is Outcome.ERROR
    assert texts(output) == ["The server reports an error without a message."]


def test_nothing_is_done() -> None:
    output = received()
    assert (output.outcome, texts(output)) == (Outcome.OK, ["done"])


# -- too much ------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_the_whole_is_kept() -> None:
    context = FakeToolContext()
    long = "".join(f"line {n}\n" for n in range(1_000_000))
    output = received({"type": "text", "text": long}, context=context)
    (kept,) = details(output).to_dict()["kept"]
    assert context.blobs[kept["full_output"]] == long.encode()
    (shown,) = texts(output)
    assert len(shown) < 60_000
    assert f'call read with path "blob:{kept["full_output"]}"' in shown


def test_many_texts_are_not_longer_than_one_may_be() -> None:
    context = FakeToolContext()
    output = received(*[{"type": "text", "text": "x" * 49_000}] * 5_000, context=context)
    assert sum(map(len, texts(output))) < 150_000
    assert len(output.content) <= MAX_BLOCKS + 2
    assert "[4,900 more blocks, beyond the limit of 100" in texts(output)[-1]
    *_, rest = details(output).to_dict()["kept"]
    assert len(json.loads(context.blobs[rest["full_output"]])["content"]) == 4_900


def test_the_text_of_a_resource_is_bounded_too() -> None:
    inner = {"uri": "x:1", "text": "y\n" * 100_000}
    output = received(*[{"type": "resource", "resource": inner}] * 10)
    shown = [block.text or "" for block in output.content if isinstance(block, Resource)]
    assert len(shown) == 10
    assert sum(map(len, shown)) < 70_000


def test_images_are_counted() -> None:
    block = {"type": "image", "data": base64_of(b"PNG"), "mimeType": "image/png"}
    output = received(*[block] * (MAX_IMAGES + 2))
    assert sum(isinstance(one, Image) for one in output.content) == MAX_IMAGES
    notes = [
        "[an image beyond the limit of 20 images or 20 MB per result; stored in the session]"
    ] * 2
    assert texts(output) == notes


def test_images_are_weighed_before_they_are_read() -> None:
    context = FakeToolContext()
    large = {"type": "image", "data": "A" * 30_000_000, "mimeType": "image/png"}
    output = received(large, context=context)
    assert "20 MB per result" in texts(output)[0]
    (kept,) = details(output).to_dict()["kept"]
    assert json.loads(context.blobs[kept["full_output"]]) == large


@pytest.mark.parametrize("data", ["not base64!", "AAA", "\u00e9", "", base64_of(b"GIF"), "\ud800"])
def test_bytes_that_are_not_an_image_are_stored_with_a_note(data: str) -> None:
    note, kept = received({"type": "image", "data": data, "mimeType": "image/png"}).content
    assert isinstance(note, Text)
    assert note.text.startswith("[an image that ")
    assert isinstance(kept, Opaque)
    assert kept.kind == "image"


def without_pillow(data: bytes) -> Image:
    raise ImportError("images need Pillow")


@pytest.mark.parametrize("prepare_image", [None, without_pillow])
def test_without_image_preparation_no_image_is_shown_and_a_hint_is_given(
    prepare_image: PrepareImage | None,
) -> None:
    called = CallToolResult(
        content=({"type": "image", "data": base64_of(b"PNG"), "mimeType": "image/png"},)
    )
    note, kept = build_call_output(
        called, server="s", context=FakeToolContext(), prepare_image=prepare_image
    ).content
    assert isinstance(note, Text)
    assert "that cannot be prepared: pip install 'steno-agent[images]'" in note.text
    assert isinstance(kept, Opaque)


# -- anything ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram", "x": 1},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "resource_link", "uri": ""},
        {"type": "resource", "resource": []},
        {"type": ["text"]},
        {},
        {"type": "x" * 5_000 + "\x1b[2J"},
    ],
)
def test_an_unknown_block_is_kept_word_for_word_with_a_note(block: dict[str, Any]) -> None:
    note, kept = received(block).content
    assert isinstance(note, Text)
    assert note.text.isprintable()
    assert len(note.text) < 250
    assert isinstance(kept, Opaque)
    assert json.loads(kept.raw) == block


def test_halves_of_surrogate_pairs_are_replaced_everywhere() -> None:
    block = {"type": "text", "text": "a\ud800b", "_meta": {"k\udfff": ["\ud83d"]}}
    output = received(block, structured={"s": "\ud800"})
    assert texts(output)[0] == "a\ufffdb"
    beside = [{"_meta": {"k\ufffd": ["\ufffd"]}, "block": 0}]
    assert details(output) == {"beside": beside, "structured": {"s": "\ufffd"}}


def test_numbers_that_json_cannot_say_are_replaced() -> None:
    output = received(structured={"a": float("nan"), "b": float("-inf"), "c": 10**5_000})
    said = {"a": "nan", "b": "-inf", "c": "[a very large number]"}
    assert details(output) == {"structured": said}


def test_values_nested_too_deeply_are_cut() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    output = received({"type": "odd", "deep": deep}, structured=deep)
    assert any("[nested too deeply]" in text for text in texts(output))


@given(st.lists(ODD, max_size=4), ODD, st.booleans())
def test_any_result_becomes_valid_content(
    blocks: list[Any], structured: Any, is_error: bool
) -> None:
    output = received(*blocks, structured=structured, is_error=is_error)
    assert output.content
    assert (output.outcome is Outcome.ERROR) == is_error
