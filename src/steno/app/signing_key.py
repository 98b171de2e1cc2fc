"""The key that signs the decisions of the user in every log.

It is readable by the user alone; where it cannot be kept, a key lasts as long as the process, and
where others could read it, a new one is made: decisions that another key has signed are asked about
again.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, final

from steno.app.folders import config_folder
from steno.store.atomic_files import make_folder, open_draft

KEY_FILE_NAME: Final = "seal.key"
_KEY_BYTES: Final = 32
_FORBIDDEN_MODE_BITS: Final = 0o077


@final
class KeyFileSigner:
    """Signs texts for the user of this process (`steno.agent.permissions.grants.SignText`)."""

    def __init__(self, file: Path | None = None) -> None:
        """Take optionally another file than the user's; it is read when it is needed."""
        self._file = _default_key_file() if file is None else file
        self._secret: bytes | None = None

    def __call__(self, text: str) -> str:
        """Return the signature of a text."""
        if self._secret is None:
            self._secret = _load_secret(self._file)
        return hmac.new(self._secret, text.encode(), sha256).hexdigest()


def _default_key_file() -> Path | None:
    folder = config_folder(os.environ)
    return None if folder is None else folder / KEY_FILE_NAME


def _load_secret(file: Path | None) -> bytes:
    if file is not None:
        with suppress(OSError):
            return _read_secret(file) or _create_secret(file)
    return secrets.token_bytes(_KEY_BYTES)


def _read_secret(file: Path) -> bytes | None:
    """Return the secret; None if there is none, or it is invalid. Raises OSError."""
    try:
        with file.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.geteuid():
                raise PermissionError(f"{file}: belongs to somebody else")
            is_exposed = not stat.S_ISREG(status.st_mode) or bool(
                status.st_mode & _FORBIDDEN_MODE_BITS
            )
            secret = stream.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    return secret if len(secret) == _KEY_BYTES and not is_exposed else None


def _create_secret(file: Path) -> bytes:
    """Store a new secret. If two processes do so at once, the last one wins."""
    make_folder(file.parent)
    with open_draft(file.parent) as draft:
        draft.stream.write(secrets.token_bytes(_KEY_BYTES))
        draft.sync()
        draft.publish(file)
    secret = _read_secret(file)
    return secrets.token_bytes(_KEY_BYTES) if secret is None else secret
