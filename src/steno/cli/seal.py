"""The user's own seal, by which decisions of this user are known in any record.

Its secret lies in the user's folder of settings, for nobody else to read. Where it cannot be kept
there is one for this process, and where it was open to others there is a new one: what was sealed
by another is asked about again. This file knows nothing of what is sealed.
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

from steno.cli.folders import config_folder
from steno.store.jsonl.files import drafted, make_folder

FILE_NAME: Final = "seal.key"
_BYTES: Final = 32
_OPEN_TO_OTHERS: Final = 0o077


@final
class OwnSeal:
    """Seals texts for the user of this process (`steno.agent.permission.Seal`)."""

    def __init__(self, file: Path | None = None) -> None:
        """Take another file than the user's own if wanted; it is looked at when it is needed."""
        self._file = _default_file() if file is None else file
        self._secret: bytes | None = None

    def __call__(self, text: str) -> str:
        """Return the seal of a text."""
        if self._secret is None:
            self._secret = _secret(self._file)
        return hmac.new(self._secret, text.encode(), sha256).hexdigest()


def _default_file() -> Path | None:
    folder = config_folder(os.environ)
    return None if folder is None else folder / FILE_NAME


def _secret(file: Path | None) -> bytes:
    if file is not None:
        with suppress(OSError):
            return _read(file) or _make(file)
    return secrets.token_bytes(_BYTES)


def _read(file: Path) -> bytes | None:
    """Return the secret; None if there is none, or ours is no good. Raises OSError."""
    try:
        with file.open("rb") as stream:
            found = os.fstat(stream.fileno())
            if found.st_uid != os.geteuid():
                raise PermissionError(f"{file}: belongs to somebody else")
            is_open = not stat.S_ISREG(found.st_mode) or bool(found.st_mode & _OPEN_TO_OTHERS)
            secret = stream.read(_BYTES + 1)
    except FileNotFoundError:
        return None
    return secret if len(secret) == _BYTES and not is_open else None


def _make(file: Path) -> bytes:
    """Keep a new secret. If two processes do so at once, that of the last one stays."""
    make_folder(file.parent)
    with drafted(file.parent) as draft:
        draft.stream.write(secrets.token_bytes(_BYTES))
        draft.sync()
        draft.publish(file)
    secret = _read(file)
    return secrets.token_bytes(_BYTES) if secret is None else secret
