"""The configured MCP servers: those of the settings, of `.mcp.json`, and of files the user names.

Nothing is started here. The servers of an untrusted project are listed with a problem that keeps
them from being started. The user's own servers are not started in its folder either: most programs
take settings, and some their own code, from their working directory.
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
from steno.app.settings_loader import LoadedSettings, read_plain_file
from steno.errors import InvalidValue
from steno.inputs.mcp.prompts import McpPrompt
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from steno.ports import SetupNotice, strip_url_secrets
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.values import replace_lone_surrogates

MCP_FILE_NAME: Final = ".mcp.json"
"""The file of a project that names its servers; other programs read it, too."""
NOT_TRUSTED: Final = "not trusted"
"""The problem of a server that an untrusted project brings."""
_CONFIGURED: Final = "configured"
"""The state of a server that can be started; only a request shows whether it responds."""
_SERVERS_KEY: Final = "mcpServers"
_MAX_FILE_BYTES: Final = 262_144
_MAX_NAME_LENGTH: Final = 40
_MAX_LIST_LENGTH: Final = 400
_MAX_NOTICES: Final = 20
"""The number of notices about one file, which may come from an untrusted project."""


# -- finding servers --------------------------------------------------------------------------


class ConfiguredServers(NamedTuple):
    """All configured servers, and notices about them."""

    specs: tuple[McpServerSpec, ...]
    """In the order of their names; those that cannot be used have a problem."""
    notices: tuple[SetupNotice, ...]


def find_servers(
    loaded: LoadedSettings, environ: Mapping[str, str], *, files: Sequence[str | Path] = ()
) -> ConfiguredServers:
    """Return the servers for work in the project of these settings.

    `files` have the form of `.mcp.json`; the user named them, so they are trusted and come first.
    The settings come next, and the file of the project last. Raises InvalidValue if one of the
    named files, or that of a trusted project, cannot be read.
    """
    fallback_cwd = None if loaded.trusts_project else home_folder(environ) or Path("/")
    collector = _ServerCollector(environ)
    for file in reversed(files):  # the later one wins, as with all options
        is_inside = loaded.project in Path(os.path.realpath(file)).parents
        collector.add_named_file(Path(file), fallback_cwd=None if is_inside else fallback_cwd)
    collector.add(loaded.settings.mcp_servers, fallback_cwd=fallback_cwd)
    collector.add_project_file(loaded)
    specs = tuple([collector.specs[name] for name in sorted(collector.specs)])
    spec_notices = [
        SetupNotice("server_spec_doubtful", f"{spec.origin}: {spec.name}: {spec.notice}")
        for spec in specs
        if spec.notice
    ]
    return ConfiguredServers(specs, (*collector.notices, *spec_notices))


@final
class _ServerCollector:
    """The servers so far: the first server of a name counts."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.specs: dict[str, McpServerSpec] = {}
        self.notices: list[SetupNotice] = []
        self._environ = environ

    def add(self, specs: Mapping[str, McpServerSpec], *, fallback_cwd: Path | None = None) -> None:
        """Add servers; those without a working directory are started in `fallback_cwd`."""
        for name, configured in specs.items():
            spec = (
                configured if configured.cwd is not None else replace(configured, cwd=fallback_cwd)
            )
            existing = self.specs.setdefault(name, spec)
            if existing is not spec and not existing.disabled:
                text = f"{spec.origin}: {name}: this server is not used; that of {existing.origin} counts"
                self.notices.append(SetupNotice("server_overridden", text))

    def add_named_file(self, file: Path, *, fallback_cwd: Path | None) -> None:
        table = _read_servers_table(file, inside=None)
        if table is None:
            raise InvalidValue("there is no such file", code="file_not_found", place=str(file))
        folder = file.absolute().parent
        specs = _read_specs_from(table, file, environ=self._environ, base=folder)
        self.add(specs, fallback_cwd=fallback_cwd)

    def add_project_file(self, loaded: LoadedSettings) -> None:
        file = loaded.project / MCP_FILE_NAME
        try:
            table = _read_servers_table(file, inside=loaded.project) or {}
        except InvalidValue as exc:
            if loaded.trusts_project:
                raise InvalidValue(
                    f"{exc.message}; --no-mcp does without all servers",
                    code=exc.code,
                    place=exc.place,
                ) from None
            # An error in an untrusted project does not stop the user.
            self.notices.append(SetupNotice(exc.code, str(exc)))
            return
        if loaded.trusts_project:
            self.add(self._read_valid_specs(table, file, self._environ))
            return
        # No variable is expanded: values of an untrusted project must not hold the environment.
        untrusted = self._read_valid_specs(table, file, {})
        unused: list[str] = []
        for name, configured in untrusted.items():
            spec = replace(configured, problem=NOT_TRUSTED, is_trusted=False, notice="")
            if self.specs.setdefault(name, spec) is spec and not spec.disabled:
                unused.append(name)
        if unused:
            names = truncate_to_width(", ".join(sorted(unused)), _MAX_LIST_LENGTH)
            text = f"{file}: servers not started: {names}; {loaded.trust_advice}"
            self.notices.append(SetupNotice("not_trusted", text))

    def _read_valid_specs(
        self, table: Mapping[str, Any], file: Path, environ: Mapping[str, str]
    ) -> dict[str, McpServerSpec]:
        """Read the servers of a project one by one; those that steno cannot use are left out."""
        specs: dict[str, McpServerSpec] = {}
        rejected: list[SetupNotice] = []
        for name, row in table.items():
            try:
                specs |= _read_specs_from({name: row}, file, environ=environ, base=file.parent)
            except InvalidValue as exc:
                short = truncate_to_width(terminal_line(name), _MAX_NAME_LENGTH)
                rejected.append(SetupNotice(exc.code, f"{exc}; {short} is left out"))
        self.notices += rejected[:_MAX_NOTICES]
        if extra_count := len(rejected[_MAX_NOTICES:]):
            text = f"{file}: {extra_count:,} more are left out"
            self.notices.append(SetupNotice("more_servers_left_out", text))
        return specs


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
    data = read_plain_file(file, inside=inside, max_bytes=_MAX_FILE_BYTES)
    if data is None:
        return None
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidValue(
            f"must not be larger than {_MAX_FILE_BYTES:,} bytes",
            code="file_too_large",
            place=str(file),
        )
    try:
        return msgspec.json.decode(data, type=_McpFile).servers
    except msgspec.ValidationError:
        raise InvalidValue(
            f'must be an object with a table of servers, "{_SERVERS_KEY}"',
            code="not_a_table",
            place=str(file),
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"is not JSON: {exc}", code="not_json", place=str(file)) from None
    except RecursionError:
        raise InvalidValue(
            "is nested too deeply", code="file_too_complex", place=str(file)
        ) from None


# -- status -----------------------------------------------------------------------------------


class ServerStatus(NamedTuple):
    """Whether a server can be used, as far as that is known without starting it."""

    text: str
    is_problem: bool


def server_status(spec: McpServerSpec) -> ServerStatus:
    """Return whether a server can be used, and why not; its program has to be installed."""
    if spec.is_usable and spec.command and not _is_program_found(spec):
        return ServerStatus(f"not found: {spec.redact_secrets(spec.command)}", is_problem=True)
    return ServerStatus(_configured_state(spec), bool(spec.problem) and not spec.disabled)


def _is_program_found(spec: McpServerSpec) -> bool:
    """Return whether the program exists, where the system will search for it."""
    command = spec.command
    if "/" in command:
        command = str((spec.cwd or working_folder()) / command)
    return shutil.which(command, path=spec.env.get("PATH")) is not None


def _configured_state(spec: McpServerSpec) -> str:
    return "disabled" if spec.disabled else spec.problem or _CONFIGURED


def describe_server(spec: McpServerSpec) -> dict[str, Any]:
    """Return the public facts of a server: no arguments, variables or headers."""
    facts: dict[str, Any] = {"kind": ""}  # the file only disables it
    if spec.url:
        facts = {"kind": "http", "url": spec.redact_secrets(strip_url_secrets(spec.url) or "")}
    elif spec.command:
        command = replace_lone_surrogates(spec.redact_secrets(spec.command))
        facts = {"kind": "stdio", "command": command}
    return {**facts, "state": _configured_state(spec), "from": spec.origin}


def prompt_arguments(prompt: McpPrompt) -> str:
    """Return the arguments of a prompt, the optional ones in brackets."""
    names = [
        f"{argument.name}=…" if argument.is_required else f"[{argument.name}=…]"
        for argument in prompt.arguments
    ]
    return terminal_line(" ".join(names))
