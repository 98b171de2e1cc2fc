"""Schemas that pydantic made, fitted into ours.

A pydantic model describes itself better than we could, with its own `$defs`. Those move
up to the root, under new names where ours or another model's are already taken.
This file knows the shape of `model_json_schema()`, never pydantic itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steno.errors import InvalidTool
from steno.schema.shapes import is_array, is_mapping

_PREFIX = "#/$defs/"


class Adopter:
    """Takes the definitions of pydantic models into `defs`, each of them once."""

    def __init__(self, defs: dict[str, Any], free_name: Callable[[str], str]) -> None:
        self._defs = defs
        self._free_name = free_name
        self._taken: dict[str, tuple[Any, str]] = {}

    def add_model(self, model: Any, at: str) -> str:
        """Take over a model and all it refers to; return its key in `defs`.

        Raises InvalidTool for a model that pydantic cannot describe.
        """
        try:
            schema = model.model_json_schema()
        except (RuntimeError, NameError, TypeError) as exc:  # what pydantic's errors are made of
            raise InvalidTool(f"{at}: pydantic has no schema for {model.__name__}") from exc
        found: dict[str, Any] = schema.pop("$defs", {})
        key = schema.get("$ref", "").removeprefix(_PREFIX)  # a recursive model points at itself
        if not key:
            key = model.__name__
            # A definition of that name is another class: pydantic inlined this one.
            while key in found:
                key += "_"
            found[key] = schema
        # Equal names are the same definitions only if all of them are.
        known = all(self._taken.get(k, (v, ""))[0] == v for k, v in found.items())
        names = {k: self._taken[k][1] for k in found if known and k in self._taken}
        fresh = {k: v for k, v in found.items() if k not in names}
        for k in fresh:
            names[k] = self._free_name(k)
            self._defs[names[k]] = {}
        for k, v in fresh.items():
            self._taken[k] = (v, names[k])
            self._defs[names[k]] = _renamed(v, names)
        return names[key]


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    """Return a copy in which every reference, also those of a discriminator, has its new name."""
    if is_mapping(schema):
        return {keyword: _renamed(part, names) for keyword, part in schema.items()}
    if is_array(schema):
        return [_renamed(item, names) for item in schema]
    if isinstance(schema, str) and schema.startswith(_PREFIX):
        name = schema.removeprefix(_PREFIX)
        return _PREFIX + names.get(name, name)
    return schema
