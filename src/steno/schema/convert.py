"""Convert parsed JSON to the caller's types, and text that a user typed to JSON values.

msgspec converts values, at C speed; pydantic models validate themselves. The result shares no
container with the input. Errors list problems with JSON pointers and never quote the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

import msgspec

from steno.errors import InvalidArguments, Problem
from steno.json_object import copy_json, freeze_json, json_pointer
from steno.schema.msgspec_errors import ValidationProblem, read_validation_error
from steno.schema.validate import validate_value

_PATH_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNSAFE_CODES: Final = frozenset({"invalid_value", "field_unknown"})
"""The codes of problems whose message may quote the value."""


def convert_value(value: Any, type: Any, at: tuple[str, ...] = ()) -> Any:
    """Convert `value` to `type`; `at` is the path of `value` in the arguments.

    Raises InvalidArguments if the value cannot be converted.
    """
    converter = _converter(type)
    try:
        return msgspec.convert(value, type) if converter is None else converter(value)
    except msgspec.ValidationError as exc:
        problem = read_validation_error(exc)
        steps = _PATH_STEP.findall(problem.path)
        # msgspec writes `[...]` for the value of an unnamed key, so the pointer ends before it.
        found = tuple(takewhile(bool, [name or index for name, index in steps]))
        pointer = json_pointer((*at, *found))
        raise InvalidArguments((Problem(pointer, _rule_from_msgspec(problem)),)) from None
    except ValueError as exc:  # the base class of pydantic's ValidationError, which has errors()
        errors = getattr(exc, "errors", None)
        if errors is None:
            raise
        problems: list[Problem] = []
        for each in errors(include_input=False, include_url=False, include_context=False):
            # A validator's own text may quote the value.
            is_own = each["type"] not in ("value_error", "assertion_error")
            rule = str(each["msg"]) if is_own else "rejected by a validator"
            problems.append(Problem(json_pointer((*at, *each["loc"])), rule))
        raise InvalidArguments(tuple(problems)) from None


@lru_cache(maxsize=256)
def _converter(type: Any) -> Callable[[Any], Any] | None:
    """Return a converter whose results share no containers with the input.

    Return None if `msgspec.convert` itself shares none for this type.
    """
    if type is Any:
        return freeze_json
    validate = getattr(type, "model_validate", None)
    if validate is not None:
        return lambda value: validate(copy_json(value))
    if _may_share_containers(type):
        return lambda value: msgspec.convert(
            copy_json(value), type, dec_hook=_validate_pydantic_model
        )
    return None


def _validate_pydantic_model(type: Any, value: Any) -> Any:
    """Convert a value to a nested pydantic model, for which msgspec calls this hook."""
    validate = getattr(type, "model_validate", None)
    if validate is None:
        raise TypeError(f"arguments cannot be read as {type!r}")
    try:
        return validate(value)
    except ValueError:
        raise ValueError(f"Expected `{type.__name__}`") from None


def _may_share_containers(type: Any) -> bool:
    """Return whether a converted value could share containers with its input.

    It could if the type contains Any, Raw or a custom type; for all other types msgspec builds
    new containers.
    """
    from msgspec import inspect  # noqa: PLC0415 - slow to load, and only used here

    seen: set[Any] = set()
    open_types: list[Any] = [inspect.type_info(type)]
    while open_types:
        info = open_types.pop()
        if isinstance(info, (inspect.AnyType, inspect.CustomType, inspect.RawType)):
            return True
        key = getattr(info, "cls", None) or id(info)
        if key in seen:
            continue
        seen.add(key)
        open_types += [field.type for field in getattr(info, "fields", ())]
        open_types += [*getattr(info, "item_types", ()), *getattr(info, "types", ())]
        parts = ("item_type", "key_type", "value_type")
        open_types += [getattr(info, part) for part in parts if hasattr(info, part)]
    return False


def _rule_from_msgspec(problem: ValidationProblem) -> str:
    """Return msgspec's message, or a general text if the message may quote the value."""
    if problem.code == "not_a_choice":
        return "not one of the allowed values"
    if problem.code in _UNSAFE_CODES:
        return "rejected by the expected type"
    return f"{problem.message} (a key)" if problem.is_key else problem.message


def parse_text_arguments(texts: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments that a user typed, such as `5`, `true`, `["a"]` or plain text.

    A text is parsed as JSON if the result matches the schema; otherwise it remains a string.
    """
    return {name: _parse_text_value(name, text, schema) for name, text in texts.items()}


def _parse_text_value(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    described = schema.get("properties", {}).get(name)
    if isinstance(described, Mapping) and described.get("type") == "string":
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return text if validate_value({name: value}, {**schema, "required": []}) else value
