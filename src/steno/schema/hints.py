"""Annotations, resolved: strings evaluated, type variables of generic classes filled in.

The rules are those of `typing.get_type_hints`; what it cannot resolve becomes an error
that says which parameter or field it was.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from steno.errors import InvalidTool

# What evaluating somebody's annotation raises when a name in it is unknown or misused.
UNRESOLVED = (NameError, AttributeError, SyntaxError, TypeError)


def function_hints(function: Any, names: Container[str], *, at: str) -> dict[str, Any]:
    """Return the types of the parameters asked for; `at` goes before a name in an error.

    All others are left alone: nobody needs them, and they may well not be resolvable.
    Raises InvalidTool for an annotation that cannot be resolved.
    """
    module, own = getattr(function, "__globals__", {}), _type_parameters(function)
    hints: dict[str, Any] = {}
    for name, annotation in _written(function).items():
        if name in names:
            holder = SimpleNamespace(__annotations__={name: annotation})
            try:
                hints |= get_type_hints(holder, module, own, include_extras=True)
            except UNRESOLVED as exc:
                raise unresolved(at + name, getattr(exc, "name", None)) from exc
    return hints


def class_hints(cls: type, arguments: tuple[Any, ...], at: str) -> dict[str, Any]:
    """Return the type of every annotated field of a class, its generic parameters filled in.

    Raises InvalidTool for an annotation that cannot be resolved.
    """
    try:
        hints = get_type_hints(cls, include_extras=True)
    except UNRESOLVED:
        # A class made inside a function is not found in its module, not even by itself.
        own = {cls.__name__: cls, **_type_parameters(cls)}
        try:
            hints = get_type_hints(cls, None, {**vars(cls), **own}, include_extras=True)
        except UNRESOLVED as exc:
            raise unresolved_field(cls, exc, at) from exc
    if not hasattr(cls, "__orig_bases__") and not arguments:
        return hints
    bindings = _bindings(cls, arguments)
    return {name: substitute(hint, _binding(bindings, name)) for name, hint in hints.items()}


def unresolved(at: str, name: str | None) -> InvalidTool:
    """Return the error for an annotation with a name that is not known where it stands."""
    which = f"the name {name!r} in its annotation" if name else "its annotation"
    return InvalidTool(
        f"{at}: {which} cannot be resolved; define or import it at module level"
        " (not under TYPE_CHECKING, not inside a function)"
    )


def unresolved_field(cls: type, exc: BaseException, at: str) -> InvalidTool:
    """Return the error for a class of which one annotation could not be resolved."""
    name = getattr(exc, "name", None)
    for base in cls.__mro__:
        for field, annotation in _written(base).items():
            if name and name in str(annotation):
                return unresolved(f"{at}.{field}", name)
    return unresolved(at, name)


def substitute(hint: Any, binding: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced."""
    if isinstance(hint, TypeVar):
        return binding.get(hint, hint)
    if isinstance(hint, type) or not (parameters := getattr(hint, "__parameters__", ())):
        return hint
    return hint[tuple(binding.get(parameter, parameter) for parameter in parameters)]


def _written(owner: Any) -> Mapping[str, Any]:
    """Return the annotations of a function or of this one class, as they were written."""
    if sys.version_info >= (3, 14):  # pragma: no cover - reading evaluates them there (PEP 649)
        import annotationlib  # noqa: PLC0415 - there is none before 3.14

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    return getattr(owner, "__annotations__", {})


def _type_parameters(owner: Any) -> dict[str, Any]:
    # PEP 695: the T of `def f[T](…)` and `class C[T]` is in no namespace.
    return {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}


def _bindings(cls: type, arguments: tuple[Any, ...]) -> dict[type, dict[Any, Any]]:
    """Return, for every class of the MRO that is generic, what its type variables stand for."""
    bound: dict[type, dict[Any, Any]] = {}

    def bind(generic: type, given: tuple[Any, ...]) -> None:
        scope = dict(zip(getattr(generic, "__parameters__", ()), given, strict=False))
        bound[generic] = scope
        for base in vars(generic).get("__orig_bases__", generic.__bases__):
            origin = get_origin(base) or base
            if isinstance(origin, type) and origin not in (Generic, Protocol, object):
                bind(origin, tuple(substitute(a, scope) for a in get_args(base)))

    bind(cls, arguments)
    return bound


def _binding(bindings: dict[type, dict[Any, Any]], field: str) -> dict[Any, Any]:
    return next(scope for cls, scope in bindings.items() if field in _written(cls))
