"""Headers and records as they are stored, and the ids and times that they are made with."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from steno import ChatMessage
from steno.codec import decode_header, decode_record, encode_header, encode_record
from steno.errors import InvalidDocument, UnsupportedVersion
from steno.ids import new_id, utc_now
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH, Header, Record

ENTRY = Entry(id="e1", payload=ChatMessage.user("my secret"))
DIGEST = "0" * 64


# -- ids and times -----------------------------------------------------------------------------


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_it() -> None:
    before = datetime.now(UTC)
    found = UUID(new_id())
    assert (found.version, found.variant) == (7, "specified in RFC 4122")
    made = datetime.fromtimestamp((found.int >> 80) / 1000, UTC)
    assert abs(made - before) < timedelta(minutes=1)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", new_id())


def test_ids_sort_in_the_order_they_were_made() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_threads_never_make_the_same_id() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = [pool.submit(lambda: [new_id() for _ in range(1000)]) for _ in range(8)]
            batches = [done.result() for done in made]
    finally:
        sys.setswitchinterval(before)
    assert len({id for batch in batches for id in batch}) == 8000
    assert len({id[:18] for batch in batches for id in batch}) == 8000
    assert all(batch == sorted(batch) for batch in batches)


def test_times_are_in_utc() -> None:
    assert utc_now().tzinfo is UTC
    assert abs(utc_now() - datetime.now(UTC)) < timedelta(minutes=1)


# -- headers -----------------------------------------------------------------------------------


def test_a_header_is_one_line_and_comes_back() -> None:
    moment = datetime(2024, 5, 17, 14, tzinfo=timezone(timedelta(hours=2)))
    header = Header(
        id="talk", created_at=moment, title="a\nb", cloned_from="other", about={"n": [1, {"a": 2}]}
    )
    line = encode_header(header)
    assert b"\n" not in line
    assert b'"created_at":"2024-05-17T12:00:00Z"' in line
    assert decode_header(line) == header
    assert "title=<3 characters>" in repr(header)
    assert "cloned_from='other'" in repr(header)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"id": ""}, "empty"),
        ({"id": 1}, "wrong_type"),
        ({"id": "\ud800"}, "lone_surrogate"),
        ({"id": "a", "created_at": datetime(2024, 5, 17)}, "no_time_zone"),  # noqa: DTZ001
        ({"id": "a", "title": 1}, "wrong_type"),
        ({"id": "a", "about": [1]}, "not_a_mapping"),
        ({"id": "a", "about": {"a": ...}}, "unsupported_type"),
    ],
    ids=str,
)
def test_a_header_that_breaks_a_rule_is_refused(wrong: Any, code: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        Header(**wrong)
    error = caught.value
    assert (error.place, error.code, error.field) == ("header", code, [*wrong][-1])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v":2}', '{"v":2,"id":""}', '{"v":2,"id":7}'])
def test_json_that_is_not_a_header_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocument):
        decode_header(text)


@pytest.mark.parametrize("text", ['{"v":3,"id":"a"}', '{"v":1,"id":"a"}'])
def test_a_header_of_another_version_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_header(text)
    assert (caught.value.place, caught.value.code) == ("header of a session", "unsupported_version")


# -- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        Record(seq=1, branch=MAIN_BRANCH, entry=ENTRY, digest=DIGEST),
        Record(seq=2, branch="a\nb", at="e1"),
        Record(seq=2**60, branch="idea"),
    ],
)
def test_a_record_is_one_line_and_comes_back(record: Record) -> None:
    line = encode_record(record)
    assert b"\n" not in line
    assert decode_record(line) == record
    assert "my secret" not in repr(record)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"seq": 0, "branch": MAIN_BRANCH}, "seq must be at least 1"),
        ({"seq": "1", "branch": MAIN_BRANCH}, "seq must be int, not str"),
        ({"seq": 1, "branch": ""}, "branch must not be empty"),
        ({"seq": 1, "branch": MAIN_BRANCH, "entry": ENTRY}, "entry and digest must be set"),
        ({"seq": 1, "branch": MAIN_BRANCH, "digest": DIGEST}, "entry and digest must be set"),
        (
            {"seq": 1, "branch": MAIN_BRANCH, "entry": ENTRY, "digest": "0" * 63},
            "digest must be 64 lower-case hexadecimal digits",
        ),
        (
            {"seq": 1, "branch": MAIN_BRANCH, "entry": ENTRY, "digest": "F" * 64},
            "digest must be 64 lower-case hexadecimal digits",
        ),
        (
            {"seq": 1, "branch": MAIN_BRANCH, "entry": ENTRY, "digest": DIGEST, "at": "e1"},
            "entry and at must not both be set",
        ),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused(wrong: Any, rule: str) -> None:
    with pytest.raises(InvalidDocument) as refusal:
        Record(**wrong)
    assert str(refusal.value).startswith(f"record: {rule}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"seq":0,"branch":"a"}',
        '{"seq":1}',
        '{"seq":1,"branch":"a","digest":"0"}',
    ],
)
def test_json_that_is_not_a_record_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocument):
        decode_record(text)


def test_a_record_keeps_unknown_data() -> None:
    line = (
        b'{"seq":1,"branch":"main","entry":{"v":4,"id":"n1","x":1.50},'
        b'"digest":"' + DIGEST.encode() + b'","y":[ 1e400 ]}'
    )
    record = decode_record(line)
    assert record.entry is not None
    assert not record.entry.is_understood
    assert encode_record(record) == line
