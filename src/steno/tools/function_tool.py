"""Turn functions into tools with a decorator.

The signature becomes the schema of the arguments, and the docstring becomes the description.
Arguments are converted to the types of the parameters, and the result is converted to text. This
module calls functions, but does not decide whether they may be called.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial, update_wrapper
from typing import (
    Any,
    Final,
    Generic,
    ParamSpec,
    TypeGuard,
    TypeVar,
    cast,
    final,
    get_args,
    overload,
)

import msgspec

from steno.errors import InvalidArguments, InvalidTool, InvalidValue, ToolFailed
from steno.json_object import JsonObject, encode_json
from steno.messages.call import ToolCall, original_tool_name
from steno.messages.content import Text
from steno.messages.message import ResultBlock
from steno.messages.tool import ToolDefinition
from steno.ports import (
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
    Subject,
    ToolContext,
    ToolOutput,
    default_headline,
)
from steno.schema.type_hints import function_hints
from steno.tools.truncate import is_short, truncate_output

P = ParamSpec("P")
R = TypeVar("R")

_NO_RESULT_TEXT: Final = "done"
_BLOCK_TYPES: Final[tuple[type, ...]] = get_args(ResultBlock)


@final
class FunctionTool(Generic[P, R]):
    """A tool that calls a function. The tool object can be called like the function itself.

    A plain function runs in a thread, with the context variables of the caller. A thread cannot be
    stopped from outside, so work that may take long should be an async function, which can be
    cancelled at every await.
    """

    __wrapped__: Callable[P, R]
    __name__: str
    headline = staticmethod(default_headline)

    def __init__(
        self,
        function: Callable[P, R],
        *,
        capability: Capability | str = Capability.EXECUTE,
        name: str | None = None,
        description: str | None = None,
        subjects: Callable[..., Iterable[str | Subject]] | None = None,
    ) -> None:
        update_wrapper(self, function)
        hints = _parameter_hints(function)
        self._context_parameters = [key for key, hint in hints.items() if hint is ToolContext]
        self._hints = {key: hint for key, hint in hints.items() if hint is not ToolContext}
        self._function = cast("Callable[..., Any]", function)
        self._subjects = subjects
        # Bound parameters are hidden from the model; the dispatcher passes the context.
        bound = partial(self._function, **dict.fromkeys(self._context_parameters))
        self.definition: Final = ToolDefinition.from_function(
            bound, name=name, description=description
        )
        if capability not in [*Capability]:
            rule = f"capability must be one of {', '.join(Capability)}"
            raise InvalidTool(rule, code="unknown_capability", place=self.definition.name)
        self.capability: Final = Capability(capability)
        self.rule_aliases: Final[tuple[str, ...]] = ()
        if subjects is not None:
            parameters = inspect.signature(function).parameters
            shown_parameters = [parameters[key] for key in self._hints]
            _check_subjects(subjects, shown_parameters, self.definition.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly."""
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.definition.name}, {self.capability})"

    def subjects(self, call: ToolCall) -> tuple[str | Subject, ...]:
        """Return the subjects of a call; empty if the tool was created without `subjects`."""
        if self._subjects is None:
            return ()
        found = self._subjects(**self._arguments(call))
        subjects = (found,) if isinstance(found, str) else tuple(found)
        for subject in subjects:
            if not isinstance(subject, str | Subject):
                message = f"subjects must be strings, not {type(subject).__name__}; use str()"
                raise InvalidTool(message, code="subjects_not_strings", place=call.name)
        return subjects

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the name of the tool and the arguments as indented JSON."""
        arguments = msgspec.json.format(call.arguments, indent=2)
        text = f"{original_tool_name(call)} {arguments}"
        return CallPreview((PreviewPart(PreviewKind.ARGUMENTS, text),))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Call the function. Its exceptions propagate; the text of ToolFailed is for the model."""
        arguments = self._arguments(call) | dict.fromkeys(self._context_parameters, context)
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**arguments)
        else:
            result = await asyncio.to_thread(self._function, **arguments)
            if inspect.isawaitable(result):  # an async function in a plain wrapper
                result = await result
        if isinstance(result, ToolOutput) or (isinstance(result, str) and is_short(result)):
            return _build_output(result, context, call.name)
        # Encoding or storing a long result may take a while.
        return await asyncio.to_thread(_build_output, result, context, call.name)

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments of the call, converted to the types of the parameters."""
        try:
            return {key: call.get(key, self._hints[key]) for key in call.parsed}
        except InvalidArguments as exc:
            raise ToolFailed(str(exc), code="invalid_arguments") from exc
        except KeyError:
            message = "the call has an unknown argument"
            raise ToolFailed(message, code="unknown_argument", place=call.name) from None


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    capability: Capability | str = ...,
    name: str | None = ...,
    description: str | None = ...,
    subjects: Callable[..., Iterable[str | Subject]] | None = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    capability: Capability | str = Capability.EXECUTE,
    name: str | None = None,
    description: str | None = None,
    subjects: Callable[..., Iterable[str | Subject]] | None = None,
) -> Any:
    """Turn a function into a tool, with `@tool` or `@tool(capability=Capability.READ)`.

    The function may be plain or async. Calls with the default capability, EXECUTE, need approval.
    `subjects` receives the arguments that the model passed, by name, and returns what permission
    rules match, such as paths or addresses, as strings or as `Subject` values. A parameter of type `ToolContext` is filled
    in by steno and hidden from the model. The function may return text, blocks or a `ToolOutput`;
    any other result is sent to the model as JSON. Raises InvalidTool if a model cannot call the
    function, or if the options do not match the function.
    """
    decorate = partial(
        FunctionTool[..., Any],
        capability=capability,
        name=name,
        description=description,
        subjects=subjects,
    )
    return decorate if function is None else decorate(function)


def _check_subjects(
    subjects: Callable[..., object], parameters: Sequence[inspect.Parameter], name: str
) -> None:
    """Raise InvalidTool unless `subjects` accepts all arguments that the function accepts."""
    try:
        signature = inspect.signature(subjects)
    except TypeError as exc:
        rule = "subjects must be a function"
        raise InvalidTool(rule, code="subjects_not_callable", place=name) from exc
    except ValueError:  # a built-in without a readable signature
        return
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    unnamed = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty
    ]
    for required in (needed, parameters):
        try:
            if unnamed:  # Python 3.13.0 does not report it if there is a `**` parameter
                raise TypeError(f"missing a required argument: {unnamed[0]!r}")
            signature.bind(**{parameter.name: None for parameter in required})
        except TypeError as exc:
            raise InvalidTool(
                "subjects must accept the arguments of the function by name, with defaults for"
                f" optional arguments: {exc}",
                code="subjects_wrong_parameters",
                place=name,
            ) from exc


def _parameter_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of every unbound parameter; Any if the parameter has no type hint."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as exc:
        message = "the function has no readable signature"
        raise InvalidTool(message, code="no_signature", place=name) from exc
    target: Any = function
    while isinstance(target, partial):
        target = cast("Any", target.func)
    target = inspect.unwrap(target)
    if not inspect.isroutine(target):
        target = type(target).__call__
    hints = function_hints(
        getattr(target, "__func__", target), parameters, at=f"{name}: parameter "
    )
    return {key: hints.get(key, Any) for key in parameters}


def _build_output(result: object, context: ToolContext, name: str) -> ToolOutput:
    if isinstance(result, ToolOutput):
        return result
    if _is_block(result):
        return ToolOutput(content=(result,))
    if isinstance(result, Sequence) and result and all(map(_is_block, result)):
        return ToolOutput(content=tuple(cast("Sequence[ResultBlock]", result)))
    details: dict[str, Any] = {}
    if result is None:
        text = _NO_RESULT_TEXT
    elif isinstance(result, str):
        text = result
    else:
        try:
            value = msgspec.to_builtins(result, str_keys=True, enc_hook=_encode_unknown)
            text = encode_json(value).decode()
        except (InvalidValue, TypeError) as exc:
            message = f"the result cannot be encoded as JSON: {exc}"
            raise InvalidTool(message, code="result_not_json", place=name) from exc
        details = {"result": value}
    shown, blob_details = truncate_output(text, context)
    return ToolOutput(content=(Text(shown),), details=blob_details or details or None)


def _is_block(value: object) -> TypeGuard[ResultBlock]:
    return isinstance(value, _BLOCK_TYPES)


def _encode_unknown(value: Any) -> object:
    """Convert a value that msgspec does not support. Raises TypeError if that is not possible."""
    if isinstance(value, JsonObject):
        return value.to_dict()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"unsupported type {type(value).__name__}")
    return dump(mode="json")
