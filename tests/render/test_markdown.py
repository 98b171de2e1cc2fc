"""A branch as Markdown: everything is shown, and no foreign text passes for ours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from steno import ChatMessage, ToolCall
from steno.formats import FORMATS, ExportedFile
from steno.messages.content import Image, ImageFile, ImageSource, ImageUrl, Text
from steno.records.entry import Resolution, ResolutionStatus
from steno.records.stored_record import Header
from steno.render.markdown import MAX_INLINE_IMAGE_BYTES
from steno.render.transcript_document import BranchLocation
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from tests.every_payload import PAYLOADS
from tests.render.transcript_samples import (
    DIFF,
    HEADER,
    HOSTILE,
    entries_of,
    image_of_size,
    sample_branch,
    text_everywhere,
)

PLACE = BranchLocation("main", {"i3": 12})
TEXTS = st.text(alphabet=st.sampled_from("`~<>!-/?# \n\t()[]*_\\=+1.|&a:\u202e\x1b"), max_size=60)


def written(*payloads: Any) -> str:
    return WRITE_ONLY["markdown"].encode(HEADER, entries_of(*payloads), PLACE).data.decode()


def exported() -> ExportedFile:
    return WRITE_ONLY["markdown"].encode(HEADER, sample_branch(), PLACE)


def test_a_branch_is_written_from_its_title_to_its_tokens() -> None:
    text = exported().data.decode()
    head = (
        "# Mend the build\n\n- session: `talk`\n- branch: `main`\n- started: `2026-02-18 12:00:00Z`\n"
        "- last entry: `2026-02-18 12:00:00Z`\n- model: `lab/tester`\n- entries: `7`\n\n"
        "**#1 model change: lab/tester** · 2026-02-18 12:00:00Z\n"
    )
    assert text.startswith(head)
    assert "## #12 User\n\n*2026-02-18 12:00:00Z*\n\n> Is it broken?\n> # really\n" in text
    assert "<details>\n<summary>Thinking</summary>\n\n> Simple.\n\n</details>\n" in text
    assert "\n### Plan\n\nI *mend* it.\n" in text
    assert '**calls edit (c1)**\n\n```json\n{\n  "path": "a.py",\n  "new": "x < 1"\n}\n```' in text
    assert "**#5 approval: edit (c1): approved by rule edit(src/\\*\\*)**" in text
    assert "> it is ours" in text
    assert "## #6 Result of edit: ok, 0.25 s" in text
    assert f"**changes**\n\n```diff\n{DIFF}\n```" in text
    assert text.endswith("## Usage\n\n- `lab/tester`: 1,200 tokens in, 33 tokens out")


def test_content_that_the_file_omits_is_reported() -> None:
    assert [(lost.reason, lost.place, lost.names) for lost in exported().losses] == [
        ("ids_and_digests", "entries", ()),
        ("fields", "entries[4]", ("arguments_sha256",)),
        ("fields", "entries[5]", ("details",)),
    ]


def test_a_small_image_is_in_the_file_and_a_large_one_is_named() -> None:
    small, large = image_of_size(MAX_INLINE_IMAGE_BYTES), image_of_size(MAX_INLINE_IMAGE_BYTES + 1)
    address = "data:image/png;base64,"
    assert address in written(ChatMessage.user([small]))
    exported = WRITE_ONLY["markdown"].encode(HEADER, entries_of(ChatMessage.user([large])), PLACE)
    assert address.encode() not in exported.data
    assert b"image: image/png, 262,145 bytes" in exported.data
    lost = exported.losses[-1]
    assert (lost.reason, lost.place, lost.names) == (
        *("fields", "entries[0]", ("content[0] (image)",)),
    )


@pytest.mark.parametrize("name", ["markdown", "html"])
@pytest.mark.parametrize(
    "source", [ImageFile("sign.png"), ImageUrl("https://example.org/sign.png")], ids=["file", "url"]
)
def test_an_image_whose_bytes_are_in_its_resolution_is_not_reported(
    name: str, source: ImageSource
) -> None:
    prompt = ChatMessage.user([Text("What is it?"), Image(source=source)])
    resolved = Resolution(
        target="i1", block=1, status=ResolutionStatus.RESOLVED, content=(image_of_size(9),)
    )
    failed = Resolution(target="i1", block=1, status=ResolutionStatus.FAILED, error="gone")
    lost = [
        [lost for lost in WRITE_ONLY[name].encode(HEADER, entries, PLACE).losses if lost.names]
        for entries in (entries_of(prompt, resolved), entries_of(prompt, failed))
    ]
    assert lost[0] == []
    assert [change.names for change in lost[1]] == [("content[1] (image)",)]


def test_an_image_that_is_larger_than_the_file_allows_is_reported_once() -> None:
    prompt = ChatMessage.user([Image(source=ImageFile("sign.png"))])
    large = image_of_size(MAX_INLINE_IMAGE_BYTES + 1)
    resolved = Resolution(target="i1", block=0, status=ResolutionStatus.RESOLVED, content=(large,))
    losses = WRITE_ONLY["markdown"].encode(HEADER, entries_of(prompt, resolved), PLACE).losses
    assert [(lost.place, lost.names) for lost in losses if lost.names] == [
        ("entries[1]", ("content[0] (image)",))
    ]


def test_no_address_shows_who_may_read_it() -> None:
    address = ImageUrl("https://ada:hunter2@example.org/a.png?key=secret")
    text = written(ChatMessage.user([Image(source=address)]))
    assert "image: https://example.org/a.png" in text
    assert "hunter2" not in text
    assert "secret" not in text


def test_a_long_result_is_folded() -> None:
    text = written(
        ChatMessage.assistant(None, [ToolCall(id="c1", name="cat")]),
        ChatMessage.tool_result("c1", "line\n" * 40, tool_name="cat"),
    )
    assert "<details>\n<summary>40 lines</summary>\n\n```text\nline\n" in text


def test_a_fence_is_longer_than_any_in_it() -> None:
    call = ChatMessage.assistant(None, [ToolCall(id="c1", name="cat")])
    text = written(call, ChatMessage.tool_result("c1", "````\n```"))
    assert "`````text\n````\n```\n`````" in text


def test_words_of_a_model_stay_as_they_are_where_they_can() -> None:
    answer = "1. first\n   ```cpp\n   #include <map>\n   ```\n2. `<div>`\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert f"\n\n{answer}" in written(ChatMessage.assistant(answer))
    assert "\n> ```cpp\n> #include <map>\n> ```" in written(
        ChatMessage.user("```cpp\n#include <map>\n```")
    )


def test_words_that_would_not_end_are_quoted() -> None:
    text = written(ChatMessage.assistant("see:\n```\nunfinished"), ChatMessage.user("And?"))
    assert "> see:\n> ```\n> unfinished\n\n## #2 User" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_passes_for_what_is_ours(text: str) -> None:
    assert_is_ours(text)


@given(text=TEXTS)
def test_no_text_can_imitate_a_line_of_steno(text: str) -> None:
    assert_is_ours(text)


def assert_is_ours(text: str) -> None:
    """Check with a parser which headings, tags and images the file has."""
    header = Header(id="talk", title=text)
    entries = text_everywhere(text)
    markdown = WRITE_ONLY["markdown"].encode(header, entries, PLACE).data.decode()
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    outer = [
        tokens[number + 1].content
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and (token.level == 0 and token.tag in ("h1", "h2"))
    ]
    assert len(outer) == 4
    assert [line.split()[0] for line in outer[1:]] == ["#2", "#12", "#5"]
    raw = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert {*raw} <= {"<details>\n<summary>Thinking</summary>", "</details>"}
    children = [child for token in tokens for child in token.children or ()]
    assert not any(child.type == "html_inline" for child in children)
    assert not any(child.type == "image" for child in children)
    assert not any(
        character in markdown for character in "\x00\x07\x1b\x9b\r\u202e\u2066\u200b\ufeff"
    )


def test_every_payload_and_block_can_be_described() -> None:
    exported = WRITE_ONLY["markdown"].encode(
        Header(id="all"), entries_of(*PAYLOADS), BranchLocation()
    )
    assert exported.data.startswith(b"# Session all\n")
    for number in range(1, len(PAYLOADS) + 1):
        assert f"#{number} " in exported.data.decode()
    places = {loss.place for loss in exported.losses}
    assert "entries[20]" in places  # what a newer steno wrote is only named


def test_an_empty_conversation_makes_a_valid_file() -> None:
    exported = WRITE_ONLY["markdown"].encode(Header(id="none"), (), BranchLocation())
    assert exported == (b"# Session none\n\n- session: `none`\n- entries: `0`", ())


def test_formats_for_people_are_no_formats_that_are_read() -> None:
    assert not WRITE_ONLY.keys() & FORMATS.keys()
    suffixes = [suffix for format in WRITE_ONLY.values() for suffix in format.suffixes]
    assert list(TRANSCRIPT_BY_SUFFIX) == suffixes
    assert all(suffix.startswith(".") for suffix in suffixes)


def test_text_of_several_blocks_is_printed_block_by_block() -> None:
    text = written(ChatMessage.user([Text("one"), Text("two")]))
    assert text.endswith("> one\n\n> two")
