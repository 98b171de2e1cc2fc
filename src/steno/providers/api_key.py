"""A key that nobody sees: it shows itself to the request that needs it, and to nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from steno.errors import InvalidValue

REDACTED: Final = "***"
_MIN_LENGTH: Final = 4
"""Fewer characters are no secret, and hiding them would only garble what is said."""


@final
class ApiKey:
    """The secret that a request is signed with; empty where none is needed."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        """Take the key. Raises InvalidValue for what no header can carry."""
        if not isinstance(text, str):
            raise InvalidValue(f"key: must be a string, not {type(text).__name__}")
        stripped = text.strip()
        if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
            raise InvalidValue("key: must be visible ASCII characters without blanks")
        self._text = stripped

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Key({REDACTED})" if self._text else "Key()"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")

    def reveal(self) -> str:
        """Return the key itself, for the header that carries it."""
        return self._text

    def redact(self, text: str) -> str:
        """Return `text` with the key replaced wherever it stands."""
        return text.replace(self._text, REDACTED) if len(self._text) >= _MIN_LENGTH else text

    def redact_error(self, error: BaseException) -> None:
        """Replace the key in everything that an error, and what led to it, would say."""
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            found = waiting.pop()
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            waiting += [found.__cause__, found.__context__]
            found.args = tuple([self._redact_value(part) for part in found.args])
            for name, value in vars(found).items():
                if isinstance(value, (str, list)):
                    setattr(found, name, self._redact_value(value))

    def _redact_value(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.redact(part)
        return [self._redact_value(each) for each in part] if type(part) is list else part


def find_key(variables: Iterable[str], environ: Mapping[str, str]) -> ApiKey:
    """Return the key in the first of the variables that holds one, else an empty one."""
    return ApiKey(next((environ[name] for name in variables if environ.get(name, "").strip()), ""))
