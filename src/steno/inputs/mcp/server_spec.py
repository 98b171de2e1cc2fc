"""Read the configuration of MCP servers from `.mcp.json` and from steno's own settings.

Values may refer to environment variables (`${NAME}`, `${NAME:-default}`), so that no file needs to
contain a secret. If a variable is not set, only the server that uses it is unusable, which is
reported when that server is needed. This module starts no server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, cast, final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import force_setattr

from steno.errors import InvalidValue
from steno.invisible import is_visible
from steno.json_object import as_json_object
from steno.suggest import closest_name
from steno.values import RedactedRepr, is_utf8_text

RESERVED_SERVER_NAME: Final = "steno"
"""A name that no server may have, because steno's own records use it."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET: Final = re.compile("token|key|secret|passw|authorization|cookie", re.IGNORECASE)
_MIN_SECRET_CHARACTERS: Final = 6
"""The minimum length of a secret to redact; shorter values may occur in ordinary words."""
_MAX_SECONDS: Final = 1e8
_TRANSPORT_KEYS: Final = {"stdio": "command", "http": "url", "streamable-http": "url"}
_MIN_SIMILARITY: Final = 0.8
"""The similarity from which an unknown key counts as a misspelling."""
_MAX_KEY_CHARACTERS: Final = 40
_COMMON_KEYS: Final = frozenset({"command", "args", "env", "cwd", "type", "url", "headers"})
_OWN_KEYS: Final = frozenset({"reads", "ttl_s", "start_timeout_s", "call_timeout_s", "disabled"})
_KNOWN_KEYS: Final = _COMMON_KEYS | _OWN_KEYS


@final
class McpServerSpec(RedactedRepr, frozen=True, kw_only=True):
    """The configuration of a server, with a program to start (`command`) or a `url`."""

    shown: ClassVar[frozenset[str]] = frozenset({"name", "origin", "problem"})

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Environment variables for the program, in addition to HOME, PATH and similar ones."""
    cwd: Path | None = None
    """The working directory of the program; None for the folder of the session."""
    url: str = ""
    headers: Mapping[str, str] = {}
    """Headers of every request to `url`."""
    reads: tuple[str, ...] = ()
    """Tools that the user declares read-only: names, or patterns with `*`."""
    ttl_s: Mapping[str, float] = {}
    """The default time that resources stay fresh, by MIME type (`text/*`) or `*`."""
    start_timeout_s: float = 30
    """The time limit for the first response, and for listing tools, resources and prompts."""
    call_timeout_s: float = 600
    """The time limit for any other request; reported progress does not extend it."""
    disabled: bool = False
    origin: str = ""
    """The file that configures the server."""
    problem: str = ""
    """The reason why the server cannot be used, and a solution; empty if it can be used."""
    is_trusted: bool = True
    """Whether the project of the server is trusted; if it is not, `problem` states that."""
    notice: str = ""
    """A notice for the user about the configuration."""
    secrets: tuple[str, ...] = ()
    """The values of expanded variables, for redaction.

    The default value of a variable is included only if the name of the variable looks like a
    secret.
    """

    def __post_init__(self) -> None:
        _check_name(self.name, "mcp server")
        for name in ("env", "headers", "ttl_s"):
            force_setattr(self, name, as_json_object(getattr(self, name)))

    @property
    def is_usable(self) -> bool:
        """Whether the server is enabled and has no problem."""
        return not self.disabled and not self.problem

    def redact_secrets(self, text: str) -> str:
        """Return a text with `***` in place of the secrets of this server."""
        for secret in sorted(set(self._secrets()), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> Iterator[str]:
        # Any variable may contain a secret: DATABASE_URL contains a password.
        secrets = [*self.secrets, *self.env.values()]
        secrets += [part for value in secrets for part in _secret_parts(value)]
        secrets += [part for value in self.headers.values() for part in (value, *value.split())]
        with suppress(ValueError):
            parts = urlsplit(self.url)
            secrets += [parts.username or "", parts.password or ""]
            secrets += [value for _, value in parse_qsl(parts.query)]
        yield from (secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARACTERS)


def _secret_parts(value: str) -> Iterator[str]:
    """Yield the parts of a value that may appear alone: each line, and the password of a URL."""
    yield from value.splitlines()
    with suppress(ValueError):
        password = urlsplit(value).password or ""
        yield from (password, unquote(password))


def read_server_specs(
    table: Mapping[str, Any],
    *,
    place: str,
    environ: Mapping[str, str],
    base: Path | None,
    is_strict: bool = False,
) -> dict[str, McpServerSpec]:
    """Read a table of servers: `mcpServers` of `.mcp.json`, or `mcp_servers` of the settings.

    `place` names the table in errors. A relative `cwd` is relative to `base`. Unknown keys are
    ignored unless `is_strict` is set, because other programs add their own keys to `.mcp.json`.
    Raises InvalidValue if the table or a server in it is invalid.
    """
    if not isinstance(table, Mapping):
        raise InvalidValue(
            "must be a table that maps names to servers", code="not_a_table", place=place
        )
    return {
        _check_name(name, place): _ServerSpecReader(f"{place}.{name}", members, environ).spec(
            name, origin=place, base=base, is_strict=is_strict
        )
        for name, members in table.items()
    }


def _check_name(name: object, place: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        message = "the name of a server must be 1 to 32 letters, digits, hyphens or underscores"
        raise InvalidValue(message, code="invalid_server_name", place=place)
    if name.lower() == RESERVED_SERVER_NAME:
        message = f"the server name {RESERVED_SERVER_NAME} is reserved; choose another"
        raise InvalidValue(message, code="reserved_server_name", place=place)
    return name


class _ServerSpecReader:
    """Reads the spec of one server, and collects the variables that are not set."""

    def __init__(self, place: str, members: object, environ: Mapping[str, str]) -> None:
        if not isinstance(members, Mapping):
            raise InvalidValue("must be a table", code="not_a_table", place=place)
        self._place = place
        self._members = cast("Mapping[str, Any]", members)
        self._environ = environ
        self._missing: list[str] = []
        self._secrets: list[str] = []

    def spec(self, name: str, *, origin: str, base: Path | None, is_strict: bool) -> McpServerSpec:
        """Return the spec of the server. Raises InvalidValue if a member is invalid."""
        if is_strict:
            self._check_keys()
        disabled = self._flag("disabled")
        # A disabled server needs neither a command nor a url.
        if not disabled or self._transport_keys():
            self._check_kind()
        command, url = self._text("command"), self._text("url")
        if not command and not url and not self._missing and not disabled:
            raise self._error("command", "is empty", code="empty_command")
        env, headers = self._texts_by_name("env"), self._texts_by_name("headers")
        self._check_headers(headers)
        if url and not self._missing:
            self._check_url(url)
        cwd = self._text("cwd")
        args = tuple(map(self._expand, self._texts("args")))
        missing = ", ".join(dict.fromkeys(self._missing))
        return McpServerSpec(
            name=name,
            command=command,
            args=args,
            env=env,
            cwd=(base or Path()) / self._expand_home(cwd) if cwd else None,
            url=url,
            headers=headers,
            reads=self._texts("reads"),
            ttl_s={
                self._checked("ttl_s", kind): self._seconds(f"ttl_s.{kind}", value, min_s=0)
                for kind, value in self._table("ttl_s").items()
            },
            start_timeout_s=self._duration("start_timeout_s", 30),
            call_timeout_s=self._duration("call_timeout_s", 600),
            disabled=disabled,
            origin=origin,
            problem=missing and f"needs the variable {missing}: set it in the environment",
            notice=self._build_notice(),
            secrets=tuple(self._secrets),
        )

    # -- rules -------------------------------------------------------------------------------

    def _expand_home(self, cwd: str) -> Path:
        try:
            return Path(cwd).expanduser()
        except RuntimeError:  # the user is unknown
            rule = "~ cannot be expanded, because the home folder is unknown; use another path"
            raise self._error("cwd", rule, code="home_unknown") from None

    def _check_keys(self) -> None:
        for key in self._members:
            if key not in _KNOWN_KEYS:
                hint = f"; did you mean {suggestion}?" if (suggestion := _similar_key(key)) else ""
                rule = f"is unknown; known keys: {', '.join(sorted(_KNOWN_KEYS))}{hint}"
                raise self._error(key, rule, code="field_unknown")

    def _transport_keys(self) -> list[str]:
        return [key for key in ("command", "url") if self._members.get(key) is not None]

    def _check_kind(self) -> None:
        transport_keys = self._transport_keys()
        if len(transport_keys) != 1:
            hint = "".join([f"; {suggestion}" for suggestion in self._misspelled_keys()])
            message = f"needs either a command or a url{hint}"
            raise InvalidValue(message, code="no_transport", place=self._place)
        kind = self._members.get("type")
        if kind is None:
            return
        if kind == "sse":
            rule = "sse is no longer part of the protocol; use http, which most servers support"
            raise self._error("type", rule, code="sse_unsupported")
        if not isinstance(kind, str) or kind not in _TRANSPORT_KEYS:
            rule = f"must be one of {', '.join(_TRANSPORT_KEYS)}"
            raise self._error("type", rule, code="unknown_transport")
        if _TRANSPORT_KEYS[kind] not in transport_keys:
            rule = f"{kind} requires a {_TRANSPORT_KEYS[kind]}"
            raise self._error("type", rule, code="transport_mismatch")

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            is_valid = False
        if not is_valid:
            raise self._error("url", "must be an http or https URL", code="invalid_url")

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            if _HEADER.fullmatch(name) is None or not value.isascii() or not value.isprintable():
                rule = "names must be valid HTTP header names, values printable ASCII characters"
                raise self._error("headers", rule, code="invalid_headers")

    def _misspelled_keys(self) -> list[str]:
        """Return a line for each unknown key that is similar to a known key."""
        return [
            f"{key}: did you mean {suggestion}?"
            for key in self._members
            if key not in _KNOWN_KEYS and (suggestion := _similar_key(key))
        ]

    def _build_notice(self) -> str:
        literal_secrets = [
            f"{key}.{name}"
            for key in ("env", "headers")
            for name, value in (self._members.get(key) or {}).items()
            if value and _SECRET.search(name) and "${" not in value
        ]
        notices = self._misspelled_keys()
        if literal_secrets:
            names = ", ".join(literal_secrets)
            notices.append(f"{names}: use a variable such as ${{NAME}} instead of the secret")
        return "; ".join(notices)

    # -- members -----------------------------------------------------------------------------

    def _error(self, key: str, rule: str, *, code: str) -> InvalidValue:
        return InvalidValue(rule, code=code, place=f"{self._place}.{key}")

    def _text(self, key: str) -> str:
        value = self._members.get(key)
        return "" if value is None else self._expand(self._checked(key, value))

    def _texts(self, key: str) -> tuple[str, ...]:
        values = self._members.get(key)
        if values is None:
            return ()
        if not isinstance(values, list | tuple):
            raise self._error(key, "must be a list of strings", code="not_a_list")
        return tuple([self._checked(key, value) for value in cast("list[object]", values)])

    def _texts_by_name(self, key: str) -> dict[str, str]:
        return {
            self._checked(key, name): self._expand(self._checked(f"{key}.{name}", value))
            for name, value in self._table(key).items()
        }

    def _duration(self, key: str, default: float) -> float:
        value = self._members.get(key)
        return default if value is None else self._seconds(key, value, min_s=0.001)

    def _flag(self, key: str) -> bool:
        value = self._members.get(key, False)
        if not isinstance(value, bool):
            raise self._error(key, "must be true or false", code="not_a_boolean")
        return value

    def _table(self, key: str) -> Mapping[object, object]:
        table = self._members.get(key)
        if table is not None and not isinstance(table, Mapping):
            raise self._error(key, "must be a table", code="not_a_table")
        return cast("Mapping[object, object]", table or {})

    def _checked(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not is_utf8_text(value) or "\0" in value:
            raise self._error(key, "must be a string without NUL characters", code="not_a_string")
        return value

    def _seconds(self, key: str, value: object, *, min_s: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(key, "must be a number of seconds", code="not_a_number")
        if not min_s <= value <= _MAX_SECONDS:
            rule = f"must be from {min_s:g} to {_MAX_SECONDS:g} seconds"
            raise self._error(key, rule, code="duration_out_of_range")
        return float(value)

    def _expand(self, text: str) -> str:
        def substitute(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            variable = self._environ.get(name)
            value = variable or default
            if value is None:
                self._missing.append(name)
                return ""
            if variable or _SECRET.search(name):
                self._secrets.append(value)
            return value

        return _VARIABLE.sub(substitute, text)


def _similar_key(key: object) -> str | None:
    """Return the key of `_COMMON_KEYS` that is most similar to a key; None if no key is similar."""
    if not isinstance(key, str) or not is_visible(key) or len(key) > _MAX_KEY_CHARACTERS:
        return None
    return closest_name(key, _COMMON_KEYS, cutoff=_MIN_SIMILARITY)


def matches_wildcard(pattern: str, text: str) -> bool:
    """Return whether a pattern with `*` matches a whole text, in linear time."""
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return pattern == text
    # Each piece matches at its first position, without backtracking.
    middle = "".join([f"(?>.*?{piece})" for piece in others[:-1]])
    return re.fullmatch(f"{first}{middle}.*{others[-1]}", text, re.DOTALL) is not None
