"""What a GGUF file says about the model in it, read from its first bytes.

Only the table of facts at the beginning is looked at, never the weights, and nothing is loaded.
The file may come from anywhere: every length in it is held against the size of the file.
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, final

from steno.errors import InvalidValue

_MAGIC: Final = b"GGUF"
_STRING: Final = 8
_ARRAY: Final = 9
_NUMBERS: Final = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""How `struct` calls the types of numbers, by the number of each type."""
_LONGEST_TEXT: Final = 1024 * 1024
"""Templates have some thousand characters; what is longer is passed over."""


class ModelFile(NamedTuple):
    """What is known of a model before it is loaded."""

    name: str
    context_tokens: int | None
    """How much it was trained to read at once."""
    calls_tools: bool
    """Whether its template has words for tools; a model without them never sees one."""


def read_model_file(path: Path) -> ModelFile:
    """Read the facts. Raises InvalidValue if it is no GGUF file, OSError if it cannot be read."""
    status = path.stat()
    return _read_once(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)  # a vocabulary takes a while to pass over, and models are looked up twice
def _read_once(path: Path, changed_at: int, size: int) -> ModelFile:
    with path.open("rb") as file:
        facts = _Facts(file, os.fstat(file.fileno()).st_size).read()
    length = facts.get(f"{facts.get('general.architecture')}.context_length")
    name = facts.get("general.name")
    return ModelFile(
        name if isinstance(name, str) and name else path.stem,
        length if isinstance(length, int) and length > 0 else None,
        "tools" in str(facts.get("tokenizer.chat_template", "")),
    )


@final
class _Facts:
    """Reads the table: names, each with a value of some type."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def read(self) -> dict[str, Any]:
        if self._file.read(4) != _MAGIC:
            raise InvalidValue("model file: is no GGUF file; llama.cpp reads no others")
        version, _, count = self._unpack("IQQ")
        if version not in (2, 3):
            raise InvalidValue(f"model file: GGUF of version 2 or 3, not {version}")
        facts: dict[str, Any] = {}
        for _ in range(self._check_count(count)):
            name = self._text()
            (kind,) = self._unpack("I")
            facts[name or ""] = self._value(kind)
        return facts

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._skip_array()
        return self._unpack(_code(kind))[0]

    def _skip_array(self) -> None:
        """Vocabularies are arrays of a hundred thousand texts; nothing here needs any."""
        kind, count = self._unpack("IQ")
        if kind == _STRING:
            for _ in range(self._check_count(count)):
                self._skip(self._unpack("Q")[0])
        else:
            self._skip(count * struct.calcsize(_code(kind)))

    def _text(self) -> str | None:
        (length,) = self._unpack("Q")
        if length > _LONGEST_TEXT:
            self._skip(length)
            return None
        return self._take(length).decode(errors="replace")

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        layout = f"<{codes}"
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise _cut_short()
        return data

    def _skip(self, length: int) -> None:
        self._file.seek(self._check_count(length), os.SEEK_CUR)

    def _check_count(self, count: int) -> int:
        """Return a count of things that are a byte or more each, if the file can hold them."""
        if count > self._size:
            raise _cut_short()
        return count


def _code(kind: int) -> str:
    if kind not in _NUMBERS:
        raise InvalidValue("model file: a type of value that GGUF does not have; it is damaged")
    return _NUMBERS[kind]


def _cut_short() -> InvalidValue:
    return InvalidValue("model file: ends too early; it is damaged or was not fully downloaded")
