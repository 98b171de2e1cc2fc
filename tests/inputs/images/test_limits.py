"""Every wire has limits for images, and their base64 stays below the limits of its servers."""

from __future__ import annotations

import pytest

from steno.inputs.images.prepare import IMAGE_LIMITS, image_limits_for

WIRES = (
    "anthropic_messages",
    "chat",
    "gemini",
    "ollama_chat",
    "openai_chat",
    "openai_responses",
)


def test_every_wire_has_a_row() -> None:
    assert sorted(IMAGE_LIMITS) == sorted(WIRES)


@pytest.mark.parametrize("wire", sorted(set(WIRES) - {"chat"}))
def test_png_and_jpeg_are_taken_wherever_images_are(wire: str) -> None:
    assert image_limits_for(wire).types >= {"image/png", "image/jpeg"}


def test_an_image_for_anthropic_stays_below_five_megabytes_in_base64() -> None:
    limits = image_limits_for("anthropic_messages")
    assert (limits.max_bytes + 2) // 3 * 4 <= 5 * 1024 * 1024
    assert limits.max_edge <= 2000


@pytest.mark.parametrize("wire", ["ollama_chat", "openai_chat", "openai_responses"])
def test_images_that_llama_cpp_cannot_decode_are_not_sent(wire: str) -> None:
    assert "image/webp" not in image_limits_for(wire).types


def test_a_wire_without_images_takes_no_type_at_all() -> None:
    assert image_limits_for("chat").types == frozenset()


def test_a_custom_wire_gets_limits_that_every_wire_accepts() -> None:
    unknown = image_limits_for("smoke_signals")
    others = [limits for limits in IMAGE_LIMITS.values() if limits.types]
    assert unknown.max_bytes <= min(limits.max_bytes for limits in others)
    assert unknown.max_edge <= min(limits.max_edge for limits in others)
    assert all(unknown.types <= limits.types for limits in others)
