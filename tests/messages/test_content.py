"""Content blocks: text, thinking, images, references, resources, and unknown blocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import msgspec
import pytest

from steno import (
    ChatMessage,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidMessage,
    Opaque,
    RecognitionMode,
    Resource,
    Text,
    Thinking,
    UserMessage,
)
from steno.codec import decode_message, encode_message
from steno.records.entry import Resolution, ResolutionStatus
from tests.code_probes import expect_error
from tests.value_samples import SECRET, seal

SHA = "0123456789abcdef" * 4
SOURCES: list[Any] = [
    ImageData(b"\x89PNG"),
    ImageBlob(sha256=SHA, size=4096),
    ImageUrl("https://example.org/a.png"),
    ImageFile("docs/a.png"),
]


def round_trip(*blocks: Any) -> tuple[Any, ...]:
    loaded = decode_message(encode_message(UserMessage(blocks)))
    assert isinstance(loaded, UserMessage)
    return loaded.content


# -- text and thinking ---------------------------------------------------------------------------


@pytest.mark.requirement("S2-01")
@pytest.mark.parametrize("text", ["", " ", "Hello", "比较一下 🧾\u2028", "x" * 100_000])
def test_text_is_kept_as_it_is(text: str) -> None:
    assert Text(text).text == text
    assert Text(text).seal is None
    assert Text(text) == Text(text)


@pytest.mark.requirement("S2-34", "NFR-004a-24")
@pytest.mark.parametrize("wrong", [None, 7, b"Hello", ["Hello"], Text("Hello")], ids=repr)
@pytest.mark.parametrize("type", [Text, Thinking])
def test_text_is_a_string(type: Any, wrong: object) -> None:
    error = expect_error(lambda: type(wrong))
    assert isinstance(error, InvalidMessage)
    assert (error.code, error.field) == ("wrong_type", "text")


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize("type", [Text, Thinking])
def test_text_with_half_a_surrogate_pair_is_refused_and_the_way_out_named(type: Any) -> None:
    error = expect_error(lambda: type(f"{SECRET}\ud83d"))
    assert (error.code, error.field) == ("lone_surrogate", "text")
    assert "replace_lone_surrogates()" in error.message  # the remedy


def test_thinking_that_was_redacted_is_nothing_but_its_seal() -> None:
    assert Thinking("", seal=seal(), redacted=True).seal == seal()
    assert not Thinking("hm").redacted
    assert expect_error(lambda: Thinking("", redacted=True)).code == "redacted_without_seal"


# -- images --------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-02")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_an_image_comes_from_bytes_a_blob_an_address_or_a_file(source: Any) -> None:
    image = Image(source=source, mime_type="image/png")
    assert image.source == source
    assert image.mode is RecognitionMode.AUTO
    assert round_trip(image) == (image,)


@pytest.mark.requirement("S2-02")
@pytest.mark.parametrize("mode", RecognitionMode)
def test_an_image_has_a_recognition_mode(mode: RecognitionMode) -> None:
    image = Image(source=ImageUrl("https://example.org/a.png"), mode=mode)
    assert round_trip(image) == (image,)
    assert {mode.value for mode in RecognitionMode} == {"auto", "vision", "ocr"}


@pytest.mark.requirement("S2-02")
def test_the_recognised_text_or_the_error_is_recorded_in_a_resolution() -> None:
    found = Resolution(
        target="e1",
        block=0,
        status=ResolutionStatus.RESOLVED,
        content=(Text("Ground floor"),),
        details={"mode": "ocr", "confidence": 0.98},
    )
    failed = Resolution(
        target="e1", block=0, status=ResolutionStatus.FAILED, error="no such address"
    )
    assert found.content == (Text("Ground floor"),)
    assert found.details == {"mode": "ocr", "confidence": 0.98}
    assert failed.error == "no such address"
    image_fields = set(Image.__struct_fields__)
    assert image_fields == {"source", "mime_type", "mode", "extras", "unknown"}


@pytest.mark.parametrize("source", SOURCES[:2], ids=["data", "blob"])
def test_bytes_of_an_image_need_their_type(source: Any) -> None:
    assert expect_error(lambda: Image(source=source)).code == "missing_mime_type"


@pytest.mark.parametrize("source", SOURCES[2:], ids=["url", "file"])
def test_an_image_url_needs_no_mime_type(source: Any) -> None:
    assert Image(source=source).mime_type is None


@pytest.mark.parametrize("mime_type", ["", "png", "text/html", "Image/png", 7, b"image/png"])
def test_the_type_of_an_image_is_that_of_an_image(mime_type: Any) -> None:
    expect_error(lambda: Image(source=SOURCES[2], mime_type=mime_type))


@pytest.mark.parametrize("source", [None, "https://example.org/a.png", b"\x89PNG", Text("a")])
def test_the_source_of_an_image_is_one_of_four(source: Any) -> None:
    error = expect_error(lambda: Image(source=source))
    assert (error.code, error.field) == ("wrong_type", "source")


@pytest.mark.parametrize("data", [b"", None, "x", bytearray(b"x"), memoryview(b"x"), [1]])
def test_image_data_is_bytes_and_not_empty(data: Any) -> None:
    expect_error(lambda: ImageData(data))


@pytest.mark.parametrize(
    "sha256", ["", SHA[:-1], SHA + "0", SHA.upper(), "g" * 64, f" {SHA[1:]}", "٣" * 64]
)
def test_a_blob_is_named_by_its_hash(sha256: str) -> None:
    expect_error(lambda: ImageBlob(sha256=sha256, size=1))


@pytest.mark.parametrize("size", [0, -1])
def test_a_blob_has_at_least_one_byte(size: int) -> None:
    expect_error(lambda: ImageBlob(sha256=SHA, size=size))


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://a.b", "file:///etc/passwd", "javascript:x", "//a.b", None]
)
def test_the_address_of_an_image_is_on_the_web(url: Any) -> None:
    expect_error(lambda: ImageUrl(url))


@pytest.mark.parametrize("url", ["https://example.org/a.png", "http://localhost:8000/"])
def test_an_address_is_kept_as_it_is(url: str) -> None:
    assert ImageUrl(url).url == url


# -- paths ---------------------------------------------------------------------------------------

NORMAL = {
    "a.py": "a.py",
    "./a.py": "a.py",
    "src//app.py": "src/app.py",
    "src/./app.py": "src/app.py",
    "src/../app.py": "app.py",
    "a/b/../../c": "c",
    "src/": "src",
    "/etc/hosts": "/etc/hosts",
    "/../etc": "/etc",
    "..a/b": "..a/b",
    "...": "...",
    "a b/ü.py": "a b/ü.py",
}
CLIMBING = ["..", "../a.py", "a/../../b", "./../a", "src/../../etc/passwd", "../../../.."]


@pytest.mark.requirement("S2-03", "S2-35")
@pytest.mark.parametrize(("given", "normal"), NORMAL.items())
def test_a_path_is_normalised(given: str, normal: str) -> None:
    assert FileReference(path=given).path == normal
    assert ImageFile(given).path == normal
    assert FileReference(path=given) == FileReference(path=normal)


@pytest.mark.requirement("S2-35")
@pytest.mark.parametrize("path", CLIMBING)
def test_a_path_may_not_climb_out_of_where_it_starts(path: str) -> None:
    for make in (lambda: FileReference(path=path), lambda: ImageFile(path)):
        assert expect_error(make).code == "path_leaves_root"


@pytest.mark.requirement("S2-35", "NFR-004a-24")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "empty"),
        *((wrong, "wrong_type") for wrong in (None, 7, b"a.py", ["a.py"])),
        ("a\0b", "nul_character"),
        ("a\ud83d", "lone_surrogate"),
    ],
    ids=repr,
)
def test_a_path_is_a_string_that_is_not_empty(path: Any, code: str) -> None:
    for make in (lambda: FileReference(path=path), lambda: ImageFile(path)):
        error = expect_error(make)
        assert (error.code, error.field) == (code, "path")


@pytest.mark.requirement("S2-35")
def test_a_path_is_normalised_again_when_it_is_replaced_or_loaded() -> None:
    reference = FileReference(path="a.py")
    assert msgspec.structs.replace(reference, path="b/../c.py").path == "c.py"
    data = b'{"type":"user","content":[{"type":"file_reference","path":"b/../c.py"}]}'
    assert decode_message(data) == ChatMessage.user([FileReference(path="c.py")])
    climbing = data.replace(b"b/..", b"../..")
    loaded = decode_message(climbing)
    assert isinstance(loaded, UserMessage)
    assert type(loaded.content[0]) is Opaque


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-03", "S2-35", "NFR-004a-27")
@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (1, None), (1, 1), (3, 9), (10**9, 10**9)]
)
def test_a_range_of_lines_counts_from_1_and_holds_both_ends(
    start: int | None, end: int | None
) -> None:
    reference = FileReference(path="a.py", start_line=start, end_line=end)
    assert (reference.start_line, reference.end_line) == (start, end)
    assert round_trip(reference) == (reference,)


@pytest.mark.requirement("S2-35")
@pytest.mark.parametrize(
    ("start", "end", "code", "field"),
    [
        *((start, end, "out_of_range", "start_line") for start, end in ((0, None), (-1, None))),
        (0, 0, "out_of_range", "start_line"),
        *((start, end, "end_before_start", "end_line") for start, end in ((3, 2), (1, 0))),
        (None, 3, "end_without_start", "end_line"),
        *((start, None, "wrong_type", "start_line") for start in (1.0, True, "1")),
        *((1, end, "wrong_type", "end_line") for end in ("2", 2.0, True)),
    ],
)
def test_a_range_of_lines_does_not_run_backwards(
    start: Any, end: Any, code: str, field: str
) -> None:
    error = expect_error(lambda: FileReference(path="a.py", start_line=start, end_line=end))
    assert (error.code, error.field) == (code, field)


@pytest.mark.requirement("S2-03")
def test_the_content_of_a_reference_is_recorded_in_a_resolution() -> None:
    pending = Resolution(target="e1", block=1, status=ResolutionStatus.PENDING)
    assert pending.content == ()
    found = Resolution(
        target="e1",
        block=1,
        status=ResolutionStatus.RESOLVED,
        content=(Text("3  def main():"),),
        details={"sha256": SHA},
    )
    assert found.content == (Text("3  def main():"),)
    assert set(FileReference.__struct_fields__) == {
        *("path", "start_line", "end_line", "extras", "unknown"),
    }


# -- resources -----------------------------------------------------------------------------------

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.mark.requirement("S2-07")
def test_a_resource_has_server_uri_content_type_and_time() -> None:
    resource = Resource(
        server="db", uri="db://schema", mime_type="text/sql", text="create", retrieved_at=NOON
    )
    assert (resource.server, resource.uri, resource.mime_type) == ("db", "db://schema", "text/sql")
    assert (resource.text, resource.data, resource.retrieved_at) == ("create", None, NOON)
    assert round_trip(resource) == (resource,)


@pytest.mark.requirement("S2-07")
def test_a_resource_may_be_bytes_or_only_a_link() -> None:
    bytes_ = Resource(server="db", uri="db://dump", data=b"\x00\xff")
    link = Resource(server="db", uri="db://dump")
    empty = Resource(server="db", uri="db://dump", text="")
    assert round_trip(bytes_, link, empty) == (bytes_, link, empty)
    assert len({bytes_, link, empty}) == 3


@pytest.mark.parametrize("field", ["server", "uri"])
@pytest.mark.parametrize("wrong", ["", None, 7, b"db", "\ud83d"], ids=repr)
def test_a_resource_names_its_server_and_uri(field: str, wrong: object) -> None:
    fields = cast("Any", {"server": "db", "uri": "db://x", field: wrong})
    error = expect_error(lambda: Resource(**fields))
    assert error.field == field
    assert error.code == {"": "empty", "\ud83d": "lone_surrogate"}.get(
        cast("Any", wrong), "wrong_type"
    )


def test_text_and_bytes_of_a_resource_exclude_each_other() -> None:
    error = expect_error(lambda: Resource(server="db", uri="u", text=SECRET, data=b""))
    assert error.code == "text_and_data"


@pytest.mark.requirement("S2-07")
def test_a_time_is_kept_in_utc() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    resource = Resource(server="db", uri="u", retrieved_at=elsewhere)
    assert resource.retrieved_at == NOON
    assert resource.retrieved_at is not None
    assert resource.retrieved_at.tzinfo is UTC
    assert resource == Resource(server="db", uri="u", retrieved_at=NOON)
    assert hash(resource) == hash(Resource(server="db", uri="u", retrieved_at=NOON))


@pytest.mark.parametrize("moment", [NOON.replace(tzinfo=None), NOON.date(), "2026-06-01", 0])
def test_a_time_without_a_zone_is_refused(moment: Any) -> None:
    error = expect_error(lambda: Resource(server="db", uri="u", retrieved_at=moment))
    assert (error.code, error.field) == ("no_time_zone", "retrieved_at")


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
    ],
    ids=["earliest", "latest"],
)
@pytest.mark.requirement("NFR-004a-27")
def test_a_time_that_utc_cannot_express_is_refused(moment: datetime) -> None:
    expect_error(lambda: Resource(server="db", uri="u", retrieved_at=moment))


# -- opaque --------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-09", "NFR-004a-31")
def test_a_block_of_a_newer_version_is_kept_word_for_word() -> None:
    data = b'{"type":"user","content":[{ "type":"hologram" , "x":[1.0,1e2] }]}'
    loaded = decode_message(data)
    assert isinstance(loaded, UserMessage)
    [block] = loaded.content
    assert isinstance(block, Opaque)
    assert (block.kind, block.origin) == ("hologram", "steno")
    assert block.raw == '{ "type":"hologram" , "x":[1.0,1e2] }'
    assert encode_message(loaded) == data


def test_an_unknown_block_of_a_provider_is_kept_as_opaque() -> None:
    block = Opaque(kind="input_audio", raw='{"format": "wav"}', origin="openai_chat")
    assert not block.unknown
    assert round_trip(block) == (block,)


@pytest.mark.parametrize("field", ["kind", "raw", "origin"])
@pytest.mark.parametrize("wrong", [None, 7, b"x", "\ud83d"], ids=repr)
def test_an_opaque_block_is_made_of_text(field: str, wrong: object) -> None:
    fields = cast("Any", {"kind": "x", "raw": "{}", "origin": "gemini", field: wrong})
    error = expect_error(lambda: Opaque(**fields))
    assert error.field == field
    assert error.code == ("lone_surrogate" if wrong == "\ud83d" else "wrong_type")


@pytest.mark.requirement("NFR-004a-18")
@pytest.mark.parametrize("raw", ["", "{", "not json", '{"a":1} {"b":2}', '"}],"x":['])
def test_raw_data_that_is_written_back_must_be_json(raw: str) -> None:
    """If it were not, one such block would make the whole document unreadable."""
    try:
        block = Opaque(kind="x", raw=raw, origin="steno")
    except InvalidMessage:
        return
    written = encode_message(ChatMessage.user([block]))
    msgspec.json.decode(written)
    assert decode_message(written) == ChatMessage.user([block])
