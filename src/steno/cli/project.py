"""How files of a project and of the user are read.

What lies in a project came with it, from whoever wrote it: a file there counts only if it is a
plain one that really is in the project, and no larger than anybody would write by hand.
"""

from __future__ import annotations

import os
from pathlib import Path

from steno.errors import InvalidValue, ToolFailed, Unavailable
from steno.tools.workspace import Workspace


def read_plain_file(path: Path, *, inside: Path | None, most_bytes: int) -> bytes | None:
    """Return the beginning of a file, up to one byte more than wanted; None if there is none.

    Links are followed, but not out of `inside`, a folder above the file; where that is None, they
    may lead anywhere. Raises InvalidValue for what is not a plain file or cannot be read.
    """
    if not os.path.lexists(path):
        return None
    try:
        if inside is None:
            path = path.resolve(strict=True)
        with Workspace([inside or path.parent]).open_file(str(path)) as file:
            return file.read(most_bytes + 1)
    except (ToolFailed, Unavailable) as exc:
        raise InvalidValue(str(exc)) from exc
    except (OSError, RuntimeError) as exc:  # RuntimeError: links that lead to each other
        raise InvalidValue(f"{path}: cannot be read: {exc}") from exc
