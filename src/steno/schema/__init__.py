"""Build JSON Schemas from Python types and functions, and check values against them.

    type or function ─► build ─► schema ─► strict ─► closed schema
                                   │
                      JSON value ──┴─────► validate ─► problems
                      JSON value ────────► convert ──► value of a Python type

`build` reads classes and annotations with `type_hints` and `docstrings`. Schemas are plain
dictionaries in JSON Schema 2020-12. This package has no code for messages or providers.
"""

from __future__ import annotations

from steno.schema.build import FunctionSchema, schema_of_function, schema_of_type
from steno.schema.strict import close_objects
from steno.schema.validate import validate_schema, validate_value

__all__ = [
    "FunctionSchema",
    "close_objects",
    "schema_of_function",
    "schema_of_type",
    "validate_schema",
    "validate_value",
]
