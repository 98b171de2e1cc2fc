"""What there is to know about a vendor: a row of facts, and no code of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import ClassVar, Final, final
from urllib.parse import urlsplit

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.values import RedactedRepr
from steno.wire import Wire
from steno.wire.openai_chat import DIALECTS, Dialect

_VENDOR_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PATH: Final = re.compile(r"/[!$-;=?-z~]*")
"""Visible ASCII as URLs have it, and no fragment."""
_HEADER: Final = re.compile(r"[a-z0-9-]+")


class Auth(StrEnum):
    """How a key is shown to a server."""

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
    """What can be asked of a vendor or a model. None: it depends, or nobody said.

    What a vendor's row says counts for every model that nothing else is known of; only `thinking`
    is about the protocol as the vendor serves it, whichever of its models think.
    """

    tools: bool | None = None
    """Whether functions can be offered."""
    vision: bool | None = None
    """Whether images are seen."""
    thinking: bool | None = None
    """Whether thoughts are handed out, beside the answer."""
    strict: bool | None = None
    """Whether arguments can be made to fit their schema."""


UNKNOWN_CAPABILITIES: Final = Capabilities()


@final
class Vendor(RedactedRepr, frozen=True, kw_only=True):
    """Somebody who serves models: where, in which words, and what for a key."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"name", "title", "base_url", "path", "wire", "provider", "key_variables"}
    )

    name: str
    """What a program calls it: `connect(name)`."""
    wire: str | Wire
    """The protocol: the name of a wire, `package.module` of one of yours, or the module itself."""
    base_url: str
    """What all paths of the wire are behind; empty where everybody has one of their own."""
    path: str = ""
    """Where requests go, behind `base_url`; the usual one unless given, if the wire is one of ours."""
    title: str = ""
    provider: str = ""
    """Who makes the seals and gets them back; the same name under every protocol."""
    dialect: Dialect | None = None
    """How its `openai_chat` differs; that of `provider` unless given."""
    auth: Auth = Auth.BEARER
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first that does counts."""
    needs_key: bool = True
    needs_model: bool = False
    """Whether every request has to name a model; a server with but one, or a default, asks none."""
    headers: tuple[tuple[str, str], ...] = ()
    """What else is sent along with every request."""
    capabilities: Capabilities = UNKNOWN_CAPABILITIES
    context_tokens: int | None = None
    """How much its models read at once, where that is the same for all of them."""
    max_output_tokens: int | None = None
    """How much they say at once, where that is the same for all of them.

    A request that asks for more asks for this instead; so does one that names no limit, where
    the protocol wants one.
    """
    hint: str = ""
    """What to do where nobody answers at its address, as for a server of one's own."""

    def __post_init__(self) -> None:
        """Refuse rows that cannot work. Raises InvalidValue."""
        name: object = self.name
        if not (isinstance(name, str) and _VENDOR_NAME.fullmatch(name)):
            raise InvalidValue(
                "name must be small letters, digits and any of . _ -",
                code="vendor_name_malformed",
                place="vendor",
            )
        if self.base_url != "":
            check_base_url(self.base_url, self.name)
        if self.path and not _PATH.fullmatch(self.path):
            raise InvalidValue(
                "must begin with / and be written as in a URL",
                code="path_malformed",
                place=f"{self.name}.path",
            )
        if not isinstance(self.key_variables, tuple):
            kind = type(self.key_variables).__name__
            raise InvalidValue(
                f"must be a tuple of names, not {kind}",
                code="wrong_type",
                place=f"{self.name}.key_variables",
            )
        for header, value in self.headers:
            if not _HEADER.fullmatch(header) or not (value.isascii() and value.isprintable()):
                raise InvalidValue(
                    "not what a header can carry",
                    code="header_malformed",
                    place=f"{self.name}.headers",
                )
        for limit in ("context_tokens", "max_output_tokens"):
            tokens: int | None = getattr(self, limit)
            if tokens is not None and tokens < 1:
                raise InvalidValue(
                    "must be above 0", code="out_of_range", place=f"{self.name}.{limit}"
                )

    def needs_model_at(self, base_url: str) -> bool:
        """Tell whether a request has to name a model at another address of this protocol.

        Who answers there may be a server with one model, unless everybody has an own address.
        """
        return self.needs_model and self.base_url in ("", base_url)

    @property
    def key_advice(self) -> str:
        """What to do where a key is missing or wrong."""
        names = " or ".join(self.key_variables)
        return f"set {names}" if names else "pass one as key"

    @property
    def provider_name(self) -> str:
        """Who makes the seals."""
        return self.provider or self.name

    @property
    def chat_dialect(self) -> Dialect:
        """How to speak `openai_chat` with this vendor."""
        dialect = (
            self.dialect or DIALECTS.get(self.provider_name) or Dialect(provider=self.provider_name)
        )
        # Seals are for whom they are made by, whoever's dialect is spoken.
        return (
            dialect
            if dialect.provider == self.provider_name
            else replace(dialect, provider=self.provider_name)
        )


def suggest_vendor(name: str, known: Iterable[str]) -> str | None:
    """Return the name of a vendor that is most like another; None if none is."""
    return next(iter(get_close_matches(name.lower(), list(known), n=1)), None)


def describe_unknown_vendor(name: str, known: Iterable[str], remedy: str) -> str:
    """Return what to say of a name that no vendor has: who is meant, or who there is and a remedy.

    The name itself is left to those who know where it was written.
    """
    names = list(known)
    near = suggest_vendor(name, names)
    if near is not None:
        return f"there is no vendor of this name; do you mean {near}?"
    return f"there is no vendor of this name; there are {', '.join(names)}; {remedy}"


def check_base_url(url: str, place: str) -> None:
    """Refuse what is not the address of a server. Raises InvalidValue."""
    if not isinstance(url, str):
        raise InvalidValue(
            f"must be a string, not {type(url).__name__}",
            code="wrong_type",
            place=f"{place}.base_url",
        )
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_bare = parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        is_usable = is_bare = False
    if not is_usable or not (url.isascii() and url.isprintable()) or " " in url:
        raise InvalidValue(
            "must be http:// or https:// with a host",
            code="url_malformed",
            place=f"{place}.base_url",
        )
    if not is_bare:
        raise InvalidValue(
            "must hold no user, password, query or fragment",
            code="url_has_secrets",
            place=f"{place}.base_url",
        )
