"""The published JSON Schema describes the documents that steno writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from steno.codec import decode_document, encode_document

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "steno-3.schema.json").read_bytes())
GOLDEN = sorted((ROOT / "tests" / "data" / "golden").glob("v[23]_*.json"))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.requirement("S2-08")
def test_golden_documents_fit_the_schema(path: Path) -> None:
    document = decode_document(path.read_bytes())
    written = json.loads(encode_document(document))
    # What a newer steno wrote is kept, and is not ours to describe.
    written["entries"] = [
        json.loads(encode_document(type(document)(entries=(entry,))))["entries"][0]
        for entry in document.entries
        if type(entry.payload).__name__ != "Opaque"
    ]
    jsonschema.Draft202012Validator(SCHEMA).validate(written)


@pytest.mark.requirement("S2-08")
def test_the_schema_refuses_documents_that_steno_does_not_write() -> None:
    wrong = {
        "version": 2,
        "entries": [{"v": 2, "id": 7, "payload": {"type": "user", "content": []}}],
    }
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(wrong)
