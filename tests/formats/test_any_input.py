"""Any file is read or refused, and its format is detected from its content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import ChatMessage, InvalidDocument, UserMessage
from steno.codec import Document, encode_document
from steno.formats import FORMATS, build_records, detect_format
from steno.json_object import is_json_text
from steno.store import MemoryStore
from tests.formats.sample_files import AUDIT_EXAMPLE, SESSION_EXAMPLE

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
ROWS = json.dumps(
    [
        {"id": 1, "kind": "system", "content": "Be brief.", "data_json": None},
        {"id": 2, "kind": "user", "content": "Hi", "data_json": "{}"},
        {
            "id": 3,
            "kind": "tool_call",
            "content": None,
            "data_json": '{"tool_call_id":"a","name":"read","arguments":"{}"}',
        },
        {
            "id": 4,
            "kind": "tool",
            "data_json": '{"tool_call_id":"a","output":"words","success":true}',
        },
        {"id": 5, "kind": "mark", "content": "here", "data_json": "not JSON"},
    ]
).encode()
SAMPLES = {
    "audit": AUDIT_EXAMPLE,
    "session": SESSION_EXAMPLE,
    "rows": ROWS,
    "chat": (GOLDEN / "v0_openai_calls.json").read_bytes(),
}
every_format = pytest.mark.parametrize("name", list(FORMATS))
SECRET = "hunter2"
WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1.5, "", SECRET, [], [SECRET], {}, {"type": SECRET}),
    [[[{"a": None}]]],
)


def survives(name: str, data: bytes) -> bool:
    """Return whether a file is read; if it is, store it and write it, too."""
    format = FORMATS[name]
    try:
        imported = format.decode(data)
    except InvalidDocument as exc:
        return refused_discreetly(exc)
    store = MemoryStore()
    store.add_session(imported.header, build_records(imported.entries))
    assert store.verify(imported.header.id).is_intact
    assert is_json_text(format.encode(*imported).data.decode())
    return True


def refused_discreetly(exc: InvalidDocument) -> bool:
    assert SECRET not in str(exc)
    return False


def changed(node: Any, wrong: Any) -> Iterator[Any]:
    """Return `node` with each of its parts replaced, one at a time."""
    yield wrong
    parts = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, part in parts:
        for other in changed(part, wrong):
            copy = node.copy()
            copy[key] = other
            yield copy


@every_format
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.requirement("S3-04")
def test_a_value_of_the_wrong_type_anywhere_is_read_or_refused(name: str, wrong: Any) -> None:
    for document in changed(json.loads(SAMPLES[name]), wrong):
        survives(name, json.dumps(document).encode())


@every_format
def test_a_file_that_was_cut_off_is_refused(name: str) -> None:
    data = SAMPLES[name].rstrip()
    assert survives(name, data)
    for length in range(0, len(data) - 1, 7):
        assert not survives(name, data[:length]) or not data[:length].strip()


@every_format
def test_a_byte_order_mark_does_no_harm(name: str) -> None:
    marked = FORMATS[name].decode(b"\xef\xbb\xbf" + SAMPLES[name])
    plain = FORMATS[name].decode(SAMPLES[name])
    assert [entry.payload for entry in marked.entries] == [entry.payload for entry in plain.entries]
    assert detect_format(b"\xef\xbb\xbf" + SAMPLES[name]) == name


@every_format
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 5000])
def test_numbers_that_are_none_are_refused_and_large_ones_survive(name: str, number: bytes) -> None:
    data = SAMPLES[name].strip()
    odd = {
        "audit": data[:-1] + b',"odd":' + number + b"}",
        "session": data[:-1] + b',"odd":' + number + b"}",
        "rows": data[:-1] + b',{"kind":"mark","odd":' + number + b"}]",
        "chat": data[:-1] + b',"odd":' + number + b"}",
    }[name]
    is_number = number[:1].isdigit()
    assert survives(name, odd) == is_number
    if is_number:
        assert number in FORMATS[name].encode(*FORMATS[name].decode(odd)).data


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000])
def test_unreadable_numbers_are_refused_where_they_must_be_read(
    number: bytes,
) -> None:
    survives("audit", b'{"entries":[{"message":{"type":"x"},"audit":{"n":' + number + b"}}]}")
    survives(
        "audit", b'{"entries":[{"message":{"type":"user","content":"a","n":' + number + b"}}]}"
    )
    assert survives(
        "audit",
        b'{"entries":[{"message":{"type":"tool_result","tool_id":"a","result":' + number + b"}}]}",
    )
    assert survives("rows", b'[{"kind":"user","content":"a","id":' + number + b"}]")
    assert survives("session", b'{"version":1,"id":' + number + b',"messages":[]}')


@every_format
@pytest.mark.parametrize("shape", [b"[", b'{"a":'])
def test_nesting_of_any_depth_is_read_or_refused(name: str, shape: bytes) -> None:
    depth = 20_000
    deep = shape * depth + b"1" + (b"]" if shape == b"[" else b"}") * depth
    message = b'{"type":"user","content":"a","x":' + deep + b"}"
    answered = b'{"type":"tool_result","tool_id":"a","result":' + deep + b"}"
    documents = {
        "audit": [
            b'{"entries":[{"message":' + message + b"}]}",
            b'{"entries":[{"message":' + answered + b"}]}",
            b'{"entries":[{"message":{"type":"x"},"audit":' + deep + b"}]}",
            b'{"entries":[{"message":{"type":"x"},"audit":{"steno":' + deep + b"}}]}",
        ],
        "session": [
            b'{"version":1,"messages":[' + deep + b"," + message + b"]}",
            b'{"version":1,"x":' + deep + b',"messages":[{"type":"user","content":' + deep + b"}]}",
        ],
        "rows": [
            b'[{"kind":"mark","content":' + deep + b"}]",
            b'[{"kind":"user","content":"a","x":' + deep + b"}]",
        ],
        "chat": [b'[{"role":"user","content":' + deep + b"}]"],
    }
    for data in (deep, deep[:-1], *documents[name]):
        survives(name, data)


@every_format
@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    survives(name, data)


@every_format
def test_five_megabytes_are_read_and_written(name: str) -> None:
    text = "words " * (5 * 1024 * 1024 // 6)
    documents: dict[str, Any] = {
        "audit": {"entries": [{"message": {"type": "user", "content": text}}]},
        "session": {
            "version": 1,
            "messages": [{"type": "user", "content": [{"type": "text", "text": text}]}],
        },
        "rows": [{"kind": "user", "content": text}],
        "chat": [{"role": "user", "content": text}],
    }
    imported = FORMATS[name].decode(json.dumps(documents[name]).encode())
    (entry,) = imported.entries
    assert isinstance(entry.payload, UserMessage)
    assert entry.payload.text == text
    assert len(FORMATS[name].encode(*imported).data) > len(text)


@every_format
def test_halves_of_surrogate_pairs_are_replaced(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    documents = {
        "audit": b'{"entries":[{"message":{"type":"user","content":"a\\ud800"}}]}',
        "session": b'{"version":1,"messages":[{"type":"user","content":[{"type":"text","text":"a\\ud800"}]}]}',
        "rows": b'[{"kind":"user","content":"a\\ud800"}]',
        "chat": b'[{"role":"user","content":"a\\ud800"}]',
    }
    (entry,) = FORMATS[name].decode(documents[name]).entries
    assert isinstance(entry.payload, UserMessage)
    assert entry.payload.text == "a\ufffd"
    assert "surrogate" in caplog.text


# -- detection -----------------------------------------------------------------------------------


@every_format
def test_each_format_is_known_by_its_content(name: str) -> None:
    assert detect_format(SAMPLES[name]) == name
    imported = FORMATS[name].decode(SAMPLES[name])
    assert detect_format(FORMATS[name].encode(*imported).data) == name


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"kind":"user","content":"a"}\n{"kind":"mark"}\n', "rows"),
        (b'\n {"crc":"00000000","session":{"v":2,"id":"s"}}\n{"crc":"0', "jsonl"),
        (b'{\n"messages":[]}', "chat"),
        (b'[5,{"role":"user"}]', "chat"),
        (b'{"version":2,"entries":[]}', "steno"),
        (encode_document(Document.of([ChatMessage.user("Hi")])), "steno"),
        ((GOLDEN / "v1_session.json").read_bytes(), "session"),
        ((GOLDEN / "v0_flat_chat.json").read_bytes(), "chat"),
    ],
)
def test_formats_are_known_in_all_their_forms(data: bytes, name: str) -> None:
    assert detect_format(data) == name


AUDIT_ENTRY = b'{"message":{"type":"user","content":"Hi"}}'
STORED_ENTRY = b'{"v":2,"id":"a","payload":{"type":"user","content":[{"type":"text","text":"Hi"}]}}'
ROLE_MESSAGE = b'{"role":"user","content":"Hi"}'
TYPED_MESSAGE = b'{"type":"user","content":[{"type":"text","text":"Hi"}]}'


@pytest.mark.requirement("S2-10", "P-12")
@pytest.mark.parametrize(
    "head", ["", '"version":1,', '"version":2,', '"version":"1.0",', '"kind":"log",', '"role":"x",']
)
@pytest.mark.parametrize(
    ("name", "part", "format"),
    [
        ("entries", AUDIT_ENTRY, "audit"),
        ("entries", b"5," + AUDIT_ENTRY, "audit"),
        ("entries", STORED_ENTRY, "steno"),
        ("messages", ROLE_MESSAGE, "chat"),
        ("messages", b'{"type":"other"},' + ROLE_MESSAGE, "chat"),
        ("messages", TYPED_MESSAGE, "session"),
    ],
)
def test_the_entries_or_messages_show_the_format_and_not_the_members_beside_them(
    head: str, name: str, part: bytes, format: str
) -> None:
    data = b'{%s"%s":[%s]}' % (head.encode(), name.encode(), part)
    assert detect_format(data) == format


@pytest.mark.requirement("S2-10")
@pytest.mark.parametrize("version", [b"1", b"2", b'"1.0"'])
@pytest.mark.parametrize(
    ("name", "part", "format"),
    [("entries", AUDIT_ENTRY, "audit"), ("messages", ROLE_MESSAGE, "chat")],
)
def test_a_file_with_a_version_of_its_own_is_read_and_written_unchanged(
    version: bytes, name: str, part: bytes, format: str
) -> None:
    data = b'{"version":%s,"%s":[%s]}' % (version, name.encode(), part)
    header, (entry,) = FORMATS[detect_format(data)].decode(data)
    assert isinstance(entry.payload, UserMessage)
    assert entry.payload.text == "Hi"
    assert json.loads(FORMATS[format].encode(header, [entry]).data) == json.loads(data)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"version":1,"messages":[]}', "session"),
        (b'{"version":1,"id":"s"}', "session"),
        (b'{"version":1,"system_prompt":"Be brief."}', "session"),
        (b'{"version":2}', "steno"),
        (b'{"version":3,"conversation":{}}', "steno"),
        (b'{"version":%s}' % (b"9" * 5000), "steno"),
        (b'{"entries":[]}', "audit"),
    ],
)
def test_a_file_without_content_is_known_by_its_members(data: bytes, name: str) -> None:
    assert detect_format(data) == name


@pytest.mark.parametrize(
    "data", [b'{"version":1}', b'{"version":1,"services":{}}', b'{"version":2,"services":{}}']
)
def test_a_version_alone_is_no_session(data: bytes) -> None:
    with pytest.raises(InvalidDocument) as failure:
        detect_format(data)
    assert failure.value.code == "unknown_format"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        *[(data, "input_empty") for data in (b"", b" \n", b"\xef\xbb\xbf")],
        *[(data, "not_a_conversation") for data in (b"5", b"[]", b"{}", b"null", b"[1]", b"[[]]")],
        *[(data, "not_json") for data in (b"hello", b'{"a":1')],
        (b"\xff", "not_utf8"),
        (b'{"version":"2"}', "invalid_version"),
        (b'{"a":1}', "unknown_format"),
    ],
)
def test_an_unknown_format_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(InvalidDocument) as failure:
        detect_format(data)
    assert failure.value.code == code


@every_format
def test_an_empty_file_is_refused(name: str) -> None:
    for data in (b"", b"\n"):
        with pytest.raises(InvalidDocument) as failure:
            FORMATS[name].decode(data)
        assert failure.value.code == "input_empty"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'[{"role":"user",}]', "(line 1, column 17)"),
        (b'{"messages": [\n  {"role":"user", "content": "a"},\n  oops]}', "(line 3, column 3)"),
        ('[\n{"role": "über", ]'.encode(), "(line 2, column 18)"),
    ],
)
def test_a_syntax_error_has_a_line_and_a_column(data: bytes, place: str) -> None:
    with pytest.raises(InvalidDocument) as failure:
        FORMATS["chat"].decode(data)
    assert failure.value.code == "not_json"
    assert str(failure.value).endswith(place)


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ('{"role":"user" "content":"a"}', 16),
        ('{"role":"über" "content":"a"}', 16),
        ('{"role":', None),
        ('{"a":' * 5000 + "x", None),
    ],
    ids=["comma", "not_ascii", "truncated", "deep"],
)
def test_a_syntax_error_in_a_line_names_the_line_once(line: str, column: int | None) -> None:
    with pytest.raises(InvalidDocument) as failure:
        FORMATS["chat"].decode(f'{{"role":"user","content":"a"}}\n\n{line}\n'.encode())
    assert (failure.value.code, failure.value.place) == ("not_json", "line 3")
    assert str(failure.value).count("line") == 1
    assert (f"(column {column})" in str(failure.value)) is (column is not None)


LINES = {
    "audit": b'{"id":"a","message":{"type":"user","content":"Hi"}}\r\n\n'
    b'{"id":"b","message":{"type":"assistant_text","content":"Hello"}}\n',
    "session": b'{"type":"user","content":[{"type":"text","text":"Hi"}],"is_error":false}\n'
    b'{"type":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":""}',
    "rows": b'{"kind":"user","content":"Hi"}\n{"kind":"assistant","content":"Hello"}',
    "chat": b'{"role":"user","content":"Hi"}\n{"role":"assistant","content":"Hello"}',
}


@every_format
@pytest.mark.requirement("S1-08", "S2-10")
def test_objects_on_separate_lines_are_read_and_written_as_an_array(name: str) -> None:
    assert detect_format(LINES[name]) == name
    imported = FORMATS[name].decode(LINES[name])
    messages = [entry.message for entry in imported.entries]
    assert [message.text for message in messages if message is not None] == ["Hi", "Hello"]
    listed = [json.loads(line) for line in LINES[name].splitlines() if line.strip()]
    exported = json.loads(FORMATS[name].encode(*imported).data)
    if name == "rows":  # with the columns that rows have
        exported = [{column: row[column] for column in ("kind", "content")} for row in exported]
    assert exported == listed


ODD_BLOCK = {"type": "hologram", "x": 1}
WRAPPED = {"type": "opaque", "kind": "x", "raw": "{}", "origin": "steno"}
ODD_LINES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "audit": (
        [
            {"id": "a", "message": {"type": "user", "content": "Hi"}},
            {"id": "b", "message": {"type": "vote"}},
            {
                "id": "c",
                "message": {"type": "system_context", "content": "a"},
                "audit": {"steno": {"type": "vote"}},
            },
        ],
        ["line 3: message", "line 4: audit.steno"],
    ),
    "chat": (
        [
            {"role": "user", "content": "Hi"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, ODD_BLOCK, WRAPPED]},
            {"role": "wizard", "content": "a"},
        ],
        ["line 3: content[1]", "line 3: content[2]", "line 4"],
    ),
    "session": (
        [
            {"type": "user", "content": [{"type": "text", "text": "a"}], "is_error": True},
            {"type": "user", "content": [ODD_BLOCK, WRAPPED], "timestamp": "2026-02-18T12:00:00Z"},
            {"type": "wizard"},
        ],
        ["line 1", "line 3: content[0]", "line 3: content[1]", "line 4"],
    ),
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_a_warning_about_a_file_of_lines_names_the_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    listed, places = ODD_LINES[name]
    first, *others = map(json.dumps, listed)
    found = FORMATS[name].decode("\n".join([first, "", *others]).encode()).entries
    assert [vars(record)["place"] for record in caplog.records] == places
    array = FORMATS[name].decode(json.dumps(listed).encode()).entries
    assert [entry.payload for entry in found] == [entry.payload for entry in array]


def test_an_invalid_entry_in_a_line_is_an_error_that_names_the_line() -> None:
    data = LINES["audit"] + b'{"id":"c","message":{"type":"user"}}'
    with pytest.raises(InvalidDocument) as failure:
        FORMATS["audit"].decode(data)
    assert (failure.value.code, failure.value.place) == ("not_a_string", "line 4: message.content")


def test_an_array_of_entries_is_an_audit_log() -> None:
    data = b'[{"id":"a","message":{"type":"user","content":"Hi"},"x":1}]'
    assert detect_format(data) == "audit"
    imported = FORMATS["audit"].decode(data)
    assert [entry.id for entry in imported.entries] == ["a"]
    assert json.loads(FORMATS["audit"].encode(*imported).data) == json.loads(data)
    with pytest.raises(InvalidDocument) as failure:
        FORMATS["audit"].decode(b'[{"message":{"type":"user"}}]')
    assert failure.value.place == "[0].message.content"


@given(st.binary(max_size=60))
def test_any_bytes_are_in_a_format_or_refused(data: bytes) -> None:
    with suppress(InvalidDocument):
        assert detect_format(data) in {*FORMATS, "jsonl", "steno"}


def test_a_format_is_listed_under_its_name() -> None:
    assert {format.name for format in FORMATS.values()} == set(FORMATS)
    assert len({format.extension for format in FORMATS.values()}) == len(FORMATS)
