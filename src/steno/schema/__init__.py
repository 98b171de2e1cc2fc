"""Python types and functions as JSON Schema, and values checked against a schema.

    type or function ─► types, functions ─► schema ─► strict ─► closed schema
                        (hints, annotated,    │
                         docstrings, records, └────► checks ─► problems
                         pydantic_models)            (walk, keywords, explain)

The schemas are plain dictionaries of JSON Schema 2020-12.
Nothing in here knows what a tool, a message or a provider is.
"""

from __future__ import annotations

from steno.schema.checks import check
from steno.schema.functions import FunctionSchema, schema_of_function
from steno.schema.strict import close_objects
from steno.schema.types import schema_of_type

__all__ = ["FunctionSchema", "check", "close_objects", "schema_of_function", "schema_of_type"]
