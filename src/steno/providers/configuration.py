"""Vendors from a configuration file: TOML or JSON that somebody else has parsed.

    [providers.lab]
    like = "vllm"
    base_url = "http://gpu.example:8000/v1"
    key_variables = ["LAB_KEY"]

A row stands alone or is `like` one that is known, and then only says what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from steno.errors import InvalidValue
from steno.providers.catalog import CATALOG
from steno.providers.endpoint import endpoint_of
from steno.providers.vendor import Auth, Vendor
from steno.wire.openai_chat import DIALECTS, Dialect

T = TypeVar("T")

_PLACE: Final = re.compile(r"^(?P<rule>.*?)(?: - at `\$(?P<place>.*)`)?$", re.DOTALL)


class _Row(Struct, forbid_unknown_fields=True, kw_only=True):
    """A row as it stands in a file."""

    like: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    wire: str | UnsetType = UNSET
    base_url: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    dialect: dict[str, Any] | str | UnsetType = UNSET
    auth: str | UnsetType = UNSET
    key_variables: tuple[str, ...] | UnsetType = UNSET
    needs_key: bool | UnsetType = UNSET
    needs_model: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    capabilities: _Capabilities | UnsetType = UNSET
    context_tokens: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET


class _Capabilities(Struct, forbid_unknown_fields=True, kw_only=True):
    """The same for what it can do."""

    tools: bool | UnsetType = UNSET
    vision: bool | UnsetType = UNSET
    thinking: bool | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


def read_vendors(
    table: Mapping[str, Any], *, known: Mapping[str, Vendor] = CATALOG
) -> dict[str, Vendor]:
    """Return the known vendors and those of a table, which is a row for each name.

    A row of a known name replaces it. Rows may be like earlier ones of the same table. Raises
    InvalidValue with the place of what is wrong.
    """
    found = dict(known)
    for name, row in table.items():
        found[name] = _read(name, row, found)
    return found


def _read(name: str, row: object, known: Mapping[str, Vendor]) -> Vendor:
    said = _given(_convert(row, _Row, name))
    like, dialect = said.pop("like", None), said.pop("dialect", None)
    base = _base(name, said) if like is None else known.get(like)
    if base is None:
        raise InvalidValue(f"{name}.like: must be one of {', '.join(sorted(known))}")
    if "auth" in said:
        said["auth"] = _auth(said["auth"], name)
    if "capabilities" in said:
        said["capabilities"] = replace(base.capabilities, **_given(said["capabilities"]))
    if "headers" in said:
        said["headers"] = tuple([(key.lower(), text) for key, text in said["headers"].items()])
    if "base_url" in said:
        said.setdefault("needs_model", base.needs_model_at(said["base_url"]))
    vendor = replace(base, **{"provider": base.provider_name, **said, "name": name})
    endpoint_of(vendor)
    return vendor if dialect is None else replace(vendor, dialect=_dialect(dialect, vendor))


def _base(name: str, said: dict[str, Any]) -> Vendor:
    """Return what a row begins with that is like no other."""
    for field in ("wire", "base_url"):
        if field not in said:
            raise InvalidValue(f"{name}.{field}: must be there, or a row to be like")
    needs_key = bool(said.get("key_variables"))
    return Vendor(name=name, wire=said["wire"], base_url=said["base_url"], needs_key=needs_key)


def _auth(said: str, name: str) -> Auth:
    try:
        return Auth(said)
    except ValueError:
        raise InvalidValue(f"{name}.auth: must be one of {', '.join(Auth)}") from None


def _dialect(said: str | dict[str, Any], vendor: Vendor) -> Dialect:
    """Return a dialect by its name, or that of the vendor with some fields changed."""
    place = f"{vendor.name}.dialect"
    if isinstance(said, str):
        if said not in DIALECTS:
            raise InvalidValue(f"{place}: must be one of {', '.join(sorted(DIALECTS))}")
        return DIALECTS[said]
    if unknown := said.keys() - set(Dialect.__struct_fields__) - {"provider"}:
        raise InvalidValue(f"{place}: has no field {min(unknown)}")
    changed = _convert({**said, "provider": vendor.provider_name}, Dialect, place)
    return replace(vendor.chat_dialect, **{name: getattr(changed, name) for name in said})


def _given(row: Struct) -> dict[str, Any]:
    """Return what a row says, and nothing that it leaves open."""
    return {name: value for name, value in asdict(row).items() if value is not UNSET}


def _convert(value: object, kind: type[T], place: str) -> T:
    try:
        return msgspec.convert(value, kind, dec_hook=_compile)
    except msgspec.ValidationError as exc:
        found = _PLACE.fullmatch(str(exc))
        assert found is not None
        raise InvalidValue(f"{place}{found['place'] or ''}: {found['rule']}") from None


def _compile(kind: type, value: object) -> object:
    """Read the pattern of call ids; msgspec knows all other types."""
    if not isinstance(value, str):
        raise ValueError("Expected `str`")
    try:
        return re.compile(value)
    except re.error:
        raise ValueError("Not a regular expression") from None
