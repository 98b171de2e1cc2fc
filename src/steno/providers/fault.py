"""What is wrong with an answer, said so that somebody can set it right: where we asked, what came.

The wire reads what a server says about its errors. What only we know is added here: the address,
the variable that holds the key, and that an answer is none at all; and how long we are asked to
wait, which stands in a header.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urljoin

import msgspec

from steno.errors import (
    AuthenticationFailed,
    NotFound,
    ProtocolError,
    ProviderError,
    StenoError,
    Unreachable,
)
from steno.ports import Answer, Outgoing, without_secrets
from steno.providers.key import Key
from steno.providers.vendor import Vendor
from steno.wire import Wire

MAX_ERROR_BYTES: Final = 1024 * 1024
"""What is read of an answer that is an error; the rest explains nothing."""
BOM: Final = b"\xef\xbb\xbf"
_KIND: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_DOCUMENT: Final = re.compile(r"text/(?:html|plain)|.+[/+](?:json|xml)")
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b"{", b"[")
"""How streams begin, in any protocol."""
_UNSAID: Final = re.compile(
    rb"\A(?:\s|(?:(?:retry|id|event)?:|data:(?=[ \t]*[\r\n]))[^\r\n]*(?=[\r\n]|\Z))*"
)
"""Comments, and events of which only a number or a name came."""
_END: Final = re.compile(rb"\r?\n\r?\n").search


class Party(NamedTuple):
    """Whom we speak with, as far as errors have to tell it."""

    vendor: Vendor
    wire: Wire
    key: Key

    async def read_error(self, answer: Answer, outgoing: Outgoing) -> ProviderError:
        """Make an error of an answer that is one, from as much of its body as there is."""
        if 300 <= answer.status < 400:
            return _redirected(answer, outgoing)
        pieces: list[bytes] = []
        left = MAX_ERROR_BYTES
        try:
            while left > 0 and (piece := await answer.read()):
                pieces.append(piece)
                left -= len(piece)
        except Unreachable:
            pass  # the status says more than the fact that its explanation broke off
        error = self.wire.decode_error(answer.status, b"".join(pieces), answer.headers)
        self._add_advice(error, outgoing)
        return error

    def add_vendor_hint(self, error: Unreachable) -> None:
        """Say what to do where nobody answers at all, if that is known of this vendor."""
        if self.vendor.hint:
            add(error, self.vendor.hint)

    def build_protocol_error(self, answer: Answer, outgoing: Outgoing) -> ProtocolError:
        """Make the error of an answer that is neither a stream nor anything else of the protocol."""
        return ProtocolError(
            f"{outgoing.address}: does not speak {self.wire.NAME}; what came"
            f" ({kind_of(answer) or 'without a content type'}) is no answer; check the base URL,"
            " the wire, and what stands between, such as a proxy or a login page"
        )

    def _add_advice(self, error: ProviderError, outgoing: Outgoing) -> None:
        if error.retry_after_s:
            add(error, f"it asks to wait {error.retry_after_s:.10g} s")
        match error:
            case NotFound() | ProviderError(status=405):
                add(error, f"asked {outgoing.address}, check the base URL and the model")
            case AuthenticationFailed():
                is_sent = bool(self.vendor.auth.header(self.key.reveal()))
                state = "check the key" if is_sent else "no key was sent"
                add(error, f"{state}: {self.vendor.key_advice}")
            case _:
                pass


def add(error: StenoError, advice: str) -> None:
    """Say more in an error."""
    said = error.message if isinstance(error, ProviderError) else str(error)
    text = f"{said}; {advice}"
    error.args = (text,)
    if isinstance(error, ProviderError):
        error.message = text


def kind_of(answer: Answer) -> str:
    """Return the content type of an answer, without parameters; empty where there is none."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if _KIND.fullmatch(kind) else ""


def is_page(first: bytes) -> bool:
    """Tell whether a body begins like HTML, whatever it calls itself."""
    return first.removeprefix(BOM).lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


def is_half_said(heard: bytes) -> bool:
    """Tell whether a body may have been cut before it said anything.

    It holds half an event, or comments, which keep a connection alive: so may any stream begin.
    """
    said = _UNSAID.sub(b"", heard.removeprefix(BOM), count=1)
    if not said:
        return True
    is_stream = any(said.startswith(start) or start.startswith(said) for start in _BEGINNINGS)
    if not is_stream or _END(said):
        return False
    return said[:1] not in (b"{", b"[") or (_is_cut(said) and _is_cut(said.splitlines()[0]))


def _is_cut(text: bytes) -> bool:
    """Tell whether JSON is good as far as it goes."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        return "truncated" in str(exc)
    except (UnicodeError, RecursionError):
        pass
    return False


def is_document(answer: Answer) -> bool:
    """Tell whether an answer calls itself anything but a stream, which could have been cut short."""
    return _DOCUMENT.fullmatch(kind_of(answer)) is not None


def _redirected(answer: Answer, outgoing: Outgoing) -> ProviderError:
    try:
        target = without_secrets(urljoin(outgoing.url, answer.headers.get("location", "")))
    except ValueError:  # an address that is none
        target = None
    if target is None or target == outgoing.address:
        what, advice = "it redirects", "check the base URL"
    elif outgoing.url.startswith("https:") and target.startswith("http:"):
        what = f"it redirects to {target}, where the key would travel unencrypted"
        advice = "check the base URL, or have the server stay with https"
    else:
        what = f"it redirects to {target}"
        advice = "if that is the right address, pass its beginning as the base URL"
    rule = f"{outgoing.address}: {what}; redirects are not followed, as a key is for one host only"
    return ProviderError(f"{rule}; {advice}", status=answer.status)
