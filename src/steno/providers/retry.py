"""When to repeat a request, and how long to wait before."""

from __future__ import annotations

from typing import Final, final

from msgspec import Struct

from steno.errors import CutShort, InvalidValue, ProviderError


@final
class Retries(Struct, frozen=True):
    """How often a request is repeated and how long to wait, as long as no event was returned."""

    max_retries: int = 2
    """How often a request is repeated at most."""
    first_wait_s: float = 0.5
    """The wait before the first repetition; it doubles with each one."""
    max_wait_s: float = 8
    max_retry_after_s: float = 60
    """If a provider asks to wait longer, the request is not repeated; the error names the time."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense. Raises InvalidValue."""
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
                    "must be 0 or more, in seconds", place=f"retries.{name}", code="invalid_retries"
                )

    def wait_s(self, error: Exception, tried: int, jitter: float) -> float | None:
        """Return how long to wait after the attempt with this number, or None to give up.

        A time that the provider asks for is waited in full. Our own waits are shortened by up to a
        quarter, by a `jitter` from 0 to 1, so that clients that failed together come back apart.
        """
        asked_s: float | None = None
        is_retryable = isinstance(error, CutShort)  # a stream that broke off
        if isinstance(error, ProviderError):
            is_retryable, asked_s = error.retryable, error.retry_after_s
        if tried >= self.max_retries or not is_retryable:
            return None
        if asked_s is not None:
            return asked_s if asked_s <= self.max_retry_after_s else None
        # The exponent has a bound, so that the float cannot overflow.
        wait_s: float = min(self.max_wait_s, self.first_wait_s * 2 ** min(tried, 64))
        return wait_s * (1 - jitter / 4)


DEFAULT_RETRIES: Final = Retries()
