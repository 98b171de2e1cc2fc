"""Write the JSON Schema of the stored format to docs/schema/, or check that it is up to date."""

from __future__ import annotations

import operator
import sys
from functools import cache, reduce
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from steno.codec import Document
from steno.messages.message import Message
from steno.messages.tool import ToolDefinition
from steno.records.entry import FORMAT_VERSION, Entry

TARGET = Path(__file__).parent.parent / "docs" / "schema" / f"steno-{FORMAT_VERSION}.schema.json"


def build_schema() -> dict[str, Any]:
    """Return the schema of documents, entries, messages and tools, with all their parts."""
    types = tuple(map(_as_stored, (Document, Entry, Message, ToolDefinition)))
    roots, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
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


def _as_stored(hint: Any) -> Any:
    """Return the stored form of a type: without the field `unknown`, and open to other members."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct_as_stored(hint)
    if origin in (Union, UnionType):
        return reduce(operator.or_, map(_as_stored, arguments))
    if origin is tuple:
        return tuple[_as_stored(arguments[0]), ...]  # type: ignore[misc] # made at run time
    if origin is Annotated:
        return Annotated[(_as_stored(arguments[0]), *arguments[1:])]
    return hint


@cache
def _struct_as_stored(struct: type[msgspec.Struct]) -> type:
    hints = get_type_hints(struct, include_extras=True)
    fields: list[Any] = [
        (field.name, _as_stored(hints[field.name]))
        if field.default is msgspec.NODEFAULT  # including the version, which is always written
        else (field.name, _as_stored(hints[field.name]), field.default)
        for field in msgspec.structs.fields(struct)
        if field.name != "unknown"
    ]
    config = struct.__struct_config__
    made = msgspec.defstruct(
        struct.__name__, fields, kw_only=True, tag_field=config.tag_field, tag=config.tag
    )
    made.__doc__ = struct.__doc__
    return made


def main() -> int:
    """Write the schema; with --check, only compare it."""
    text = msgspec.json.format(msgspec.json.encode(build_schema()), indent=2).decode() + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} is out of date; run `make fix`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
