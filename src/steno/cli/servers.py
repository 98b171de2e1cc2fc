"""Which MCP servers there are: those of the settings, of `.mcp.json`, and of files somebody names.

Nothing is started here. What a project brings that nobody trusts is told of, and has a problem
that keeps it from ever being started. One's own servers are not started in its folder either: most
programs take settings, and some their own code, from where they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.cli.configuration import Loaded, how_to_trust
from steno.cli.folders import home_folder
from steno.cli.project import read_plain_file
from steno.errors import InvalidValue
from steno.inputs.mcp.specs import ServerSpec, read_specs
from steno.ports.carrier import without_secrets
from steno.printable import cut, on_one_line
from steno.value import replace_lone_surrogates

FILE_NAME: Final = ".mcp.json"
"""Where a project says which servers it wants; other programs read it, too."""
NOT_TRUSTED: Final = "not trusted"
CONFIGURED: Final = "configured"
"""Nothing speaks against it; whether it answers is known when it is asked."""
_TABLE: Final = "mcpServers"
_MOST_BYTES: Final = 262_144
_LONGEST: Final = 40
_LONGEST_LIST: Final = 400
_MOST_NOTES: Final = 20
"""About one file; it may be a stranger's, who would like to fill the screen."""


class FoundServers(NamedTuple):
    """All servers that anybody has named, and what a person should know of them."""

    specs: tuple[ServerSpec, ...]
    """By name, also those that cannot be used, which say why."""
    notes: tuple[str, ...]


def find_servers(
    loaded: Loaded, environ: Mapping[str, str], *, files: Sequence[str | Path] = ()
) -> FoundServers:
    """Return the servers for work in the project of these settings.

    `files` look like `.mcp.json`; a person named them, so they are trusted, and count most. Behind
    them come the settings, and last what lies in the project. Raises InvalidValue if one of the
    named files, or that of a trusted project, cannot be read.
    """
    elsewhere = None if loaded.trusts_project else home_folder(environ) or Path("/")
    gathered = _Gathered(environ)
    for file in reversed(files):  # the later one wins, as with all options
        is_inside = loaded.project in Path(os.path.realpath(file)).parents
        gathered.add_named_file(Path(file), elsewhere=None if is_inside else elsewhere)
    gathered.add(loaded.settings.mcp_servers, elsewhere=elsewhere)
    gathered.add_project_file(loaded)
    specs = tuple([gathered.specs[name] for name in sorted(gathered.specs)])
    told = [f"{spec.origin}: {spec.name}: {spec.note}" for spec in specs if spec.note]
    return FoundServers(specs, (*gathered.notes, *told))


@final
class _Gathered:
    """The servers so far: whoever names one first is the one who counts."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.specs: dict[str, ServerSpec] = {}
        self.notes: list[str] = []
        self._environ = environ

    def add(self, specs: Mapping[str, ServerSpec], *, elsewhere: Path | None = None) -> None:
        """Take servers; those that do not say where they work are started there, if given."""
        for name, read in specs.items():
            spec = read if read.cwd is not None else replace(read, cwd=elsewhere)
            first = self.specs.setdefault(name, spec)
            if first is not spec and not first.disabled:
                self.notes.append(
                    f"{spec.origin}: {name}: this server is not used; that of {first.origin} counts"
                )

    def add_named_file(self, file: Path, *, elsewhere: Path | None) -> None:
        table = _table(file, inside=None)
        if table is None:
            raise InvalidValue(f"{file}: there is no such file")
        folder = file.absolute().parent
        specs = _read(table, file, environ=self._environ, base=folder)
        self.add(specs, elsewhere=elsewhere)

    def add_project_file(self, loaded: Loaded) -> None:
        file = loaded.project / FILE_NAME
        try:
            table = _table(file, inside=loaded.project) or {}
        except InvalidValue as exc:
            if loaded.trusts_project:
                raise InvalidValue(f"{exc}; --no-mcp does without all servers") from None
            self.notes.append(str(exc))  # a stranger's slip stops nobody
            return
        if loaded.trusts_project:
            self.add(self._read_each(table, file, self._environ))
            return
        # No variable is looked up: nothing of the environment gets into a stranger's values.
        strangers = self._read_each(table, file, {})
        wanted: list[str] = []
        for name, read in strangers.items():
            spec = replace(read, problem=NOT_TRUSTED, note="")
            if self.specs.setdefault(name, spec) is spec and not spec.disabled:
                wanted.append(name)
        if wanted:
            names = cut(", ".join(sorted(wanted)), _LONGEST_LIST)
            way_out = how_to_trust(loaded.project, loaded.user_file)
            self.notes.append(f"{file}: servers not started: {names}; {way_out}")

    def _read_each(
        self, table: Mapping[str, Any], file: Path, environ: Mapping[str, str]
    ) -> dict[str, ServerSpec]:
        """Read the servers of a project one by one: what only other programs can use stays out."""
        specs: dict[str, ServerSpec] = {}
        left_out: list[str] = []
        for name, row in table.items():
            try:
                specs |= _read({name: row}, file, environ=environ, base=file.parent)
            except InvalidValue as exc:
                left_out.append(f"{exc}; {cut(on_one_line(name), _LONGEST)} is left out")
        self.notes += left_out[:_MOST_NOTES]
        if more := len(left_out[_MOST_NOTES:]):
            self.notes.append(f"{file}: {more:,} more are left out")
        return specs


def describe_server(spec: ServerSpec) -> dict[str, Any]:
    """Return what may be known of a server: neither arguments nor variables nor headers."""
    where: dict[str, Any] = {"kind": ""}  # it is only said to be switched off
    if spec.url:
        where = {"kind": "http", "url": spec.redact_secrets(without_secrets(spec.url) or "")}
    elif spec.command:
        command = replace_lone_surrogates(spec.redact_secrets(spec.command))
        where = {"kind": "stdio", "command": command}
    return {**where, "state": state_of(spec), "from": spec.origin}


def state_of(spec: ServerSpec) -> str:
    """Say whether a server can be used, or why not."""
    return "disabled" if spec.disabled else spec.problem or CONFIGURED


# -- files -----------------------------------------------------------------------------------


class _Document(msgspec.Struct, rename={"servers": _TABLE}):
    servers: dict[str, Any]


def _read(
    table: Mapping[str, Any], file: Path, *, environ: Mapping[str, str], base: Path
) -> dict[str, ServerSpec]:
    specs = read_specs(table, place=f"{file}: {_TABLE}", environ=environ, base=base)
    origin = replace_lone_surrogates(str(file))
    return {name: replace(spec, origin=origin) for name, spec in specs.items()}


def _table(file: Path, *, inside: Path | None) -> dict[str, Any] | None:
    """Return the servers that a file names; None if there is no such file."""
    data = read_plain_file(file, inside=inside, most_bytes=_MOST_BYTES)
    if data is None:
        return None
    if len(data) > _MOST_BYTES:
        raise InvalidValue(f"{file}: must not be larger than {_MOST_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=_Document).servers
    except msgspec.ValidationError:
        raise InvalidValue(
            f'{file}: must be an object with a table of servers, "{_TABLE}"'
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"{file}: is not JSON: {exc}") from None
    except RecursionError:
        raise InvalidValue(f"{file}: is nested too deeply") from None
