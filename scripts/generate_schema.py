"""Write the JSON Schema of the stored format to docs/schema/, or check that it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from steno.codec import Document
from steno.entry import FORMAT_VERSION, Entry
from steno.message import Message
from steno.value import Verbatim

TARGET = Path(__file__).parent.parent / "docs" / "schema" / f"steno-{FORMAT_VERSION}.schema.json"


def build_schema() -> dict[str, Any]:
    """Describe documents, entries and messages, with every part they are made of."""
    types = (Document, Entry, Message)
    template = "#/$defs/{name}"
    roots, parts = msgspec.json.schema_components(
        types, schema_hook=_describe_custom, ref_template=template
    )
    for part in parts.values():
        _open(part)
    parts["Message"] = {"description": "One message, as a file of its own.", **roots[2]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"steno conversation, version {FORMAT_VERSION}",
        "description": (
            "A document is a conversation; `#/$defs/Entry` is one line of a log and "
            "`#/$defs/Message` one message. Readers keep members and types they do not know."
        ),
        **roots[0],
        "$defs": dict(sorted(parts.items())),
    }


def _describe_custom(custom: type) -> dict[str, Any]:
    if custom is Verbatim:
        return {"description": "removed again by _open"}
    raise TypeError(f"no schema for {custom.__name__}")


def _open(part: dict[str, Any]) -> None:
    """Say what is stored, not how it is held: unknown members are welcome anywhere."""
    part.get("properties", {}).pop("unknown", None)
    part.pop("additionalProperties", None)


def main() -> int:
    """Write the schema; with --check only compare."""
    text = msgspec.json.format(msgspec.json.encode(build_schema()), indent=2).decode() + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} does not describe the code: run `make fix`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
