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

from steno.agent.rules import Rule
from steno.cli.commands import Misused
from steno.cli.folders import SETTINGS_FILE, config_folder, find_project, home_folder
from steno.cli.in_words import in_words
from steno.cli.nearest import advice
from steno.cli.project import read_plain_file
from steno.cli.settings import (
    ADD_UP,
    DEFAULTS,
    HARMLESS,
    NAMES,
    SCALARS,
    ModelSettings,
    Settings,
    joined,
    variable_of,
)
from steno.cli.tool_names import check_tool
from steno.errors import InvalidValue
from steno.inputs.mcp.specs import ServerSpec, read_specs
from steno.printable import on_one_line
from steno.providers import Vendor, read_vendors
from steno.providers.vendor import Capabilities
from steno.store.locate import read_address
from steno.value import replace_lone_surrogates

T = TypeVar("T")

_MOST_BYTES: Final = 262_144
_TYPES: Final = get_type_hints(Settings, include_extras=True) | dict.fromkeys(
    ("allow", "deny", "add_dirs", "trusted_projects"), tuple[str, ...]
)
"""What a setting looks like in a file."""
_FLAGS: Final = {"add_dirs": "--add-dir"}
"""Options of another name than the setting, since they are given once for each."""
_OWN_ALONE: Final = "only your own file may hold that"
_FIELDS: Final = (
    "like",
    *[name for name in Vendor.__struct_fields__ if name not in ("name", "hint")],
    *Capabilities.__struct_fields__,
)
"""What may stand in the row of a provider."""
_ROW_MARKS: Final = frozenset({"like", "wire", "base_url"})
"""One of these is in every row."""
_BARE_KEY: Final = re.compile(r"[\w-]+", re.ASCII)


class Loaded(NamedTuple):
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
) -> Loaded:
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
    gathered = _Gathered(environ)
    if user_file is not None:
        gathered.add_file(user_file)
    trusted = project in gathered.settings.trusted_projects
    ignored: list[str] = []
    if trusted or reads_strangers:
        ignored = gathered.add_file(project_file, project=project, trusted=trusted)
    if ignored:
        names, way_out = ", ".join(ignored), how_to_trust(project, user_file)
        gathered.notes.append(
            f"{project_file}: project settings ignored: {names}; "
            f"{_OWN_ALONE if trusted else way_out}"
        )
    for name in SCALARS:
        if value := environ.get(variable_of(name)):
            gathered.add_value(name, value, variable_of(name))
    for name, value in (flags or {}).items():
        if value not in (None, (), []):
            _take_flag(gathered, name, value, folder)
    notes = tuple(gathered.notes)
    return Loaded(gathered.settings, gathered.origins, notes, project, project_file, user_file)


def _take_flag(gathered: _Gathered, name: str, value: Any, folder: Path) -> None:
    flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
    try:
        gathered.add_value(_known(name, flag), value, flag, base=folder)
    except InvalidValue as exc:
        raise Misused(str(exc)) from None


def how_to_trust(project: Path, user_file: Path | None) -> str:
    """Return what to do for a project to count in full."""
    quoted = msgspec.json.encode(replace_lone_surrogates(str(project))).decode()
    place = user_file or "a configuration file of yours"
    return f"if you trust this project, put trusted_projects = [{quoted}] into {place}"


# -- layers ----------------------------------------------------------------------------------


@final
class _Gathered:
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
        for key, value in _table(path, inside=project).items():
            place = f"{path}: {on_one_line(key)}"
            _check_misplaced(key, value, place)
            name = _known(key, place)
            if not (trusted or name in HARMLESS) or (project and name == "trusted_projects"):
                ignored.append(name)  # it is not even looked at
                continue
            new, old = self._read(name, value, place, base=project), getattr(self.settings, name)
            if name == "allow":
                self._note_unknown_tools(new, place)
            if trusted or (project and HARMLESS[name](new, old, project)):
                self._set(name, new, replace_lone_surrogates(str(path)))
            else:
                ignored.append(name)
        return ignored

    def add_value(self, name: str, value: Any, origin: str, *, base: Path | None = None) -> None:
        """Take one setting from a variable or a flag, where a number may be a text."""
        new = self._read(name, value, origin, base=base, is_strict=False)
        if name == "allow":
            for number, rule in enumerate(new):
                with _at(f"{origin}[{number}]: "):
                    check_tool(rule)
        self._set(name, new, origin)

    def _note_unknown_tools(self, rules: Iterable[Rule], place: str) -> None:
        """Tell of rules that allow nothing: a file may be older, or newer, than this program."""
        for number, rule in enumerate(rules):
            try:
                check_tool(rule)
            except InvalidValue as exc:
                self.notes.append(f"{place}[{number}]: {exc}")

    def _set(self, name: str, new: Any, origin: str) -> None:
        both = joined(name, getattr(self.settings, name), new)
        self.settings = replace(self.settings, **{name: both})
        before = self.origins.get(name, ()) if name in ADD_UP else ()
        self.origins[name] = (*before, origin)

    def _read(
        self, name: str, value: Any, place: str, *, base: Path | None, is_strict: bool = True
    ) -> Any:
        """Return a setting as `Settings` has it; paths are relative to `base`."""
        match name:
            case "providers":
                table = _convert(value, dict[str, Any], place)
                with _at(f"{place}.", fields=_FIELDS):
                    return read_vendors(table, known=self.settings.providers)
            case "models":
                rows = _convert(value, dict[str, Any], place)
                return {
                    key: _convert(row, ModelSettings, f"{place}.{on_one_line(key)}")
                    for key, row in rows.items()
                }
            case "mcp_servers":
                return self._servers(_convert(value, dict[str, Any], place), place, base)
            case "allow":
                return self._parse_each(name, value, place, Rule.parse)
            case "deny":  # one that denies nothing would leave somebody in false safety
                return self._parse_each(name, value, place, _denying)
            case "add_dirs" | "trusted_projects":
                return self._parse_each(name, value, place, lambda text: self._path(text, base))
            case _:
                converted = _convert(value, _TYPES[name], place, is_strict=is_strict)
                if name == "store":
                    _check_address(converted, place)
                return converted

    def _servers(
        self, table: dict[str, Any], place: str, base: Path | None
    ) -> dict[str, ServerSpec]:
        """Read servers; a project does not replace one that the user has named."""
        known = self.settings.mcp_servers
        origin = replace_lone_surrogates(place.rpartition(": ")[0])
        specs = read_specs(table, place=place, environ=self._environ, base=base, is_strict=True)
        for name in specs.keys() & known.keys():
            counts = known[name].origin
            self.notes.append(f"{place}.{name}: this server is not used; that of {counts} counts")
        return {
            name: replace(spec, origin=origin) for name, spec in specs.items() if name not in known
        }

    def _parse_each(self, name: str, value: Any, place: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        texts: tuple[str, ...] = _convert(value, _TYPES[name], place)
        parsed: list[T] = []
        for number, text in enumerate(texts):
            with _at(f"{place}[{number}]: "):
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


def _table(path: Path, *, inside: Path | None) -> dict[str, Any]:
    """Return what a file says; nothing if there is none."""
    data = read_plain_file(path, inside=inside, most_bytes=_MOST_BYTES)
    if data is None:
        return {}
    if len(data) > _MOST_BYTES:
        raise InvalidValue(f"{path}: must not be larger than {_MOST_BYTES:,} bytes")
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


def _known(key: str, place: str) -> str:
    """Return the name of a setting. Raises InvalidValue if it is none."""
    if key in NAMES:
        return key
    raise InvalidValue(f"{place}: there is no such setting; {advice(key, NAMES)}")


def _check_misplaced(key: str, value: object, place: str) -> None:
    """Refuse the row of a provider that stands alone. Raises InvalidValue with where it belongs."""
    if key in NAMES or not isinstance(value, dict) or _ROW_MARKS.isdisjoint(value):
        return
    name = key if _BARE_KEY.fullmatch(key) else msgspec.json.encode(on_one_line(key)).decode()
    raise InvalidValue(f"{place}: there is no such setting; write [providers.{name}]")


def _denying(text: str) -> Rule:
    rule = Rule.parse(text)
    check_tool(rule)
    return rule


def _convert(value: Any, kind: Any, place: str, *, is_strict: bool = True) -> Any:
    """Return a value of a file as the type that it should have. Raises InvalidValue."""
    try:
        return msgspec.convert(value, kind, strict=is_strict)
    except msgspec.ValidationError as exc:
        rule, _, inner = str(exc).partition(" - at `$")
        if rule.startswith("Invalid enum value"):
            rule = f"must be {' or '.join(kind)}"
        told = in_words(rule, getattr(kind, "__struct_fields__", ()))
        raise InvalidValue(f"{place}{inner.removesuffix('`')}: {told}") from None


def _check_address(text: str, place: str) -> None:
    try:
        read_address(text)
    except InvalidValue as exc:
        raise InvalidValue(f"{place}: {str(exc).removeprefix('store: ')}") from None


@contextmanager
def _at(place: str, *, fields: Iterable[str] = ()) -> Generator[None]:
    """Say where it is that something is wrong, and in our words."""
    try:
        yield
    except InvalidValue as exc:
        raise InvalidValue(f"{place}{in_words(str(exc), fields)}") from None
