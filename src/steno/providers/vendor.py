"""A vendor of models: a row of facts without code of its own, and the API key that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, final
from urllib.parse import urlsplit

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.suggest import closest_name
from steno.values import RedactedRepr
from steno.wire import Wire
from steno.wire.openai_chat import DIALECTS, Dialect

REDACTED: Final = "***"
"""Stands for a key wherever text is shown."""
_MIN_KEY_LENGTH: Final = 4
"""Fewer characters are no secret, and replacing them would only garble the text."""
_VENDOR_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PATH: Final = re.compile(r"/[!$-;=?-z~]*")
"""Visible ASCII as URLs have it, and no fragment."""
_HEADER: Final = re.compile(r"[a-z0-9-]+")


def check_rule(is_kept: bool, rule: str, place: str, *, code: str) -> None:
    """Raise InvalidValue, with the rule, unless it is kept."""
    if not is_kept:
        raise InvalidValue(rule, place=place, code=code)


def check_type(
    value: object, kind: type | tuple[type, ...], rule: str, place: str, *, advice: str = ""
) -> None:
    """Refuse a value of another type, with the rule. Raises InvalidValue."""
    rule = f"{rule}, not {type(value).__name__}{advice}"
    check_rule(isinstance(value, kind), rule, place, code="wrong_type")


class Auth(StrEnum):
    """The header in which a server expects the key."""

    BEARER = "bearer"
    """`authorization: Bearer …`"""
    X_API_KEY = "x-api-key"
    X_GOOG_API_KEY = "x-goog-api-key"
    API_KEY = "api-key"
    NONE = "none"

    def header(self, key: str) -> dict[str, str]:
        """Return the header that carries a key; none where there is no key."""
        if self is Auth.NONE or not key:
            return {}
        return {"authorization": f"Bearer {key}"} if self is Auth.BEARER else {str(self): key}


@final
class Capabilities(RedactedRepr, frozen=True, kw_only=True):
    """The capabilities of a vendor or a model. None: it depends, or is not known.

    A vendor's row counts for every model of which nothing else is known; only `thinking` is about
    the protocol as the vendor serves it, whichever of its models think.
    """

    tools: bool | None = None
    """Whether tools can be offered."""
    vision: bool | None = None
    """Whether it takes images."""
    thinking: bool | None = None
    """Whether responses hold thinking."""
    strict: bool | None = None
    """Whether arguments can be forced to fit their schema."""


UNKNOWN_CAPABILITIES: Final = Capabilities()


@final
class Vendor(RedactedRepr, frozen=True, kw_only=True):
    """A server of models: its address, its wire and its key."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"name", "title", "base_url", "path", "wire", "provider", "key_variables"}
    )

    name: str
    """The name for programs: `connect(name)`."""
    wire: str | Wire
    """The protocol: the name of a wire, `package.module` of one of yours, or the module itself."""
    base_url: str
    """The address before all paths of the wire; empty where each customer has another one."""
    path: str = ""
    """The path of requests, after `base_url`; by default that of the wire, if it is one of ours."""
    title: str = ""
    provider: str = ""
    """The origin of seals; the same name under every protocol."""
    dialect: Dialect | None = None
    """The differences of its `openai_chat`; by default those of `provider`."""
    auth: Auth = Auth.BEARER
    key_variables: tuple[str, ...] = ()
    """Environment variables for the key; the first that is set counts."""
    needs_key: bool = True
    needs_model: bool = False
    """Whether every request has to name a model; a server with one model or a default does not."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of every request."""
    capabilities: Capabilities = UNKNOWN_CAPABILITIES
    context_tokens: int | None = None
    """The context window, where it is the same for all models."""
    max_output_tokens: int | None = None
    """The longest response, where it is the same for all models.

    A request with a higher limit gets this one; so does a request without a limit, where the
    protocol requires one.
    """
    hint: str = ""
    """Advice where its address does not respond, for servers of the user."""

    def __post_init__(self) -> None:
        """Refuse rows that cannot work. Raises InvalidValue."""
        name: object = self.name
        rule = "name must be small letters, digits and any of . _ -"
        is_name = isinstance(name, str) and _VENDOR_NAME.fullmatch(name) is not None
        check_rule(is_name, rule, "vendor", code="vendor_name_malformed")
        if self.base_url != "":
            check_base_url(self.base_url, self.name)
        rule = "must begin with / and be written as in a URL"
        is_path = not self.path or _PATH.fullmatch(self.path) is not None
        check_rule(is_path, rule, f"{name}.path", code="path_malformed")
        check_type(self.key_variables, tuple, "must be a tuple of names", f"{name}.key_variables")
        rule = "not what a header can carry"
        for header, value in self.headers:
            is_header = bool(_HEADER.fullmatch(header)) and value.isascii() and value.isprintable()
            check_rule(is_header, rule, f"{name}.headers", code="invalid_headers")
        for limit in ("context_tokens", "max_output_tokens"):
            tokens: int | None = getattr(self, limit)
            is_limit = tokens is None or tokens >= 1
            check_rule(is_limit, "must be above 0", f"{name}.{limit}", code="out_of_range")

    def needs_model_at(self, base_url: str) -> bool:
        """Return whether a request has to name a model at another address of this protocol.

        A server there may have one model, unless each customer has another address anyway.
        """
        return self.needs_model and self.base_url in ("", base_url)

    @property
    def key_advice(self) -> str:
        """Advice where the key is missing or wrong."""
        names = " or ".join(self.key_variables)
        return f"set {names}" if names else "pass one as key"

    @property
    def provider_name(self) -> str:
        """The origin of seals."""
        return self.provider or self.name

    @property
    def chat_dialect(self) -> Dialect:
        """The dialect of `openai_chat` for this vendor."""
        name = self.provider_name
        dialect = self.dialect or DIALECTS.get(name) or Dialect(provider=name)
        # A seal belongs to its provider, whatever the dialect.
        return dialect if dialect.provider == name else replace(dialect, provider=name)


def describe_unknown_vendor(name: str, known: Iterable[str], remedy: str) -> str:
    """Return an explanation for an unknown vendor: the closest name, or all names and a remedy.

    The unknown name is not part of it: the caller knows where it was written.
    """
    names = list(known)
    near = closest_name(name, names)
    if near is not None:
        return f"there is no vendor of this name; do you mean {near}?"
    return f"there is no vendor of this name; there are {', '.join(names)}; {remedy}"


def check_base_url(url: str, place: str) -> None:
    """Refuse text that is not the address of a server. Raises InvalidValue."""
    check_type(url, str, "must be a string", f"{place}.base_url")
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_bare = parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        is_usable = is_bare = False
    is_usable = is_usable and url.isascii() and url.isprintable() and " " not in url
    place = f"{place}.base_url"
    check_rule(is_usable, "must be http:// or https:// with a host", place, code="invalid_url")
    rule = "must hold no user, password, query or fragment"
    check_rule(is_bare, rule, place, code="url_has_secrets")


# -- API keys --------------------------------------------------------------------------------------


@final
class ApiKey:
    """The key of a vendor, which only the request that needs it can read; it may be empty."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        """Take the key. Raises InvalidValue for text that no header can carry."""
        check_type(text, str, "must be a string", "key")
        stripped = text.strip()
        is_visible = stripped.isascii() and stripped.isprintable() and " " not in stripped
        rule = "must be visible ASCII characters without blanks"
        check_rule(is_visible, rule, "key", code="invalid_key")
        self._text = stripped

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Key({REDACTED})" if self._text else "Key()"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")

    def reveal(self) -> str:
        """Return the key itself, for the header that carries it."""
        return self._text

    def redact(self, text: str) -> str:
        """Return `text` with the key replaced everywhere."""
        return text.replace(self._text, REDACTED) if len(self._text) >= _MIN_KEY_LENGTH else text

    def redact_error(self, error: BaseException) -> None:
        """Replace the key in the text of an error and of its causes."""
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            found = waiting.pop()
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            waiting += [found.__cause__, found.__context__]
            found.args = tuple([self._redact_value(part) for part in found.args])
            for name, value in vars(found).items():
                if isinstance(value, (str, list)):
                    setattr(found, name, self._redact_value(value))

    def _redact_value(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.redact(part)
        return [self._redact_value(each) for each in part] if type(part) is list else part


def find_key_variable(vendor: Vendor, environ: Mapping[str, str]) -> str:
    """Return the first variable that holds a key of a vendor; empty if none does."""
    return next((name for name in vendor.key_variables if environ.get(name, "").strip()), "")
