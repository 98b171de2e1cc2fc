"""The retry policy, which decides whether and when a request is sent again."""

from __future__ import annotations

from typing import Final, final

from msgspec import Struct

from steno.errors import CutShort, InvalidValue, ProviderError


@final
class Retries(Struct, frozen=True):
    """The limits for repeating a request; it is repeated only before its first event."""

    max_retries: int = 2
    """The maximum number of repetitions."""
    first_wait_s: float = 0.5
    """The wait before the first repetition; it doubles with each further repetition."""
    max_wait_s: float = 8
    max_retry_after_s: float = 60
    """If a provider asks to wait longer, the request is not repeated; the error names the time."""

    def __post_init__(self) -> None:
        """Raise InvalidValue if a number is negative or has the wrong type."""
        max_retries: object = self.max_retries
        if not isinstance(max_retries, int) or max_retries < 0:
            raise InvalidValue(
                "must be a whole number, 0 or more",
                place="retries.max_retries",
                code="invalid_retries",
            )
        for name in ("first_wait_s", "max_wait_s", "max_retry_after_s"):
            wait_s: object = getattr(self, name)
            if not isinstance(wait_s, (int, float)) or not wait_s >= 0:
                raise InvalidValue(
                    "must be a number of seconds, 0 or more",
                    place=f"retries.{name}",
                    code="invalid_retries",
                )

    def wait_s(self, error: Exception, tried: int, jitter: float) -> float | None:
        """Return the time to wait after `tried` repetitions failed, or None to give up.

        If the provider asks for a time, that time is returned, or None if it is longer than
        `max_retry_after_s`. Other waits are shortened by up to a quarter, by a `jitter` from 0 to
        1, so that clients that failed together do not return together.
        """
        asked_s: float | None = None
        is_retryable = isinstance(error, CutShort)
        if isinstance(error, ProviderError):
            is_retryable, asked_s = error.retryable, error.retry_after_s
        if tried >= self.max_retries or not is_retryable:
            return None
        if asked_s is not None:
            return asked_s if asked_s <= self.max_retry_after_s else None
        # The exponent is limited, so that the float cannot overflow.
        wait_s: float = min(self.max_wait_s, self.first_wait_s * 2 ** min(tried, 64))
        return wait_s * (1 - jitter / 4)


DEFAULT_RETRIES: Final = Retries()
