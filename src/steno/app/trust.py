"""The project configuration that the user trusts, by digests of its content.

A project's settings file and its MCP servers can run programs and send keys to other hosts, and
everyone who can write to the project can change them. So trust is never in a folder: it is in the
bytes of the settings file, and in the specification of each server, as the user reviewed them. Any
change ends it. The digests are in the user's folder, never in a project.

A server is trusted as it is written in its file, and as it is after variables are expanded in
`command`, `args`, `url` and `cwd`. The values of variables in `env` and `headers` may change,
because tokens do; the server and its file have no influence on them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from msgspec.structs import replace

from steno.app.user_file import UserFile, quote_toml
from steno.errors import InvalidDocument, InvalidValue
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.values import is_utf8_text

TRUST_FILE_NAME: Final = "trust.toml"
TRUST_COMMAND: Final = "steno trust"
"""The command that shows the configuration of a project and asks whether to trust it."""
NOT_TRUSTED: Final = "not trusted"
"""The `problem` of a server of the project that the user has not trusted."""
TRUST_CHANGED: Final = "changed since you trusted it"
"""The `problem` of a server of the project that has changed since the user trusted it."""
_FILE_HEADING: Final = """\
# The project configuration that you trust, by SHA-256 digests of its content.
# `steno trust` lists and changes it. You can delete projects here, but comments are not kept.
"""
_REPAIR_ADVICE: Final = "fix or delete the file; until then no project is trusted"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class TrustState(Enum):
    """Whether the user trusts a part of the configuration of a project."""

    UNKNOWN = auto()
    """The user has never trusted this part."""
    CHANGED = auto()
    """The user has trusted another content."""
    TRUSTED = auto()


class ProjectTrust(NamedTuple):
    """The configuration of one project that the user trusts, or that a review found."""

    settings: str | None = None
    """The digest of the settings file; None if it did not exist or was not trusted."""
    servers: Mapping[str, str] = {}
    """The digests of MCP servers, by name."""


class TrustChecker(NamedTuple):
    """Compares the configuration of a project with what the user trusts."""

    known: ProjectTrust | None = None
    """The configuration that the user trusts; None if the user never trusted the project."""
    is_review: bool = False
    """Whether everything counts as trusted, because it is only shown to the user."""

    def settings_state(self, digest: str | None) -> TrustState:
        """Return the state of a settings file; None is the digest of a missing file."""
        if self.is_review:
            return TrustState.TRUSTED
        if self.known is None:
            return TrustState.UNKNOWN
        is_same = digest in (None, self.known.settings)
        return TrustState.TRUSTED if is_same else TrustState.CHANGED

    def server_state(self, name: str, digest: str) -> TrustState:
        """Return the state of a server."""
        if self.is_review:
            return TrustState.TRUSTED
        known = None if self.known is None else self.known.servers.get(name)
        if known is None:
            return TrustState.UNKNOWN
        return TrustState.TRUSTED if known == digest else TrustState.CHANGED

    def apply(
        self, expanded: McpServerSpec, unexpanded: McpServerSpec, digest: str
    ) -> McpServerSpec:
        """Return a server of the project as it may be used.

        An untrusted server has a `problem`, and no variables are expanded in it, because an
        untrusted project must not read the environment.
        """
        state = self.server_state(expanded.name, digest)
        if state is TrustState.TRUSTED:
            return expanded
        problem = TRUST_CHANGED if state is TrustState.CHANGED else NOT_TRUSTED
        return replace(unexpanded, problem=problem, is_trusted=False, notice="")


def trust_advice(state: TrustState) -> str:
    """Return the advice on how to trust a part of a project that is not trusted."""
    if state is TrustState.CHANGED:
        return f"it changed since you trusted it; review it with `{TRUST_COMMAND}`"
    return f"to review and trust this project, run `{TRUST_COMMAND}`"


# -- digests ----------------------------------------------------------------------------------


def settings_digest(data: bytes) -> str:
    """Return the digest of the content of a settings file."""
    return sha256(data).hexdigest()


def server_digest(spec: McpServerSpec, row: object) -> str:
    """Return the digest of a server: its row in the file, and its members after expansion."""
    cwd = None if spec.cwd is None else str(spec.cwd)
    expanded = [spec.command, list(spec.args), spec.url, cwd]
    # ASCII JSON can express lone surrogates, which the environment may contain.
    text = json.dumps([spec.name, row, expanded], sort_keys=True, default=repr)
    return sha256(text.encode()).hexdigest()


# -- the trust file ---------------------------------------------------------------------------


@final
class TrustFile:
    """The file with the digests of all projects that the user trusts."""

    def __init__(self, file: Path) -> None:
        """Take the path of the file, which need not exist."""
        self._user_file = UserFile(file)
        self.path: Final = self._user_file.path

    def read(self) -> dict[str, ProjectTrust]:
        """Return the trusted configuration of all projects, by folder.

        Raises InvalidDocument if the file is invalid, and Unavailable if it cannot be read or
        another user can write to it.
        """
        data = self._user_file.read()
        return {} if data is None else _parse_trust(data, str(self.path))

    def trust(self, project: Path, found: ProjectTrust) -> None:
        """Trust the configuration of a project that a review found; it replaces any other.

        Raises InvalidValue if the path of the project cannot be stored, and the errors of `read`.
        """
        if not is_utf8_text(str(project)):
            raise InvalidValue(
                "the path of the project is not UTF-8, so it cannot be trusted; rename the folder",
                code="path_not_utf8",
                place="trust",
            )
        with self._user_file.locked_for_writing():
            projects = self.read()
            self._write({**projects, str(project): found})

    def revoke(self, project: str) -> bool:
        """Trust no configuration of a project; return whether any was trusted."""
        with self._user_file.locked_for_writing():
            projects = self.read()
            if project not in projects:
                return False
            del projects[project]
            self._write(projects)
            return True

    def _write(self, projects: Mapping[str, ProjectTrust]) -> None:
        self._user_file.write(_format_trust(projects))


def _format_trust(projects: Mapping[str, ProjectTrust]) -> str:
    parts = [_FILE_HEADING]
    for folder, trust in projects.items():
        table = f"projects.{quote_toml(folder)}"
        lines = [f"[{table}]"]
        lines += [] if trust.settings is None else [f"settings = {quote_toml(trust.settings)}"]
        if trust.servers:
            lines += ["", f"[{table}.servers]"]
            lines += [
                f"{quote_toml(name)} = {quote_toml(digest)}"
                for name, digest in sorted(trust.servers.items())
            ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _parse_trust(data: bytes, place: str) -> dict[str, ProjectTrust]:
    """Parse the content of a trust file. Raises InvalidDocument if any part of it is invalid."""
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as exc:  # also errors of TOML and of UTF-8
        is_utf8 = not isinstance(exc, UnicodeDecodeError)
        raise InvalidDocument(
            f"is not {'TOML' if is_utf8 else 'UTF-8'}; {_REPAIR_ADVICE}",
            code="file_not_toml" if is_utf8 else "not_utf8",
            place=place,
        ) from exc
    _check_fields(document, ("projects",), place)
    projects = _table(document.get("projects", {}), place)
    return {folder: _parse_project(table, place) for folder, table in projects.items()}


def _parse_project(value: object, place: str) -> ProjectTrust:
    table = _table(value, place)
    _check_fields(table, ("settings", "servers"), place)
    servers = _table(table.get("servers", {}), place)
    digests = [*servers.values(), *([table["settings"]] if "settings" in table else [])]
    for digest in digests:
        if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
            raise InvalidDocument(
                f"a digest must have 64 hexadecimal digits; {_REPAIR_ADVICE}",
                code="not_sha256",
                place=place,
            )
    return ProjectTrust(table.get("settings"), servers)


def _table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocument(f"must be a table; {_REPAIR_ADVICE}", code="not_a_table", place=place)
    return value


def _check_fields(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    if not table.keys() <= set(known):
        raise InvalidDocument(
            f"has an unknown field; known fields: {', '.join(known)}; {_REPAIR_ADVICE}",
            code="field_unknown",
            place=place,
        )
