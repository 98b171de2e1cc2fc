"""Write blocks: each becomes one part, and seals go back to those who made them.

Gemini 3 refuses a step whose first call carries no signature of its own. Calls that came from
elsewhere, or lost the signature of another model, get the sentinel that Google has for them; a
call that this very model made without one is sent as it was, and so is what was recorded.
"""

from __future__ import annotations

import base64
from typing import Any, TypeAlias, final

from msgspec import Raw

from steno.call import AnyToolCall, Seal
from steno.content import (
    FileReference,
    Image,
    ImageData,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.value import Sendable
from steno.wire.extras import extras_of, take_form, take_inner
from steno.wire.gemini.parts import CALL, SENTINEL, SIGNATURE
from steno.wire.gemini.shapes import LEGAL_NAME, NAME
from steno.wire.gemini.spelling import snake_case, spell
from steno.wire.open import read_members
from steno.wire.report import LossCode, Losses
from steno.wire.writing import (
    Anonymous,
    Target,
    call_name,
    is_sendable,
    raw_arguments,
    reference_text,
)

Part: TypeAlias = dict[str, Any] | Raw
Form: TypeAlias = dict[str, Any]


@final
class BlockWriter:
    """Writes blocks for one target."""

    def __init__(self, target: Target, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self.sent_calls: dict[str, tuple[str | None, str]] = {}
        """The ids and names under which calls were sent, by the ids that we have for them."""
        self.anonymous_calls = Anonymous(losses)

    def read_extras(self, value: Sendable, at: str = "") -> tuple[dict[str, Any], Form]:
        """Return the members that a value has for this wire, and how it was written."""
        extras = extras_of(value, NAME, self._losses, at=at)
        form = take_form(extras)
        return extras, form

    def write_text(self, block: Text, at: str) -> Part:
        """Write what a user or a system prompt says."""
        extras, form = self.read_extras(block, at)
        self._write_signature(block.seal, at)
        return spell({"text": block.text}, form) | extras

    def write_assistant_text(self, block: Text | Thinking, at: str) -> list[Part]:
        """Write what a model says or thinks; what says nothing and proves nothing is left out."""
        extras, form = self.read_extras(block, at)
        signature = self._write_signature(block.seal, at)
        if not block.text and not signature and not extras and "text" not in form:
            return []
        part: dict[str, Any] = {} if form.get("text") == "absent" else {"text": block.text}
        if isinstance(block, Thinking):
            part["thought"] = True
        return [spell(part | signature, form) | extras]

    def write_call(self, call: AnyToolCall, at: str, *, is_first: bool) -> Part:
        """Write a call; the first of a step has to be signed."""
        extras, form = self.read_extras(call, at)
        signature = self._write_signature(call.seal, at)
        is_signed = signature or SIGNATURE in extras or snake_case(SIGNATURE) in extras
        # A signature may have come later than the first of a call, and thus than that note.
        is_as_made = call.seal is None and form.get("unsigned") == self._target.model
        if is_first and not is_signed and not is_as_made:
            signature = {SIGNATURE: SENTINEL}
        id: str | None = form.get("id", call.id)
        name: str | None = (
            form["name"] if "name" in form else call_name(call, LEGAL_NAME, self._losses, at=at)
        )
        self.sent_calls[call.id] = id, name or ""
        if id is None:
            self.anonymous_calls.add_call(call.id, name or "")
        inner = {key: value for key, value in (("id", id), ("name", name)) if value is not None}
        inner |= self._write_arguments(call, form, at)
        return spell({CALL: inner | take_inner(extras, CALL)} | signature, form) | extras

    def write_image(self, block: Image, at: str) -> list[Part]:
        """Write an image, if it can be reached."""
        extras, form = self.read_extras(block, at)
        name, inner = "", dict[str, Any]()
        if isinstance(block.source, ImageData):
            encode = base64.urlsafe_b64encode if "base64" in form else base64.b64encode
            name, inner = "inlineData", {"data": encode(block.source.data).decode()}
        elif isinstance(block.source, ImageUrl):
            name, inner = "fileData", {"fileUri": block.source.url}
        else:
            self._losses.note(LossCode.IMAGE, "left out an image whose bytes are not here", at=at)
            return []
        if block.mime_type is not None:
            inner["mimeType"] = block.mime_type
        if not self._is_signed_for_target(form):
            self._drop_signature(extras, at)
        return [spell({name: spell(inner, form) | take_inner(extras, name)}, form) | extras]

    def write_reference(self, block: FileReference | Resource, at: str) -> dict[str, Any]:
        """Write what was to be resolved; the bytes of a resource are sent as they are."""
        self.read_extras(block, at)
        if isinstance(block, Resource) and block.data is not None and block.mime_type is not None:
            data = base64.b64encode(block.data).decode()
            return {"inlineData": {"mimeType": block.mime_type, "data": data}}
        return {"text": reference_text(block, self._losses, at=at)}

    def write_opaque(self, block: Opaque, at: str) -> list[Part]:
        """Write a part that we have no name for, if it is one of this protocol."""
        if not is_sendable(block, NAME, self._losses, at=at):
            return []
        _, form = self.read_extras(block, at)
        if self._is_signed_for_target(form):
            return [Raw(block.raw.encode())]
        members: dict[str, Any] = dict(read_members(block.raw, NAME))
        self._drop_signature(members, at)
        return [members]

    # -- seals -------------------------------------------------------------------------------

    def _write_signature(self, seal: Seal | None, at: str) -> dict[str, Any]:
        if seal is None:
            return {}
        if self._target.accepts(seal):
            return {SIGNATURE: seal.data}
        self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        return {}

    def _is_signed_for_target(self, form: Form) -> bool:
        """Tell whether a block without a seal of its own carries no signature of another model."""
        target = [self._target.provider, self._target.model]
        return bool(form.get("signed", target) == target)

    def _drop_signature(self, members: dict[str, Any], at: str) -> None:
        self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        members.pop(SIGNATURE, None)
        members.pop(snake_case(SIGNATURE), None)

    # -- calls -------------------------------------------------------------------------------

    def _write_arguments(self, call: AnyToolCall, form: Form, at: str) -> dict[str, Any]:
        match form.get("args", "object"):
            case "absent":
                return {}
            case None:
                return {"args": None}
            case "verbatim":
                return {"args": Raw(call.arguments.encode())}
            case _:
                return {"args": raw_arguments(call, self._losses, at=at)}
