"""When to try again, and how long to wait before."""

from __future__ import annotations

from typing import Final, final

from msgspec import Struct

from steno.errors import CutShort, InvalidValue, ProviderError


@final
class Retries(Struct, frozen=True):
    """How often and how patiently a request is sent again, as long as nothing was told."""

    most: int = 2
    """How many times beyond the first."""
    first_wait_s: float = 0.5
    """The wait before the second try; it doubles with each one after it."""
    longest_wait_s: float = 8
    longest_retry_after_s: float = 60
    """A provider that asks for more than this gets no second try; its error says how much."""

    def __post_init__(self) -> None:
        """Refuse what nobody can do. Raises InvalidValue."""
        most: object = self.most
        if not isinstance(most, int) or most < 0:
            raise InvalidValue("retries.most: must be a whole number, 0 or more")
        for name in ("first_wait_s", "longest_wait_s", "longest_retry_after_s"):
            wait_s: object = getattr(self, name)
            if not isinstance(wait_s, (int, float)) or not wait_s >= 0:
                raise InvalidValue(f"retries.{name}: must be 0 or more, in seconds")

    def wait_s(self, error: Exception, tried: int, jitter: float) -> float | None:
        """Return how long to wait after the try with this number, or None to give up.

        What the provider asks for is waited in full. Our own waits are shortened by up to a
        quarter, by a `jitter` from 0 to 1, so that clients who failed together come back apart.
        """
        if tried >= self.most or not _is_retryable(error):
            return None
        asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
        if asked_s is not None:
            return asked_s if asked_s <= self.longest_retry_after_s else None
        # A float grows that far and no farther, and nobody waits for so long.
        wait_s: float = min(self.longest_wait_s, self.first_wait_s * 2 ** min(tried, 64))
        return wait_s * (1 - jitter / 4)


DEFAULT_RETRIES: Final = Retries()


def _is_retryable(error: Exception) -> bool:
    """Tell whether the same request may succeed; an answer that broke off before a word may."""
    return error.retryable if isinstance(error, ProviderError) else isinstance(error, CutShort)
