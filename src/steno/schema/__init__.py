"""Python types and functions as JSON Schema, and values checked against a schema.

    type or function ─► build, functions ─► schema ─► strict ─► closed schema
                                              │
                                              └─────► checks ─► problems
    build    forms · choices · records · pydantic_models, on hints · annotated · docstrings
    checks   applicators · assertions, on walk · explain

The schemas are plain dictionaries of JSON Schema 2020-12.
Nothing in here knows what a tool, a message or a provider is.
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
