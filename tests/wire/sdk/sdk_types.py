"""Validate the JSON that steno sends with the types of an SDK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from steno.testing.case_results import expect_json


def validate_as(type_: Any, value: Any) -> None:
    """Validate a value with a type of an SDK; members unknown to the type are dropped."""
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    expect_json(
        plain_values(adapter.validate_python(value)),
        plain_values(value),
        "as the SDK understands it",
    )


def plain_values(value: Any) -> Any:
    """Return a validated value as plain values; SDKs validate lists when they are read."""
    if isinstance(value, BaseModel):
        return plain_values(value.model_dump(mode="json", by_alias=True, exclude_unset=True))
    if isinstance(value, dict):
        return {name: plain_values(member) for name, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain_values(element) for element in value]
    return value
