"""Read the configuration of a project for a review, and compare it with what the user trusts.

The digests of a review are those of the content that it shows, so what the user trusts is what the
user saw, even if a file changes in the meantime.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from steno.app.environment import user_environment
from steno.app.folders import config_folder
from steno.app.mcp import MCP_FILE_NAME, find_servers
from steno.app.settings import LoadedSettings, load_settings
from steno.app.trust import (
    NOT_TRUSTED,
    TRUST_CHANGED,
    TRUST_FILE_NAME,
    ProjectTrust,
    TrustChecker,
    TrustFile,
    TrustState,
)
from steno.app.user_file import unknown_home
from steno.ports import SetupNotice
from steno.render.terminal_text import terminal_line

_STATE_NAMES: Final = {
    TrustState.UNKNOWN: NOT_TRUSTED,
    TrustState.CHANGED: TRUST_CHANGED,
    TrustState.TRUSTED: "trusted",
}


class ReviewedPart(NamedTuple):
    """A settings file, or a server, as a user reviews it."""

    name: str
    """The path of the settings file, or the name of the server."""
    origin: str
    """The file that contains the part."""
    state: TrustState
    members: Mapping[str, Any]
    """The settings that need trust, or the members of the server, as in the file."""

    def lines(self) -> Iterator[str]:
        """Yield the lines that show the part to the user, in full."""
        heading = self.name if self.name == self.origin else f"server {self.name} in {self.origin}"
        yield f"{terminal_line(heading)}: {_STATE_NAMES[self.state]}"
        for name, value in self.members.items():
            text = json.dumps(value, ensure_ascii=False, default=str)
            yield f"  {terminal_line(name)} = {terminal_line(text)}"
        if not self.members:
            yield "  nothing that needs trust"


class TrustReview(NamedTuple):
    """The configuration of a project, and whether the user trusts it."""

    project: Path
    found: ProjectTrust
    known: ProjectTrust | None
    """The configuration that the user trusts; None if the user never trusted the project."""
    parts: tuple[ReviewedPart, ...]
    notices: tuple[SetupNotice, ...]
    """Notices about parts that are invalid, and therefore ignored."""

    @property
    def is_trusted(self) -> bool:
        """Whether the user trusts exactly this configuration."""
        return self.known == self.found

    @property
    def untrusted(self) -> tuple[ReviewedPart, ...]:
        """The parts that have no effect until the user trusts them."""
        return tuple(
            [part for part in self.parts if part.members and part.state is not TrustState.TRUSTED]
        )


def open_trust_file(environ: Mapping[str, str] | None = None) -> TrustFile:
    """Return the trust file of the user. Raises InvalidValue if the home folder is unknown."""
    folder = config_folder(os.environ if environ is None else environ)
    if folder is None:
        raise unknown_home("trust")
    return TrustFile(folder / TRUST_FILE_NAME)


def review_project(
    folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> TrustReview:
    """Read the configuration of the project of a folder, by default the working directory.

    Nothing of it is used. Raises InvalidValue if the user's own settings are invalid.
    """
    environ = user_environment() if environ is None else environ
    loaded = load_settings(folder, environ=environ, is_review=True)
    servers = find_servers(loaded, environ)
    found = ProjectTrust(loaded.project_settings.digest, servers.project_digests)
    known = TrustChecker(loaded.trust.known)
    in_settings = _as_table(loaded.project_settings.sensitive.get("mcp_servers"))
    rows, mcp_file = {**servers.project_rows, **in_settings}, loaded.project / MCP_FILE_NAME
    parts = [*_review_settings(loaded, known)]
    parts += [
        ReviewedPart(
            name,
            str(loaded.project_file if name in in_settings else mcp_file),
            known.server_state(name, digest),
            _as_table(rows.get(name)),
        )
        for name, digest in found.servers.items()
    ]
    notices = (*loaded.problems, *servers.notices)
    return TrustReview(loaded.project, found, known.known, tuple(parts), notices)


def _review_settings(loaded: LoadedSettings, known: TrustChecker) -> Iterator[ReviewedPart]:
    """Yield the settings file, if it exists; its servers are reviewed as parts of their own."""
    digest = loaded.project_settings.digest
    if digest is None:
        return
    sensitive = loaded.project_settings.sensitive
    members = {name: sensitive[name] for name in sensitive if name != "mcp_servers"}
    file = str(loaded.project_file)
    yield ReviewedPart(file, file, known.settings_state(digest), members)


def _as_table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
