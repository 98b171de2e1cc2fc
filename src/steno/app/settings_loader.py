"""Read the settings: the user's file, the project's, the environment and the command line.

Later ones win. What a project's file says that nobody trusts counts only as far as it is harmless;
the rest is named in the notes. Whatever is wrong is said with its place, and never passed over.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final, get_type_hints

import msgspec
from msgspec.structs import replace

from steno.agent.permissions.rules import PermissionRule
from steno.app.errors import UsageError, suggest_name
from steno.app.folders import SETTINGS_FILE, config_folder, find_project, home_folder
from steno.app.permissions import check_rule_tool
from steno.app.settings import (
    ALLOWED_UNTRUSTED,
    CUMULATIVE_NAMES,
    DEFAULTS,
    SCALAR_NAMES,
    SETTING_NAMES,
    ModelSettings,
    Settings,
    merge_setting,
    variable_name,
)
from steno.errors import InvalidValue, ToolFailed, Unavailable
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from steno.providers import Vendor, read_vendors
from steno.providers.vendor import Capabilities
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line
from steno.store.locate import read_address
from steno.tools.workspace import Workspace
from steno.values import replace_lone_surrogates

# -- in words --------------------------------------------------------------------------------------
#
# What msgspec says of a value that does not fit, in words of people who write a settings file.
#
# Only its words are known here, and no setting: whoever reads a value says where it stands.


_TYPE_NAMES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
    "datetime": "a time",
    "date": "a date",
    "time": "a time",
}


_OR_NULL: Final = " | null"


_BOUNDS: Final = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}


_REPLACEMENTS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(r"Expected `([^`]+)`, got `([^`]+)`"),
        lambda found: f"must be {_type_name(found[1])}, not {_type_name(found[2])}",
    ),
    (re.compile(r"Expected `str` of length >= 1"), lambda _: "must not be empty"),
    (
        re.compile(r"Expected `str` matching regex .*", re.DOTALL),
        lambda _: "must be letters, digits and _, and begin with no digit",
    ),
    (
        re.compile(r"Expected `[^`]+` (>=|<=|>|<) ([\d.]+)"),
        lambda found: f"must be {_BOUNDS[found[1]].format(found[2].removesuffix('.0'))}",
    ),
)


_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `([^`]*)`")


def explain_validation_error(rule: str, fields: Iterable[str] = ()) -> str:
    """Return what msgspec says in our words; `fields` are those that there could be."""
    for pattern, told in _REPLACEMENTS:
        rule = pattern.sub(told, rule)
    return _UNKNOWN_FIELD.sub(
        lambda found: (
            f"there is no field {terminal_line(found[1])}; {suggest_name(found[1], fields)}"
        ),
        rule,
    )


def _type_name(name: str) -> str:
    """Return what a type is called; that it may be missing is no use to anybody."""
    names = name.removesuffix(_OR_NULL).split(" | ")
    return " or ".join([_TYPE_NAMES.get(one, one) for one in names])


# -- project ---------------------------------------------------------------------------------------
#
# How files of a project and of the user are read.
#
# What lies in a project came with it, from whoever wrote it: a file there counts only if it is a
# plain one that really is in the project, and no larger than anybody would write by hand.


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


T = TypeVar("T")


_MAX_FILE_BYTES: Final = 262_144


_FILE_TYPES: Final = get_type_hints(Settings, include_extras=True) | dict.fromkeys(
    ("allow", "deny", "add_dirs", "trusted_projects"), tuple[str, ...]
)
"""What a setting looks like in a file."""


_FLAG_SPELLINGS: Final = {"add_dirs": "--add-dir"}
"""Options of another name than the setting, since they are given once for each."""


_USER_FILE_ONLY: Final = "only your own file may hold that"


_PROVIDER_FIELDS: Final = (
    "like",
    *[name for name in Vendor.__struct_fields__ if name not in ("name", "hint")],
    *Capabilities.__struct_fields__,
)
"""What may stand in the row of a provider."""


_PROVIDER_MARKERS: Final = frozenset({"like", "wire", "base_url"})
"""One of these is in every row."""


_BARE_KEY: Final = re.compile(r"[\w-]+", re.ASCII)


class LoadedSettings(NamedTuple):
    """The settings that count, and where they are from."""

    settings: Settings
    origins: Mapping[str, tuple[str, ...]]
    """For each setting that is not left at its default: files, variables and flags."""
    notes: tuple[str, ...]
    """What a person should know, such as what was ignored; to be told once."""
    project: Path
    project_file: Path
    user_file: Path | None
    """None where no home folder is known."""

    @property
    def trusts_project(self) -> bool:
        """Whether the user trusts what lies in the project."""
        return self.project in self.settings.trusted_projects


def load_settings(
    folder: Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    reads_strangers: bool = True,
) -> LoadedSettings:
    """Return the settings for work in a folder, which is the current one unless given.

    `flags` are settings by their names as the command line has them; what is None or empty was
    not given. The files need not be there; that of a project that nobody trusts may be left
    alone. Raises InvalidValue with the place of what is wrong, Misused if that is a flag.
    """
    folder = (folder or Path.cwd()).resolve()
    environ = os.environ if environ is None else environ
    own, project = config_folder(environ), find_project(folder)
    user_file = None if own is None else own / SETTINGS_FILE
    project_file = project / ".steno" / SETTINGS_FILE
    gathered = _SettingsBuilder(environ)
    if user_file is not None:
        gathered.add_file(user_file)
    trusted = project in gathered.settings.trusted_projects
    ignored: list[str] = []
    if trusted or reads_strangers:
        ignored = gathered.add_file(project_file, project=project, trusted=trusted)
    if ignored:
        names, way_out = ", ".join(ignored), describe_how_to_trust(project, user_file)
        gathered.notes.append(
            f"{project_file}: project settings ignored: {names}; "
            f"{_USER_FILE_ONLY if trusted else way_out}"
        )
    for name in SCALAR_NAMES:
        if value := environ.get(variable_name(name)):
            gathered.add_value(name, value, variable_name(name))
    for name, value in (flags or {}).items():
        if value not in (None, (), []):
            _add_flag(gathered, name, value, folder)
    notes = tuple(gathered.notes)
    return LoadedSettings(
        gathered.settings, gathered.origins, notes, project, project_file, user_file
    )


def _add_flag(gathered: _SettingsBuilder, name: str, value: Any, folder: Path) -> None:
    flag = _FLAG_SPELLINGS.get(name, f"--{name.replace('_', '-')}")
    try:
        gathered.add_value(_check_setting_name(name, flag), value, flag, base=folder)
    except InvalidValue as exc:
        raise UsageError(str(exc)) from None


def describe_how_to_trust(project: Path, user_file: Path | None) -> str:
    """Return what to do for a project to count in full."""
    quoted = msgspec.json.encode(replace_lone_surrogates(str(project))).decode()
    place = user_file or "a configuration file of yours"
    return f"if you trust this project, put trusted_projects = [{quoted}] into {place}"


# -- layers ----------------------------------------------------------------------------------


@final
class _SettingsBuilder:
    """What was set so far, and by whom."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.settings = DEFAULTS
        self.origins: dict[str, tuple[str, ...]] = {}
        self.notes: list[str] = []
        self._environ = environ
        self._home = home_folder(environ)

    def add_file(
        self, path: Path, *, project: Path | None = None, trusted: bool = True
    ) -> list[str]:
        """Take what a file says, and return the names of the settings that do not count."""
        ignored: list[str] = []
        for key, value in _read_toml(path, inside=project).items():
            place = f"{path}: {terminal_line(key)}"
            _check_misplaced_provider(key, value, place)
            name = _check_setting_name(key, place)
            if not (trusted or name in ALLOWED_UNTRUSTED) or (
                project and name == "trusted_projects"
            ):
                ignored.append(name)  # it is not even looked at
                continue
            new, old = self._read(name, value, place, base=project), getattr(self.settings, name)
            if name == "allow":
                self._note_unknown_tools(new, place)
            if trusted or (project and ALLOWED_UNTRUSTED[name](new, old, project)):
                self._set(name, new, replace_lone_surrogates(str(path)))
            else:
                ignored.append(name)
        return ignored

    def add_value(self, name: str, value: Any, origin: str, *, base: Path | None = None) -> None:
        """Take one setting from a variable or a flag, where a number may be a text."""
        new = self._read(name, value, origin, base=base, is_strict=False)
        if name == "allow":
            for number, rule in enumerate(new):
                with _prefix_errors(f"{origin}[{number}]: "):
                    check_rule_tool(rule)
        self._set(name, new, origin)

    def _note_unknown_tools(self, rules: Iterable[PermissionRule], place: str) -> None:
        """Tell of rules that allow nothing: a file may be older, or newer, than this program."""
        for number, rule in enumerate(rules):
            try:
                check_rule_tool(rule)
            except InvalidValue as exc:
                self.notes.append(f"{place}[{number}]: {exc}")

    def _set(self, name: str, new: Any, origin: str) -> None:
        both = merge_setting(name, getattr(self.settings, name), new)
        self.settings = replace(self.settings, **{name: both})
        before = self.origins.get(name, ()) if name in CUMULATIVE_NAMES else ()
        self.origins[name] = (*before, origin)

    def _read(
        self, name: str, value: Any, place: str, *, base: Path | None, is_strict: bool = True
    ) -> Any:
        """Return a setting as `Settings` has it; paths are relative to `base`."""
        match name:
            case "providers":
                table = _convert_value(value, dict[str, Any], place)
                with _prefix_errors(f"{place}.", fields=_PROVIDER_FIELDS):
                    return read_vendors(table, known=self.settings.providers)
            case "models":
                rows = _convert_value(value, dict[str, Any], place)
                return {
                    key: _convert_value(row, ModelSettings, f"{place}.{terminal_line(key)}")
                    for key, row in rows.items()
                }
            case "mcp_servers":
                return self._servers(_convert_value(value, dict[str, Any], place), place, base)
            case "allow":
                return self._parse_each(name, value, place, PermissionRule.parse)
            case "deny":  # one that denies nothing would leave somebody in false safety
                return self._parse_each(name, value, place, _parse_deny_rule)
            case "add_dirs" | "trusted_projects":
                return self._parse_each(name, value, place, lambda text: self._path(text, base))
            case _:
                converted = _convert_value(value, _FILE_TYPES[name], place, is_strict=is_strict)
                if name == "store":
                    _check_store_address(converted, place)
                return converted

    def _servers(
        self, table: dict[str, Any], place: str, base: Path | None
    ) -> dict[str, McpServerSpec]:
        """Read servers; a project does not replace one that the user has named."""
        known = self.settings.mcp_servers
        origin = replace_lone_surrogates(place.rpartition(": ")[0])
        specs = read_server_specs(
            table, place=place, environ=self._environ, base=base, is_strict=True
        )
        for name in specs.keys() & known.keys():
            counts = known[name].origin
            self.notes.append(f"{place}.{name}: this server is not used; that of {counts} counts")
        return {
            name: replace(spec, origin=origin) for name, spec in specs.items() if name not in known
        }

    def _parse_each(
        self, name: str, value: Any, place: str, parse: Callable[[str], T]
    ) -> tuple[T, ...]:
        texts: tuple[str, ...] = _convert_value(value, _FILE_TYPES[name], place)
        parsed: list[T] = []
        for number, text in enumerate(texts):
            with _prefix_errors(f"{place}[{number}]: "):
                parsed.append(parse(text))
        return tuple(parsed)

    def _path(self, text: str, base: Path | None) -> Path:
        path = Path(text)
        if path.parts[:1] == ("~",) and self._home is not None:
            path = self._home.joinpath(*path.parts[1:])
        if base is not None:
            path = base / path
        if not path.is_absolute():
            raise InvalidValue("must be an absolute path, or begin with ~/")
        try:
            return path.resolve()
        except (OSError, RuntimeError, ValueError):
            raise InvalidValue("must be the path of a folder") from None


# -- files and values ------------------------------------------------------------------------


def _read_toml(path: Path, *, inside: Path | None) -> dict[str, Any]:
    """Return what a file says; nothing if there is none."""
    data = read_plain_file(path, inside=inside, most_bytes=_MAX_FILE_BYTES)
    if data is None:
        return {}
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidValue(f"{path}: must not be larger than {_MAX_FILE_BYTES:,} bytes")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise InvalidValue(f"{path}: is not UTF-8 (at line {line})") from None
    except tomllib.TOMLDecodeError as exc:
        raise InvalidValue(f"{path}: is not TOML: {exc}") from None
    except (RecursionError, ValueError):  # Python has no more to say about either
        raise InvalidValue(
            f"{path}: is nested too deeply, or has a number that is too long"
        ) from None


def _check_setting_name(key: str, place: str) -> str:
    """Return the name of a setting. Raises InvalidValue if it is none."""
    if key in SETTING_NAMES:
        return key
    raise InvalidValue(f"{place}: there is no such setting; {suggest_name(key, SETTING_NAMES)}")


def _check_misplaced_provider(key: str, value: object, place: str) -> None:
    """Refuse the row of a provider that stands alone. Raises InvalidValue with where it belongs."""
    if key in SETTING_NAMES or not isinstance(value, dict) or _PROVIDER_MARKERS.isdisjoint(value):
        return
    name = key if _BARE_KEY.fullmatch(key) else msgspec.json.encode(terminal_line(key)).decode()
    raise InvalidValue(f"{place}: there is no such setting; write [providers.{name}]")


def _parse_deny_rule(text: str) -> PermissionRule:
    rule = PermissionRule.parse(text)
    check_rule_tool(rule)
    return rule


def _convert_value(value: Any, kind: Any, place: str, *, is_strict: bool = True) -> Any:
    """Return a value of a file as the type that it should have. Raises InvalidValue."""
    try:
        return msgspec.convert(value, kind, strict=is_strict)
    except msgspec.ValidationError as exc:
        rule, _, inner = str(exc).partition(" - at `$")
        if rule.startswith("Invalid enum value"):
            rule = f"must be {' or '.join(kind)}"
        told = explain_validation_error(rule, getattr(kind, "__struct_fields__", ()))
        raise InvalidValue(f"{place}{inner.removesuffix('`')}: {told}") from None


def _check_store_address(text: str, place: str) -> None:
    try:
        read_address(text)
    except InvalidValue as exc:
        raise InvalidValue(f"{place}: {str(exc).removeprefix('store: ')}") from None


@contextmanager
def _prefix_errors(place: str, *, fields: Iterable[str] = ()) -> Generator[None]:
    """Say where it is that something is wrong, and in our words."""
    try:
        yield
    except InvalidValue as exc:
        raise InvalidValue(f"{place}{explain_validation_error(str(exc), fields)}") from None


# -- looking ---------------------------------------------------------------------------------------
#
# Settings for commands that only look at what is kept: a stranger's slip must not stop them.


def load_settings_leniently() -> LoadedSettings:
    """Return the settings; what is wrong in a project that nobody trusts is told, and left aside.

    Such a project has no say in where things are kept anyway. Raises InvalidValue for what is
    wrong in a file of the user's own, or of a project that is trusted.
    """
    try:
        return load_settings()
    except InvalidValue as exc:
        loaded = load_settings(reads_strangers=False)
        print_notice(f"{terminal_line(str(exc))}; nothing in this file counts here")
        return loaded
