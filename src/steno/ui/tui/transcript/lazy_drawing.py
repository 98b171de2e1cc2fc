"""Drawing of Markdown, code and images, imported when the first item needs it.

Rich's Markdown, Pygments and Pillow take longer to import than everything on the first screen
together. The imports are inside functions, so that import-linter reads them and the first paint
does not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from textual.strip import Strip

from steno.ui.tui.transcript.styles import TranscriptStyles


class MarkdownDrawing(Protocol):
    """Draws a Markdown text that grows."""

    def draw(self, text: str) -> Sequence[Strip]:
        """Return all lines of the text so far."""
        ...


class DrawImageData(Protocol):
    """Draws the bytes of an image."""

    def __call__(self, data: bytes, width: int, *, has_color: bool) -> Sequence[Strip]:
        """Return lines that fit a width, or one line that states why the image is not shown."""
        ...


def create_markdown_drawing(width: int, styles: TranscriptStyles) -> MarkdownDrawing:
    """Return a `StreamedMarkdown` of a width."""
    from steno.ui.tui.transcript.markdown import StreamedMarkdown  # noqa: PLC0415 - see above

    return StreamedMarkdown(width, styles)


def draw_code(text: str, language: str, width: int, styles: TranscriptStyles) -> list[Strip]:
    """Return code as lines in the colours of its language."""
    from steno.ui.tui.transcript.markdown import code_lines  # noqa: PLC0415 - see above

    return code_lines(text, language, width, styles)


def load_image_drawing() -> DrawImageData:
    """Return the function that draws an image. Raises ImportError without the extra `images`."""
    from steno.ui.tui.transcript.image import draw_image  # noqa: PLC0415 - see above

    return draw_image
