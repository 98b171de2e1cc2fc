"""Functions as JSON Schema: the signature gives the properties, the docstring the words."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from steno.errors import InvalidTool
from steno.schema.build import Builder
from steno.schema.docstrings import read_docstring
from steno.schema.hints import function_hints
from steno.schema.records import Field, json_default

if TYPE_CHECKING:
    from inspect import Parameter

_TYPED_BY_DEFAULT = frozenset({bool, int, float, str, list, dict, tuple, set})


class FunctionSchema(Struct, frozen=True):
    """What a function says about itself."""

    name: str
    description: str
    """Its docstring up to the sections; empty if it has none."""
    parameters: dict[str, Any]
    """A JSON Schema of type object, one property for each parameter."""


def schema_of_function(function: Any) -> FunctionSchema:
    """Return name, description and parameters of anything callable by name.

    Parameters that a `functools.partial` has bound are not shown: they are the author's.
    Raises InvalidTool if the parameters cannot be given by name, or for a type that JSON
    cannot carry.
    """
    target, given, named = _unbind(function)
    name = getattr(target, "__name__", type(target).__name__)
    if isinstance(target, type) or not callable(target):
        raise InvalidTool(f"{name}: is not a function; use from_type for a class")
    if name == "<lambda>":
        raise InvalidTool("a lambda has no name to call it by; use def")
    doc = read_docstring(_docstring(target))
    builder = Builder()
    parameters = builder.build_object(
        _fields(target, _parameters(target, given, named, name), name),
        entries=doc.entries,
        description="",
        at=f"{name}: parameter ",
    )
    return FunctionSchema(name, doc.text, builder.finish(parameters))


def _unbind(function: Any) -> tuple[Any, tuple[Any, ...], set[str]]:
    """Return the callable inside all partials, and what they bound by position and by name."""
    given: tuple[Any, ...] = ()
    named: set[str] = set()
    while isinstance(function, partial):
        given = (*function.args, *given)
        named |= function.keywords.keys()
        function = cast("Any", function.func)
    return function, given, named


def _docstring(target: Any) -> str | None:
    written: str | None = target.__doc__
    if not hasattr(target, "__name__"):  # an object with a __call__
        written = type(target).__call__.__doc__ or written
    return written


def _parameters(
    target: Any, given: tuple[Any, ...], named: set[str], name: str
) -> dict[str, Parameter]:
    """Return the parameters that are left to give, all of them by name."""
    # Imported here: inspect takes longer to load than all of this package.
    from inspect import signature  # noqa: PLC0415

    try:
        # A partial made anew: one that `update_wrapper` gave a name shows nothing as bound.
        found = signature(partial(target, *given) if given else target).parameters
    except (TypeError, ValueError) as exc:
        raise InvalidTool(f"{name}: has no signature that could be read") from exc
    parameters = {key: value for key, value in found.items() if key not in named}
    for i, parameter in enumerate(parameters.values()):
        _check_kind(parameter, name, is_first=i == 0)
    return parameters


def _check_kind(parameter: Parameter, name: str, *, is_first: bool) -> None:
    """Raise InvalidTool for a parameter that a model could not give by name."""
    at = f"{name}: parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InvalidTool(f"{at}: * and ** take anything; name every parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidTool(f"{at}: is positional-only, but arguments come by name; remove the /")
    if is_first and parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
        raise InvalidTool(f"{at}: the method is not bound; take it from an instance")


def _fields(target: Any, parameters: dict[str, Parameter], name: str) -> Iterator[Field]:
    from inspect import Parameter, unwrap  # noqa: PLC0415 - as above

    found = unwrap(target)
    if not isinstance(found, FunctionType | MethodType):
        found = unwrap(type(found).__call__)
    function = getattr(found, "__func__", found)
    hints = function_hints(function, parameters, at=f"{name}: parameter ")
    for parameter in parameters.values():
        hint, default = hints.get(parameter.name, parameter.annotation), parameter.default
        if hint is Parameter.empty:
            hint = _type_of_default(default)
        if default is Parameter.empty:
            yield Field(parameter.name, hint)
        else:
            yield Field(parameter.name, hint, False, json_default(default))


def _type_of_default(default: object) -> Any:
    is_telling = type(default) in _TYPED_BY_DEFAULT or isinstance(default, Enum)
    return type(default) if is_telling else Any
