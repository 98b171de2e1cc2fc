"""The settings, their types and defaults, and the functions that load them.

Settings are read from the user's file, the project's file, the environment and the command line;
later sources override earlier ones. The project's file comes from whoever wrote the project: unless
the user trusts its content (`steno.app.trust`), only harmless settings take effect, and a notice
lists the ignored ones. An invalid setting of the user raises an error that names its place; an
invalid part of the project's file is ignored with a notice, so that no project can stop steno.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    final,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from steno.agent.permissions.rules import AgentRole, AutoRun, PermissionRule
from steno.agent.run_config import Limits
from steno.agent.steering import SteeringPolicy
from steno.app.commands.arguments import UsageError, parse_boolean
from steno.app.environment import user_environment
from steno.app.folders import SETTINGS_FILE, config_folder, find_project, home_folder
from steno.app.permissions import check_rule_tool, parse_known_rule, resolve_rule
from steno.app.trust import (
    TRUST_COMMAND,
    TRUST_FILE_NAME,
    ProjectTrust,
    TrustChecker,
    TrustFile,
    TrustState,
    server_digest,
    settings_digest,
    trust_advice,
)
from steno.errors import InvalidValue, StenoError, ToolFailed, Unavailable
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from steno.messages.content import RecognitionMode
from steno.ports import SetupNotice
from steno.providers import CATALOG, Vendor, read_vendors
from steno.providers.row_errors import build_row_error
from steno.records.entry import Mode
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.store.locate import read_address
from steno.suggest import suggest_name
from steno.tools.shell.process import CommandLimits
from steno.tools.shell.sandbox import SandboxSetting
from steno.tools.workspace import Workspace
from steno.values import RedactedRepr, is_utf8_text, replace_lone_surrogates

T = TypeVar("T")
_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
_Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]


@final
class OcrEngineSetting(StrEnum):
    """The OCR engine to use: the first one installed, a specific one, or none."""

    AUTO = "auto"
    RAPIDOCR = "rapidocr"
    TESSERACT = "tesseract"
    OFF = "off"


@final
class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties of a model, which override those that its server and the catalog report."""

    context_tokens: _Count | None = None
    vision: bool | None = None
    tools: bool | None = None


@final
class Settings(RedactedRepr, frozen=True, kw_only=True):
    """All settings, with the same names as in the settings files. None means not set."""

    shown: ClassVar[frozenset[str]] = frozenset({"model"})

    model: _Text | None = None
    """The model as `provider/model`; if it is None, steno searches for an available model."""
    mode: Mode = Mode.ACT
    role: AgentRole = AgentRole.ACTOR
    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    auto_run: AutoRun = AutoRun.ROUTINE
    """The commands that need no approval in a sandbox."""
    max_turns: _Count = 50
    max_total_tokens: _Count | None = None
    max_seconds: _Amount | None = None
    max_cost: _Amount | None = None
    max_tokens: _Count | None = None
    """The maximum number of tokens in one response."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    store: _Text | None = None
    """The address of the store for sessions."""
    add_dirs: tuple[Path, ...] = ()
    """Folders that tools may use besides the working directory, as resolved absolute paths."""
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    sandbox: SandboxSetting = SandboxSetting.AUTO
    """Whether commands run inside a sandbox of the operating system."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""
    env: tuple[_Name, ...] = ()
    """Environment variables that commands receive in addition to the default ones."""
    command_memory_mb: _Count | None = None
    """The memory that the processes of a command may use together; None for half of the machine's."""
    command_processes: _Count = 512
    """The number of processes that a command may run at once."""
    command_file_mb: _Count = 4096
    """The size of a file that a command may write."""
    theme: _Text | None = None
    """The theme of the full-screen terminal; see `/theme`."""
    plain: bool = False
    """Whether the terminal interface prints line by line, for example for screen readers."""
    steering: SteeringPolicy = SteeringPolicy.AFTER_CALLS
    telemetry: bool = False
    capture_content: bool = False
    """Whether telemetry contains the content of messages."""
    image_mode: RecognitionMode = RecognitionMode.AUTO
    """The form in which a model receives images, unless a prompt sets the form of an image."""
    ocr: OcrEngineSetting = OcrEngineSetting.AUTO
    ocr_languages: tuple[_Name, ...] = ()
    """The languages that Tesseract recognises, in its notation; by default all installed ones."""
    resource_ttl_s: Annotated[float, Meta(ge=0)] = 3600
    """The time for which the content of a resource is reused, unless its server sets a time."""
    resource_tokens: _Count | None = None
    """The maximum number of tokens for all resources of a conversation together."""
    providers: Mapping[str, Vendor] = MappingProxyType(CATALOG)
    """All vendors by name, from the catalog and from the settings files."""
    models: Mapping[str, ModelSettings] = MappingProxyType({})
    """The properties of models, by `provider/model`."""
    mcp_servers: Mapping[str, McpServerSpec] = MappingProxyType({})
    """MCP servers by name, except those in a project's `.mcp.json`."""
    trusted_projects: tuple[Path, ...] = ()
    """Folders that older versions of steno trusted; it only causes a notice, see `steno.app.trust`."""

    @property
    def limits(self) -> Limits:
        """The limits of one run."""
        return Limits(
            turns=self.max_turns,
            tokens=self.max_total_tokens,
            seconds=self.max_seconds,
            cost=None if self.max_cost is None else Decimal(str(self.max_cost)),
        )

    @property
    def command_limits(self) -> CommandLimits:
        """The limits of each command."""
        limits = CommandLimits(
            max_processes=self.command_processes, max_file_bytes=self.command_file_mb << 20
        )
        if self.command_memory_mb is None:
            return limits
        return replace(limits, max_memory_bytes=self.command_memory_mb << 20)


DEFAULTS: Final = Settings()
SETTING_NAMES: Final = Settings.__struct_fields__
SCALAR_NAMES: Final = tuple(
    [name for name in SETTING_NAMES if not isinstance(getattr(DEFAULTS, name), tuple | Mapping)]
)
"""Settings that have an environment variable."""
CUMULATIVE_NAMES: Final = frozenset(SETTING_NAMES) - frozenset(SCALAR_NAMES) | {
    "append_system_prompt"
}
"""Settings that are merged, not replaced, if several sources set them."""


def variable_name(name: str) -> str:
    """Return the name of the environment variable for a setting."""
    return f"STENO_{name.upper()}"


def merge_setting(name: str, old: Any, new: Any) -> Any:
    """Return the merged value of a setting that two sources set.

    Lists are concatenated, so that no file can revoke a deny rule. Tables are merged by key, and
    `append_system_prompt` is concatenated. Any other value is replaced.
    """
    if isinstance(old, Mapping):
        return MappingProxyType({**old, **new})
    if isinstance(old, tuple):
        return tuple(dict.fromkeys((*old, *new)))
    return f"{old}\n\n{new}" if name in CUMULATIVE_NAMES and old else new


# -- untrusted projects ----------------------------------------------------------------------------

_TrustCheck: TypeAlias = Callable[[Any, Any, Path], bool]


def _allow_always(new: Any, old: Any, project: Path) -> bool:
    return True


def _allow_if_lower(new: float, old: float | None, project: Path) -> bool:
    return old is None or new <= old


def _allow_only(value: object) -> _TrustCheck:
    return lambda new, old, project: new == value


ALLOWED_UNTRUSTED: Final[Mapping[str, _TrustCheck]] = {
    "mode": _allow_only(Mode.PLAN),
    "role": _allow_only(AgentRole.PLANNER),
    "deny": _allow_always,
    "auto_run": _allow_only(AutoRun.NONE),
    "max_turns": _allow_if_lower,
    "max_total_tokens": _allow_if_lower,
    "max_seconds": _allow_if_lower,
    "max_cost": _allow_if_lower,
    "max_tokens": _allow_if_lower,
    "temperature": _allow_always,
    "add_dirs": lambda new, old, project: all(path.is_relative_to(project) for path in new),
    "append_system_prompt": _allow_always,  # the project's AGENTS.md has the same effect
    "sandbox": _allow_only(SandboxSetting.REQUIRE),
    "network": _allow_only(False),
    "command_processes": _allow_if_lower,
    "command_file_mb": _allow_if_lower,
    "image_mode": _allow_always,
    "ocr": _allow_always,
    "ocr_languages": _allow_always,
    "resource_tokens": _allow_if_lower,
}
"""The settings that an untrusted project may set, because they restrict something or are harmless.

Each check receives the new value, the old value and the root of the project. Any other setting is
ignored, because it could spend the user's money, send keys or messages to another host, or grant
commands more access. Not even a trusted file can set `trusted_projects`.
"""


# -- loading -----------------------------------------------------------------------------------

_MAX_FILE_BYTES: Final = 262_144
_FILE_TYPES: Final = get_type_hints(Settings, include_extras=True) | dict.fromkeys(
    ("allow", "deny", "add_dirs", "trusted_projects"), tuple[str, ...]
)
"""The type of each setting in a file, by name."""
_FLAG_SPELLINGS: Final = {"add_dirs": "--add-dir"}
"""Flags whose name differs from the setting, because each flag adds one element."""
_USER_FILE_SETTINGS: Final = frozenset({"trusted_projects"})
_USER_FILE_ONLY: Final = "only your own settings file can set this"
_MAX_FILE_NOTICES: Final = 20
"""The maximum number of notices about the invalid settings of a project."""
_MAX_NOTICE_LENGTH: Final = 500
"""The maximum width of a notice about an invalid setting, whose name may have any length."""
_PROVIDER_MARKERS: Final = frozenset({"like", "wire", "base_url"})
"""The fields that identify a table as a provider. Every provider has at least one of them."""
_BARE_KEY: Final = re.compile(r"[\w-]+", re.ASCII)


class ProjectSettings(NamedTuple):
    """What the settings file of a project contains, for a review."""

    trust: TrustState = TrustState.UNKNOWN
    digest: str | None = None
    """The digest of the content; None if there is no file, or if it is invalid."""
    sensitive: Mapping[str, Any] = MappingProxyType({})
    """The values, as in the file, of the settings that apply only if the file is trusted."""
    server_digests: Mapping[str, str] = MappingProxyType({})
    """The digests of the servers in the file, by name."""


class LoadedSettings(NamedTuple):
    """The settings in effect, and their origins."""

    settings: Settings
    origins: Mapping[str, tuple[str, ...]]
    """The files, variables and flags that set each setting; a default has no origin."""
    notices: tuple[SetupNotice, ...]
    """Notices for the user, for example about ignored settings."""
    project: Path
    project_file: Path
    user_file: Path | None
    """The user's settings file; None if the home folder is unknown."""
    problems: tuple[SetupNotice, ...] = ()
    """The `notices` that concern every command: a file is invalid, or no longer trusted."""
    trust: TrustChecker = TrustChecker()
    """The configuration of the project that the user trusts."""
    project_settings: ProjectSettings = ProjectSettings()

    @property
    def trusts_project(self) -> bool:
        """Whether the user trusts the project, and its settings file has not changed since."""
        return self.project_settings.trust is TrustState.TRUSTED


def load_settings(
    folder: Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    is_review: bool = False,
) -> LoadedSettings:
    """Return the settings for work in `folder`, by default the working directory.

    `flags` are the settings of the command line by name; None and empty values are ignored. The
    settings files need not exist. With `is_review`, the result is what would apply if the user
    trusted the project; use it only to show it to the user. Raises UsageError if a flag is invalid,
    and InvalidValue if a setting in the user's file or in the environment is invalid.
    """
    folder = (folder or Path.cwd()).resolve()
    environ = user_environment() if environ is None else environ
    user_folder, project = config_folder(environ), find_project(folder)
    user_file = None if user_folder is None else user_folder / SETTINGS_FILE
    project_file = project / ".steno" / SETTINGS_FILE
    builder = _SettingsBuilder(environ, folder)
    if user_file is not None:
        builder.add_file(user_file)
    known = None if user_folder is None else builder.read_trust(user_folder, project)
    trust = TrustChecker(known, is_review=is_review)
    project_settings = builder.add_project_file(project_file, project, trust)
    for name in SCALAR_NAMES:
        if value := environ.get(variable_name(name)):
            _check_utf8(name, value, variable_name(name))
            builder.add_value(name, value, variable_name(name))
    for name, value in (flags or {}).items():
        if value not in (None, (), []):
            flag = _FLAG_SPELLINGS.get(name, f"--{name.replace('_', '-')}")
            try:
                _check_utf8(name, value, flag)
                builder.add_value(_check_setting_name(name, None, flag), value, flag, base=folder)
            except InvalidValue as exc:
                raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    return LoadedSettings(
        settings=builder.settings,
        origins=builder.origins,
        notices=(*builder.problems, *builder.notices),
        project=project,
        project_file=project_file,
        user_file=user_file,
        problems=tuple(builder.problems),
        trust=trust,
        project_settings=project_settings,
    )


def load_settings_leniently(notify: Callable[[str], object]) -> LoadedSettings:
    """Return the settings for a command that only reads stores.

    `notify` receives the problems of the settings files, but not the other notices. Raises
    InvalidValue if the user's own settings are invalid.
    """
    loaded = load_settings()
    for notice in loaded.problems:
        notify(terminal_line(notice.text))
    return loaded


@final
class _SettingsBuilder:
    """The settings that were read so far, and their origins."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.settings = DEFAULTS
        self.origins: dict[str, tuple[str, ...]] = {}
        self.notices: list[SetupNotice] = []
        self.problems: list[SetupNotice] = []
        self._environ = environ
        self._folder = folder
        self._home = home_folder(environ)
        self._trust = TrustChecker()
        self._project_digests: dict[str, str] = {}
        """The digests of the servers in the project's file, by name."""

    def add_file(self, path: Path) -> None:
        """Add the settings of the user's file."""
        origin = replace_lone_surrogates(str(path))
        data = read_config_file(path, inside=None)
        for key, value in ({} if data is None else _parse_toml(data, path)).items():
            place = f"{path}: {terminal_line(key)}"
            name = _check_setting_name(key, value, place)
            new = self._read_value(name, value, place, origin=origin, base=None)
            self._check_allowed_tools(name, new, place)
            self._set(name, new, origin)

    def read_trust(self, user_folder: Path, project: Path) -> ProjectTrust | None:
        """Return the configuration of the project that the user trusts."""
        try:
            trust = TrustFile(user_folder / TRUST_FILE_NAME).read().get(str(project))
        except StenoError as exc:
            self.problems.append(SetupNotice(exc.code, str(exc)))
            return None
        if trust is None and project in self.settings.trusted_projects:
            text = (
                "trusted_projects no longer trusts a project, because it would also trust every "
                f"later change; review this project with `{TRUST_COMMAND}`"
            )
            self.problems.append(SetupNotice("trusted_projects_unused", text))
        return trust

    def add_project_file(self, path: Path, project: Path, trust: TrustChecker) -> ProjectSettings:
        """Add the settings of the project's file as far as it is trusted; return its content.

        The digest is that of the bytes that are then used. A part that is invalid is ignored.
        """
        try:
            data = read_config_file(path, inside=project)
            table = {} if data is None else _parse_toml(data, path)
        except InvalidValue as exc:
            self.problems.append(_problem(exc, "the file is ignored"))
            return ProjectSettings(
                TrustState.UNKNOWN if trust.known is None else TrustState.CHANGED
            )
        digest = None if data is None else settings_digest(data)
        state, self._trust = trust.settings_state(digest), trust
        ignored, sensitive, rejected = list[str](), dict[str, Any](), list[SetupNotice]()
        for key, value in table.items():
            place = f"{path}: {terminal_line(key)}"
            try:
                name = _check_setting_name(key, value, place)
                is_harmless = self._add_project_setting(
                    name, value, place, path=path, project=project, state=state
                )
            except InvalidValue as exc:
                rejected.append(_problem(exc, "the setting is ignored"))
                continue
            if not is_harmless:
                sensitive[name] = value
                if state is not TrustState.TRUSTED or name in _USER_FILE_SETTINGS:
                    ignored.append(name)
        self.problems += rejected[:_MAX_FILE_NOTICES]
        if extra_count := len(rejected[_MAX_FILE_NOTICES:]):
            more = format_count(extra_count, "more setting is", "more settings are")
            self.problems.append(SetupNotice("more_settings_ignored", f"{path}: {more} ignored"))
        if ignored:
            advice = _USER_FILE_ONLY if state is TrustState.TRUSTED else trust_advice(state)
            text = f"{path}: project settings ignored: {', '.join(ignored)}; {advice}"
            if state is TrustState.CHANGED:
                self.problems.append(SetupNotice("trust_changed", text))
            else:
                self.notices.append(SetupNotice("settings_ignored", text))
        sensitive = {name: sensitive[name] for name in sensitive if name not in _USER_FILE_SETTINGS}
        return ProjectSettings(state, digest, sensitive, self._project_digests)

    def _add_project_setting(
        self, name: str, value: Any, place: str, *, path: Path, project: Path, state: TrustState
    ) -> bool:
        """Add a setting of the project if it is trusted or harmless; return whether it is harmless.

        The value of an untrusted setting is not read, unless it may be harmless.
        """
        is_trusted, check = state is TrustState.TRUSTED, ALLOWED_UNTRUSTED.get(name)
        if name in _USER_FILE_SETTINGS or not (is_trusted or check):
            return False
        origin = replace_lone_surrogates(str(path))
        new = self._read_value(name, value, place, origin=origin, base=project)
        is_harmless = check is not None and check(new, getattr(self.settings, name), project)
        if is_trusted or is_harmless:
            self._check_allowed_tools(name, new, place)
            self._set(name, new, origin)
        return is_harmless

    def _check_allowed_tools(self, name: str, new: Any, place: str) -> None:
        """Add a notice for each allow rule of a file whose tool is unknown.

        It is only a notice, because another version of steno may have the tool.
        """
        for number, rule in enumerate(new if name == "allow" else ()):
            try:
                check_rule_tool(rule)
            except InvalidValue as exc:
                self.notices.append(SetupNotice(exc.code, f"{place}[{number}]: {exc}"))

    def add_value(self, name: str, value: Any, origin: str, *, base: Path | None = None) -> None:
        """Add one setting from a variable or a flag, where a number may be a string."""
        if _FILE_TYPES[name] is bool and isinstance(value, str):
            flag = parse_boolean(value)
            value = value if flag is None else flag
        new = self._read_value(name, value, origin, origin=origin, base=base, is_strict=False)
        if name == "allow":
            for number, rule in enumerate(new):
                with _at_place(f"{origin}[{number}]"):
                    check_rule_tool(rule)
        self._set(name, new, origin)

    def _set(self, name: str, new: Any, origin: str) -> None:
        merged = merge_setting(name, getattr(self.settings, name), new)
        self.settings = replace(self.settings, **{name: merged})
        earlier_origins = self.origins.get(name, ()) if name in CUMULATIVE_NAMES else ()
        self.origins[name] = (*earlier_origins, origin)

    def _read_value(
        self,
        name: str,
        value: Any,
        place: str,
        *,
        origin: str,
        base: Path | None,
        is_strict: bool = True,
    ) -> Any:
        """Convert a value to the type of its field in `Settings`; paths are relative to `base`."""
        match name:
            case "providers":
                table = _convert_value(value, dict[str, Any], place)
                try:
                    return read_vendors(table, known=self.settings.providers)
                except InvalidValue as exc:
                    inner_place = f"{place}.{exc.place}" if exc.place else place
                    text = terminal_line(exc.message)
                    raise InvalidValue(text, code=exc.code, place=inner_place) from None
            case "models":
                rows = _convert_value(value, dict[str, Any], place)
                return {
                    key: _convert_value(row, ModelSettings, f"{place}.{terminal_line(key)}")
                    for key, row in rows.items()
                }
            case "mcp_servers":
                table = _convert_value(value, dict[str, Any], place)
                return self._servers(table, place, origin=origin, base=base)
            case "allow":
                return self._parse_rules(name, value, place, PermissionRule.parse)
            case "deny":  # a deny rule without effect would be a security risk
                return self._parse_rules(name, value, place, parse_known_rule)
            case "add_dirs" | "trusted_projects":
                return self._parse_each(name, value, place, lambda text: self._path(text, base))
            case _:
                converted = _convert_value(value, _FILE_TYPES[name], place, is_strict=is_strict)
                if name == "store":
                    try:
                        read_address(converted)
                    except InvalidValue as exc:
                        raise InvalidValue(exc.message, code=exc.code, place=place) from None
                return converted

    def _servers(
        self, table: dict[str, Any], place: str, *, origin: str, base: Path | None
    ) -> dict[str, McpServerSpec]:
        """Read a table of MCP servers, and omit servers whose names are already in use.

        Thus, the servers of a project do not replace those of the user. A notice reports each
        omitted server.
        """
        known = self.settings.mcp_servers
        specs = read_server_specs(
            table, place=place, environ=self._environ, base=base, is_strict=True
        )
        if base is not None:
            unexpanded = read_server_specs(table, place=place, environ={}, base=base)
            self._project_digests = {
                name: server_digest(spec, table[name]) for name, spec in specs.items()
            }
            specs = {
                name: self._trust.apply(spec, unexpanded[name], self._project_digests[name])
                for name, spec in specs.items()
            }
        for name in specs.keys() & known.keys():
            del specs[name]
            winner = known[name].origin
            text = (
                f"{place}.{name}: this server is ignored; {winner} has a server with the same name"
            )
            self.notices.append(SetupNotice("server_overridden", text))
        return {name: replace(spec, origin=origin) for name, spec in specs.items()}

    def _parse_each(
        self, name: str, value: Any, place: str, parse: Callable[[str], T]
    ) -> tuple[T, ...]:
        texts: tuple[str, ...] = _convert_value(value, _FILE_TYPES[name], place)
        parsed: list[T] = []
        for number, text in enumerate(texts):
            with _at_place(f"{place}[{number}]"):
                parsed.append(parse(text))
        return tuple(parsed)

    def _parse_rules(
        self, name: str, value: Any, place: str, parse: Callable[[str], PermissionRule]
    ) -> tuple[PermissionRule, ...]:
        def parse_and_resolve(text: str) -> tuple[PermissionRule, ...]:
            return resolve_rule(parse(text), str(self._folder), self._home)

        return tuple(chain(*self._parse_each(name, value, place, parse_and_resolve)))

    def _path(self, text: str, base: Path | None) -> Path:
        path = Path(text)
        if path.parts[:1] == ("~",) and self._home is not None:
            path = self._home.joinpath(*path.parts[1:])
        if base is not None:
            path = base / path
        if not path.is_absolute():
            raise InvalidValue("must be an absolute path, or start with ~/", code="path_relative")
        try:
            return path.resolve()
        except (OSError, RuntimeError, ValueError):
            raise InvalidValue("must be the path of a folder", code="invalid_path") from None


# -- files ------------------------------------------------------------------------------------


def _problem(exc: InvalidValue, effect: str) -> SetupNotice:
    """Return a notice about an invalid part of a project's file; its text may have any length."""
    text = truncate_to_width(terminal_line(str(exc)), _MAX_NOTICE_LENGTH)
    return SetupNotice(exc.code, f"{text}; {effect}")


def _parse_toml(data: bytes, path: Path) -> dict[str, Any]:
    """Return the table in a TOML file."""
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise InvalidValue(
            f"is not UTF-8 (at line {line})", code="not_utf8", place=str(path)
        ) from None
    except tomllib.TOMLDecodeError as exc:
        raise InvalidValue(f"is not TOML: {exc}", code="file_not_toml", place=str(path)) from None
    except (RecursionError, ValueError):  # too deep nesting, or a number with too many digits
        raise InvalidValue(
            "is nested too deeply, or has a number that is too long",
            code="file_too_complex",
            place=str(path),
        ) from None


def read_config_file(path: Path, *, inside: Path | None) -> bytes | None:
    """Return the content of a configuration file; None if it does not exist.

    Raises InvalidValue if the file is too large, and for the same reasons as `read_plain_file`.
    """
    data = read_plain_file(path, inside=inside, max_bytes=_MAX_FILE_BYTES)
    if data is not None and len(data) > _MAX_FILE_BYTES:
        text = f"must not be larger than {_MAX_FILE_BYTES:,} bytes"
        raise InvalidValue(text, code="file_too_large", place=str(path))
    return data


def read_plain_file(path: Path, *, inside: Path | None, max_bytes: int) -> bytes | None:
    """Return at most `max_bytes` + 1 bytes from the start of a file; None if it does not exist.

    Links may point anywhere if `inside` is None, otherwise only into the folder `inside`. Raises
    InvalidValue if the file is not a regular file or cannot be read.
    """
    if not os.path.lexists(path):
        return None
    try:
        if inside is None:
            path = path.resolve(strict=True)
        with Workspace([inside or path.parent]).open_file(str(path)) as file:
            return file.read(max_bytes + 1)
    except (ToolFailed, Unavailable) as exc:
        raise InvalidValue(exc.message, code=exc.code, place=exc.place) from exc
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of symbolic links
        raise InvalidValue(
            f"cannot be read: {exc}", code="file_unreadable", place=str(path)
        ) from exc


# -- values -----------------------------------------------------------------------------------


def _check_setting_name(key: str, value: object, place: str) -> str:
    """Return `key` if it is the name of a setting. Raises InvalidValue otherwise."""
    if key in SETTING_NAMES:
        return key
    _check_misplaced_provider(key, value, place)
    raise InvalidValue(
        f"unknown setting; {suggest_name(key, SETTING_NAMES)}",
        code="setting_unknown",
        place=place,
    )


def _check_misplaced_provider(key: str, value: object, place: str) -> None:
    """Raise InvalidValue if a table outside of `providers` has the fields of a provider."""
    if not isinstance(value, dict) or _PROVIDER_MARKERS.isdisjoint(value):
        return
    name = key if _BARE_KEY.fullmatch(key) else msgspec.json.encode(terminal_line(key)).decode()
    raise InvalidValue(
        f"unknown setting; to add a provider, write [providers.{name}]",
        code="provider_misplaced",
        place=place,
    )


def _check_utf8(name: str, value: object, place: str) -> None:
    """Raise InvalidValue if a value is not UTF-8 text, unless it is the address of a store.

    The path of a store may contain any bytes.
    """
    if isinstance(value, str) and name != "store" and not is_utf8_text(value):
        raise InvalidValue("is not UTF-8 text", code="not_utf8", place=place)


def _convert_value(value: Any, kind: Any, place: str, *, is_strict: bool = True) -> Any:
    """Convert a value to the type of its setting. Raises InvalidValue if it does not fit."""
    try:
        return msgspec.convert(value, kind, strict=is_strict)
    except msgspec.ValidationError as exc:
        fields = getattr(kind, "__struct_fields__", ())
        choices = tuple(getattr(kind, "__members__", {}).values())
        error = build_row_error(exc, place, fields=fields, choices=choices)
        code = "invalid_setting" if error.code == "invalid_value" else error.code
        raise InvalidValue(terminal_line(error.message), code=code, place=error.place) from None


@contextmanager
def _at_place(place: str) -> Generator[None]:
    """Set the place of an InvalidValue that is raised inside the `with` block."""
    try:
        yield
    except InvalidValue as exc:
        raise InvalidValue(exc.text_unless_at("rule"), code=exc.code, place=place) from None
