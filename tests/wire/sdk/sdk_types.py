"""How an SDK's own types judge what we send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from steno.testing.case_results import expect_json


def validate_as(type_: Any, value: Any) -> None:
    """Let an SDK's type check a value; what it does not know is missing in what comes out."""
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    expect_json(
        plain_values(adapter.validate_python(value)),
        plain_values(value),
        "as the SDK understands it",
    )


def plain_values(value: Any) -> Any:
    """Return what was validated as plain values: SDKs validate their lists as they are read."""
    if isinstance(value, BaseModel):
        return plain_values(value.model_dump(mode="json", by_alias=True, exclude_unset=True))
    if isinstance(value, dict):
        return {name: plain_values(member) for name, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain_values(element) for element in value]
    return value
