"""Limits of APIs for images: bytes, pixels and types.

Many servers share a wire, so a row holds the limits that all of them accept. This module holds
numbers and their sources, and opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_PNG_AND_JPEG: Final = frozenset({"image/png", "image/jpeg"})


class ImageLimits(NamedTuple):
    """The limits for one image in a request."""

    max_bytes: int
    """Of the file; base64 takes a third more."""
    max_edge: int
    """In pixels; larger images are refused, or shrunk after they were paid for."""
    types: frozenset[str] = _PNG_AND_JPEG
    """MIME types; empty if the API takes no images."""


# llama.cpp uses this wire and the next two. It decodes with stb_image, which knows no WebP, and
# answers without the image and without an error: so PNG and JPEG alone, although OpenAI and
# Anthropic take GIF and WebP as well. xAI takes no other two either.
# OpenAI: 20 MB an image, 50 MB a request, and what does not fit into 2048 x 2048 is shrunk
# (guide "Images and vision"). Groq: 4 MB in base64 (guide "Vision"), which is less than all others.
_OPENAI_LIMITS: Final = ImageLimits(max_bytes=3_000_000, max_edge=2048)

IMAGE_LIMITS: Final[Mapping[str, ImageLimits]] = {
    "openai_chat": _OPENAI_LIMITS,
    "openai_responses": _OPENAI_LIMITS,
    # "image exceeds 5 MB maximum": 5,242,880 bytes counted in base64, on Bedrock and Vertex still.
    # Beyond 8000 pixels, or 2000 with more than 20 images in a request, it is refused; beyond 1568
    # older models see no more of it (guide "Vision").
    "anthropic_messages": ImageLimits(max_bytes=3_750_000, max_edge=1568),
    # 20 MB a request, 7 MB a file on Vertex, which is taken here to mean base64. There is no limit
    # of pixels; 3072 is what models before Gemini 3 shrank to (guide "Image understanding").
    "gemini": ImageLimits(max_bytes=5_000_000, max_edge=3072, types=_PNG_AND_JPEG | {"image/webp"}),
    # Nothing is written down; PNG and JPEG are what every version decodes (ollama#2457).
    "ollama_chat": ImageLimits(max_bytes=5_000_000, max_edge=2048),
    # Flat messages hold text only.
    "chat": ImageLimits(max_bytes=0, max_edge=0, types=frozenset()),
}
"""The limits of each wire, by name."""

_FALLBACK_LIMITS: Final = ImageLimits(max_bytes=3_000_000, max_edge=1568)


def image_limits_for(wire: str) -> ImageLimits:
    """Return the limits of a wire; for one that is not listed, limits that every wire accepts."""
    return IMAGE_LIMITS.get(wire, _FALLBACK_LIMITS)
