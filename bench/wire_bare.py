"""Variants of steno's structs that skip unknown members, and that the collector does not track.

With these structs a decoder drops everything that it does not use. The difference in cost is the
price of keeping unknown members.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Container, Generator
from contextlib import contextmanager
from functools import reduce
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from steno.wire import load_wire

Made = dict[type, Any]
_REFUSED = {"TextMessage": ("tool_calls",), "ContentMessage": ("tool_calls",)}
"""Members that a struct of steno rejects because it is for text only."""


def bare(hint: Any, made: Made, *, without: Container[str] = ()) -> Any:
    """Return a type like `hint` whose structs skip unknown members and are not tracked.

    Members of the outermost struct can be omitted; they are then unknown, and None.
    """
    if isinstance(hint, type) and issubclass(hint, Struct):
        if hint not in made:
            made[hint] = _strip(hint, made, without)
        return made[hint]
    parts = [bare(part, made) for part in get_args(hint)]
    if get_origin(hint) in (Union, types.UnionType):
        return reduce(operator.or_, parts)
    kind: Any = get_origin(hint)
    return kind[tuple(parts)] if kind in (list, tuple) else hint


def _strip(cls: type[Struct], made: Made, without: Container[str]) -> type:
    hints, config = get_type_hints(cls), cls.__struct_config__
    fields: list[Any] = [(name, None, None) for name in _REFUSED.get(cls.__name__, ())]
    field: Any = msgspec.field  # its type stubs do not allow both kinds of default
    for info in msgspec.structs.fields(cls):
        if info.name not in without:
            default = field(
                default=info.default, default_factory=info.default_factory, name=info.encode_name
            )
            fields.append((info.name, bare(hints[info.name], made), default))
    return msgspec.defstruct(
        cls.__name__,
        fields,
        namespace={name: None for name in cls.__struct_fields__ if name in without},
        tag_field=config.tag_field,
        tag=config.tag,
        kw_only=True,
        gc=False,
    )


# -- steno's decoder without unknown members -------------------------------------------------

_UNUSED = {
    "openai_chat": (
        *("id", "object", "created", "model"),
        *("system_fingerprint", "service_tier", "obfuscation"),
    ),
    "anthropic_messages": (),
    "ollama_chat": ("model", "created_at"),
}
"""Members of a chunk that are only stored."""


@contextmanager
def dropping_unknown(wire: str) -> Generator[None]:
    """Make the decoder of a wire skip unknown members inside the `with` block."""
    read: Any = load_wire(wire).StreamDecoder()._decode
    names: dict[str, Any] = read.__globals__
    ours = dict(names)
    names.update(_stand_ins(wire, names))
    try:
        yield
    finally:
        names.update(ours)


def _stand_ins(wire: str, names: dict[str, Any]) -> dict[str, Any]:
    """Return the replaced decoders and structs, by the names of the originals."""
    if wire not in _made:
        made: Made = {}
        decoders = {
            name: decode.__self__.type
            for name, decode in names.items()
            if isinstance(getattr(decode, "__self__", None), msgspec.json.Decoder)
        }
        assert decoders, "no decoder found to replace"
        shapes = {
            name: msgspec.json.Decoder(bare(shape, made, without=_UNUSED[wire])).decode
            for name, shape in decoders.items()
        }
        structs = {name: made[cls] for name, cls in names.items() if _is_key(cls, made)}
        _made[wire] = shapes | structs
    return _made[wire]


_made: dict[str, dict[str, Any]] = {}


def _is_key(value: object, made: Made) -> bool:
    return isinstance(value, type) and value in made
