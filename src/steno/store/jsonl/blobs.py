"""Blobs in a folder: each in a file that is named by the digest of its bytes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, final

from steno.errors import Damaged, Missing
from steno.store.atomic_files import (
    make_folder,
    open_draft,
    open_locked,
    sync_folder,
    translate_os_errors,
)
from steno.store.base import Blob, missing_blob

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@final
class BlobFolder:
    """The blobs in the folder of a store. The time of a file is when its blob was last stored."""

    def __init__(self, folder: Path, *, timeout_s: float) -> None:
        """Set the folder of the store; the folder of the blobs is created with the first one."""
        self._drafts = folder
        self._timeout_s = timeout_s
        self._folder = folder / "blobs"

    def put(self, data: bytes) -> str:
        """Store bytes; a damaged file of the same digest is replaced."""
        digest = sha256(data).hexdigest()
        path = self._path(digest)
        with translate_os_errors(f"blob {digest}"):
            if self._touch(path, data):
                return digest
            make_folder(path.parent)
            with open_draft(self._drafts) as draft:
                draft.stream.write(data)
                draft.sync()
                draft.publish(path)
        return digest

    def _touch(self, path: Path, data: bytes) -> bool:
        """Update the time of a blob; False if it is missing or damaged."""
        try:
            # Locked, so that no other process removes it now.
            with open_locked(path, to_write=False, deadline=self._deadline()) as file:
                if path.read_bytes() != data:
                    return False
                os.utime(file)
                sync_folder(path.parent)
                return True
        except Missing:
            return False

    def read(self, digest: str) -> bytes:
        """Return the bytes of a digest. Raises Missing, Damaged."""
        with translate_os_errors(f"blob {digest}"):
            try:
                data = self._path(digest).read_bytes()
            except FileNotFoundError as exc:
                raise missing_blob() from exc
        if sha256(data).hexdigest() != digest:
            raise Damaged(
                "its bytes are not those of its name; put them again",
                code="blob_damaged",
                place=f"blob {digest}",
            )
        return data

    def list(self) -> Iterator[Blob]:
        """Return digest, size and time of every blob."""
        with translate_os_errors("blobs"):
            for path in self._files():
                with suppress(FileNotFoundError):  # it was removed meanwhile
                    status = path.stat()
                    stored_at = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield Blob(path.name, status.st_size, stored_at)

    def _files(self) -> Iterator[Path]:
        """Return the files whose path is that of a blob."""
        # Not `glob`, which takes a folder that cannot be read for an empty one.
        for folder in self._folder.iterdir() if self._folder.exists() else ():
            for path in folder.iterdir() if folder.is_dir() else ():
                if _DIGEST.fullmatch(path.name) and path == self._path(path.name):
                    yield path

    def remove(self, digest: str, *, put_before: datetime | None = None) -> None:
        """Remove a blob, if there is one and it was not stored again after `put_before`."""
        with translate_os_errors(f"blob {digest}"), suppress(Missing):
            path = self._path(digest)
            with open_locked(path, to_write=True, deadline=self._deadline()) as file:
                put_at = datetime.fromtimestamp(os.fstat(file).st_mtime, UTC)
                if put_before is None or put_at <= put_before:
                    path.unlink()
                    sync_folder(path.parent)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _path(self, digest: str) -> Path:
        """Return the path of a blob. Raises Missing for text that is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise missing_blob()
        return self._folder / digest[:2] / digest
