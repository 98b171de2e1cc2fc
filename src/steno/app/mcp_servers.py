"""Which MCP servers there are: those of the settings, of `.mcp.json`, and of files somebody names.

Nothing is started here. What a project brings that nobody trusts is told of, and has a problem
that keeps it from ever being started. One's own servers are not started in its folder either: most
programs take settings, and some their own code, from where they are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.app.folders import home_folder, working_folder
from steno.app.settings_loader import LoadedSettings, describe_how_to_trust, read_plain_file
from steno.errors import InvalidValue
from steno.inputs.mcp.prompts import McpPrompt
from steno.inputs.mcp.protocol import ListedResource
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from steno.inputs.mcp.tools import McpTool
from steno.ports import strip_url_secrets
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.values import replace_lone_surrogates

MCP_FILE_NAME: Final = ".mcp.json"
"""Where a project says which servers it wants; other programs read it, too."""


NOT_TRUSTED: Final = "not trusted"
"""The problem of a server that an untrusted project brings."""
_CONFIGURED: Final = "configured"
"""The state of a server that can be started; whether it answers is known when it is asked."""


_SERVERS_KEY: Final = "mcpServers"


_MAX_FILE_BYTES: Final = 262_144


_MAX_NAME_LENGTH: Final = 40


_MAX_LIST_LENGTH: Final = 400


_MAX_NOTES: Final = 20
"""About one file; it may be a stranger's, who would like to fill the screen."""


class ConfiguredServers(NamedTuple):
    """All servers that anybody has named, and what a person should know of them."""

    specs: tuple[McpServerSpec, ...]
    """By name, also those that cannot be used, which say why."""
    notes: tuple[str, ...]


def find_servers(
    loaded: LoadedSettings, environ: Mapping[str, str], *, files: Sequence[str | Path] = ()
) -> ConfiguredServers:
    """Return the servers for work in the project of these settings.

    `files` look like `.mcp.json`; a person named them, so they are trusted, and count most. Behind
    them come the settings, and last what lies in the project. Raises InvalidValue if one of the
    named files, or that of a trusted project, cannot be read.
    """
    elsewhere = None if loaded.trusts_project else home_folder(environ) or Path("/")
    gathered = _ServerCollector(environ)
    for file in reversed(files):  # the later one wins, as with all options
        is_inside = loaded.project in Path(os.path.realpath(file)).parents
        gathered.add_named_file(Path(file), elsewhere=None if is_inside else elsewhere)
    gathered.add(loaded.settings.mcp_servers, elsewhere=elsewhere)
    gathered.add_project_file(loaded)
    specs = tuple([gathered.specs[name] for name in sorted(gathered.specs)])
    told = [f"{spec.origin}: {spec.name}: {spec.note}" for spec in specs if spec.note]
    return ConfiguredServers(specs, (*gathered.notes, *told))


@final
class _ServerCollector:
    """The servers so far: whoever names one first is the one who counts."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.specs: dict[str, McpServerSpec] = {}
        self.notes: list[str] = []
        self._environ = environ

    def add(self, specs: Mapping[str, McpServerSpec], *, elsewhere: Path | None = None) -> None:
        """Take servers; those that do not say where they work are started there, if given."""
        for name, read in specs.items():
            spec = read if read.cwd is not None else replace(read, cwd=elsewhere)
            first = self.specs.setdefault(name, spec)
            if first is not spec and not first.disabled:
                self.notes.append(
                    f"{spec.origin}: {name}: this server is not used; that of {first.origin} counts"
                )

    def add_named_file(self, file: Path, *, elsewhere: Path | None) -> None:
        table = _read_servers_table(file, inside=None)
        if table is None:
            raise InvalidValue(f"{file}: there is no such file")
        folder = file.absolute().parent
        specs = _read_specs_from(table, file, environ=self._environ, base=folder)
        self.add(specs, elsewhere=elsewhere)

    def add_project_file(self, loaded: LoadedSettings) -> None:
        file = loaded.project / MCP_FILE_NAME
        try:
            table = _read_servers_table(file, inside=loaded.project) or {}
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
            names = truncate_to_width(", ".join(sorted(wanted)), _MAX_LIST_LENGTH)
            way_out = describe_how_to_trust(loaded.project, loaded.user_file)
            self.notes.append(f"{file}: servers not started: {names}; {way_out}")

    def _read_each(
        self, table: Mapping[str, Any], file: Path, environ: Mapping[str, str]
    ) -> dict[str, McpServerSpec]:
        """Read the servers of a project one by one: what only other programs can use stays out."""
        specs: dict[str, McpServerSpec] = {}
        left_out: list[str] = []
        for name, row in table.items():
            try:
                specs |= _read_specs_from({name: row}, file, environ=environ, base=file.parent)
            except InvalidValue as exc:
                left_out.append(
                    f"{exc}; {truncate_to_width(terminal_line(name), _MAX_NAME_LENGTH)} is left out"
                )
        self.notes += left_out[:_MAX_NOTES]
        if more := len(left_out[_MAX_NOTES:]):
            self.notes.append(f"{file}: {more:,} more are left out")
        return specs


def describe_server(spec: McpServerSpec) -> dict[str, Any]:
    """Return what may be known of a server: neither arguments nor variables nor headers."""
    where: dict[str, Any] = {"kind": ""}  # it is only said to be switched off
    if spec.url:
        where = {"kind": "http", "url": spec.redact_secrets(strip_url_secrets(spec.url) or "")}
    elif spec.command:
        command = replace_lone_surrogates(spec.redact_secrets(spec.command))
        where = {"kind": "stdio", "command": command}
    return {**where, "state": _configured_state(spec), "from": spec.origin}


def _configured_state(spec: McpServerSpec) -> str:
    return "disabled" if spec.disabled else spec.problem or _CONFIGURED


# -- files -----------------------------------------------------------------------------------


class _McpFile(msgspec.Struct, rename={"servers": _SERVERS_KEY}):
    servers: dict[str, Any]


def _read_specs_from(
    table: Mapping[str, Any], file: Path, *, environ: Mapping[str, str], base: Path
) -> dict[str, McpServerSpec]:
    specs = read_server_specs(table, place=f"{file}: {_SERVERS_KEY}", environ=environ, base=base)
    origin = replace_lone_surrogates(str(file))
    return {name: replace(spec, origin=origin) for name, spec in specs.items()}


def _read_servers_table(file: Path, *, inside: Path | None) -> dict[str, Any] | None:
    """Return the servers that a file names; None if there is no such file."""
    data = read_plain_file(file, inside=inside, most_bytes=_MAX_FILE_BYTES)
    if data is None:
        return None
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidValue(f"{file}: must not be larger than {_MAX_FILE_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=_McpFile).servers
    except msgspec.ValidationError:
        raise InvalidValue(
            f'{file}: must be an object with a table of servers, "{_SERVERS_KEY}"'
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"{file}: is not JSON: {exc}") from None
    except RecursionError:
        raise InvalidValue(f"{file}: is nested too deeply") from None


class ServerStatus(NamedTuple):
    """Whether a server can be used, as far as that is known without starting it."""

    text: str
    is_problem: bool


def server_status(spec: McpServerSpec) -> ServerStatus:
    """Tell whether a server can be used, and why not; its program has to be installed."""
    if spec.is_usable and spec.command and not _is_program_found(spec):
        return ServerStatus(f"not found: {spec.redact_secrets(spec.command)}", is_problem=True)
    return ServerStatus(_configured_state(spec), bool(spec.problem) and not spec.disabled)


def _is_program_found(spec: McpServerSpec) -> bool:
    """Tell whether the program exists, where the system will look for it."""
    command = spec.command
    if "/" in command:
        command = str((spec.cwd or working_folder()) / command)
    return shutil.which(command, path=spec.env.get("PATH")) is not None


# -- offers ----------------------------------------------------------------------------------------
#
# `steno mcp list`, `tools`, `resources` and `prompts`: which servers there are, and what they offer.
#
# What servers say is somebody else's words: nothing of it reaches a terminal as it is.


_MAX_DESCRIPTION_LENGTH: Final = 100


def tool_row(tool: McpTool) -> list[str]:
    """Return what a table shows of a tool."""
    definition = tool.definition
    said = definition.description.removeprefix(f"[MCP server {tool.server}] ")
    first = said.partition("\n")[0]
    return [
        definition.name,
        terminal_line(tool.original_name),
        str(tool.capability),
        truncate_to_width(terminal_line(first), _MAX_DESCRIPTION_LENGTH),
    ]


def resource_row(server: str, resource: ListedResource) -> list[str]:
    """Return what a table shows of a resource."""
    template = " (fill in what is in braces)" if resource.is_template else ""
    return [
        server,
        terminal_line(resource.uri),
        terminal_line(resource.mime_type or "-"),
        terminal_line(resource.name or resource.description) + template,
    ]


def prompt_usage(prompt: McpPrompt) -> str:
    """Return how a prompt is called, and with what."""
    words = [f"{one.name}=…" if one.is_required else f"[{one.name}=…]" for one in prompt.arguments]
    return terminal_line(" ".join((prompt.command, *words)))
