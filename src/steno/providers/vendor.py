"""The description of a vendor of models, and its API key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, final
from urllib.parse import urlsplit

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.messages.request import MAX_TEMPERATURE
from steno.suggest import closest_name
from steno.values import RedactedRepr
from steno.wire import Wire
from steno.wire.openai_chat import DIALECTS, Dialect

REDACTED: Final = "***"
"""The text that replaces a key."""
_MIN_KEY_LENGTH: Final = 4
"""The minimum length of a key to redact.

Shorter keys are not secret, and redacting them would garble the text.
"""
_VENDOR_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PATH: Final = re.compile(r"/[!$-;=?-z~]*")
"""Matches a path of visible ASCII characters that a URL may contain, without a fragment."""
_HEADER: Final = re.compile(r"[a-z0-9-]+")


def check_rule(is_met: bool, rule: str, place: str, *, code: str) -> None:
    """Raise InvalidValue with the rule as its message, unless the rule is met."""
    if not is_met:
        raise InvalidValue(rule, place=place, code=code)


def check_type(
    value: object, kind: type | tuple[type, ...], rule: str, place: str, *, advice: str = ""
) -> None:
    """Raise InvalidValue with the rule and the type of the value, unless the value is a `kind`."""
    rule = f"{rule}, not {type(value).__name__}{advice}"
    check_rule(isinstance(value, kind), rule, place, code="wrong_type")


class Auth(StrEnum):
    """The HTTP header in which a server expects the API key."""

    BEARER = "bearer"
    """`authorization: Bearer …`"""
    X_API_KEY = "x-api-key"
    X_GOOG_API_KEY = "x-goog-api-key"
    API_KEY = "api-key"
    NONE = "none"

    def header(self, key: str) -> dict[str, str]:
        """Return the header with a key; an empty dict without a key."""
        if self is Auth.NONE or not key:
            return {}
        return {"authorization": f"Bearer {key}"} if self is Auth.BEARER else {str(self): key}


@final
class Capabilities(RedactedRepr, frozen=True, kw_only=True):
    """The capabilities of a vendor or a model. None means unknown, or different between models.

    The capabilities of a vendor apply to every model about which nothing else is known. `thinking`
    of a vendor states whether its protocol can return thinking, not whether every model thinks.
    """

    tools: bool | None = None
    """Whether the model can call tools."""
    vision: bool | None = None
    """Whether the model accepts images."""
    thinking: bool | None = None
    """Whether responses contain thinking."""
    strict: bool | None = None
    """Whether the server can force arguments to match their schema."""


UNKNOWN_CAPABILITIES: Final = Capabilities()


@final
class Vendor(RedactedRepr, frozen=True, kw_only=True):
    """A server of models: its address, its wire, the variables for its key, and its limits."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"name", "title", "base_url", "path", "wire", "provider", "key_variables"}
    )

    name: str
    """The name to pass to `connect`."""
    wire: str | Wire
    """The protocol: the name of a wire, `package.module` of your own wire, or the module itself."""
    base_url: str
    """The address before all paths of the wire; empty if it differs for each customer."""
    path: str = ""
    """The path of requests after `base_url`; by default that of the wire, if it is built in."""
    title: str = ""
    provider: str = ""
    """The provider in seals, the same for every protocol of a vendor; by default `name`."""
    dialect: Dialect | None = None
    """The dialect of `openai_chat` that the vendor uses; by default that of `provider`."""
    auth: Auth = Auth.BEARER
    key_variables: tuple[str, ...] = ()
    """The environment variables for the key; the first that is set is used."""
    needs_key: bool = True
    needs_model: bool = False
    """Whether every request must name a model; a server with one model or a default needs none."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of every request."""
    capabilities: Capabilities = UNKNOWN_CAPABILITIES
    context_tokens: int | None = None
    """The context window, if it is the same for all models."""
    max_output_tokens: int | None = None
    """The maximum length of a response, if it is the same for all models.

    A higher limit in a request is lowered to this one. A request without a limit gets this one if
    the protocol requires a limit.
    """
    max_temperature: float | None = None
    """The highest temperature, if it is lower than that of the wire."""
    hint: str = ""
    """Advice for a local server that does not respond."""

    def __post_init__(self) -> None:
        """Raise InvalidValue if a field is invalid."""
        name: object = self.name
        rule = "name must consist of lower-case letters, digits, '.', '_' and '-'"
        is_name = isinstance(name, str) and _VENDOR_NAME.fullmatch(name) is not None
        check_rule(is_name, rule, "vendor", code="vendor_name_malformed")
        if self.base_url != "":
            check_base_url(self.base_url, self.name)
        rule = "must begin with / and contain only characters that a URL may contain"
        is_path = not self.path or _PATH.fullmatch(self.path) is not None
        check_rule(is_path, rule, f"{name}.path", code="path_malformed")
        check_type(self.key_variables, tuple, "must be a tuple of names", f"{name}.key_variables")
        rule = "names must be lower-case letters, digits and -, values printable ASCII characters"
        for header, value in self.headers:
            is_header = bool(_HEADER.fullmatch(header)) and value.isascii() and value.isprintable()
            check_rule(is_header, rule, f"{name}.headers", code="invalid_headers")
        for limit in ("context_tokens", "max_output_tokens"):
            tokens: int | None = getattr(self, limit)
            is_limit = tokens is None or tokens >= 1
            check_rule(is_limit, "must be above 0", f"{name}.{limit}", code="out_of_range")
        highest = self.max_temperature
        is_limit = highest is None or 0 < highest <= MAX_TEMPERATURE
        rule = f"must be above 0 and at most {MAX_TEMPERATURE}"
        check_rule(is_limit, rule, f"{name}.max_temperature", code="out_of_range")

    def needs_model_at(self, base_url: str) -> bool:
        """Return whether a request to the server at this address must name a model.

        The result is `needs_model` if this is the address of the vendor, or if the vendor has a
        different address for each customer. At any other address the result is False, because the
        server there may have only one model.
        """
        return self.needs_model and self.base_url in ("", base_url)

    @property
    def key_advice(self) -> str:
        """Advice for a missing or wrong key."""
        names = " or ".join(self.key_variables)
        return f"set {names}" if names else "pass it as key=..."

    @property
    def provider_name(self) -> str:
        """The provider in seals."""
        return self.provider or self.name

    @property
    def chat_dialect(self) -> Dialect:
        """The dialect of `openai_chat` for this vendor."""
        name = self.provider_name
        dialect = self.dialect or DIALECTS.get(name) or Dialect(provider=name)
        # Seals must name this vendor's provider, even if the dialect was made for another.
        return dialect if dialect.provider == name else replace(dialect, provider=name)


def describe_unknown_vendor(name: str, known: Iterable[str], remedy: str) -> str:
    """Return the text of the error for an unknown vendor, with the closest name or all names.

    `remedy` follows the list of all names. The text does not quote the unknown name.
    """
    names = list(known)
    near = closest_name(name, names)
    if near is not None:
        return f"unknown provider; did you mean {near}?"
    return f"unknown provider; use one of {', '.join(names)}; {remedy}"


def check_base_url(url: str, place: str) -> None:
    """Raise InvalidValue if a text is not the address of a server."""
    check_type(url, str, "must be a string", f"{place}.base_url")
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_bare = parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        is_usable = is_bare = False
    is_usable = is_usable and url.isascii() and url.isprintable() and " " not in url
    place = f"{place}.base_url"
    check_rule(
        is_usable, "must be an http:// or https:// URL with a host", place, code="invalid_url"
    )
    rule = "must not contain a user, password, query or fragment"
    check_rule(is_bare, rule, place, code="url_has_secrets")


# -- API keys --------------------------------------------------------------------------------------


@final
class ApiKey:
    """The API key of a vendor; may be empty. Its text appears in no repr, error or pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        """Create a key. Raises InvalidValue for text that a header cannot contain."""
        check_type(text, str, "must be a string", "key")
        stripped = text.strip()
        is_visible = stripped.isascii() and stripped.isprintable() and " " not in stripped
        rule = "must consist of visible ASCII characters without spaces"
        check_rule(is_visible, rule, "key", code="invalid_key")
        self._text = stripped

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Key({REDACTED})" if self._text else "Key()"

    def __reduce__(self) -> str:
        raise TypeError("an ApiKey cannot be pickled or copied")

    def reveal(self) -> str:
        """Return the text of the key, for the header of a request."""
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
    """Return the name of the first variable that contains a key of a vendor; empty if none does."""
    return next((name for name in vendor.key_variables if environ.get(name, "").strip()), "")
