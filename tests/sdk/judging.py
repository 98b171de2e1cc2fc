"""How an SDK's own types judge what we send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from steno.testing.case_results import expect_json


def accept(type_: Any, value: Any) -> None:
    """Let an SDK's type check a value; what it does not know is missing in what comes out."""
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    expect_json(plain(adapter.validate_python(value)), plain(value), "as the SDK understands it")


def plain(value: Any) -> Any:
    """Return what was validated as plain values: SDKs validate their lists as they are read."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json", by_alias=True, exclude_unset=True))
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(element) for element in value]
    return value
