"""The interface of an OCR engine, its results, and the code that the engines share.

Coordinates are image coordinates: x increases to the right, y downwards.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from io import BytesIO
from math import dist, hypot
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, final

from steno.errors import Unrecognised, install_command

if TYPE_CHECKING:
    from PIL.Image import Image


OCR_ENGINES: Final = ("auto", "rapidocr", "tesseract")
"""The names that `choose_ocr_engine` accepts."""
NO_ENGINE_INSTALLED: Final = (
    f"no OCR engine is installed; run {install_command('ocr')}, or for Tesseract"
    f" {install_command('tesseract')}"
)
"""The text of every error about a missing engine; it names both extras."""


class RecognisedText(NamedTuple):
    """The text in an image, as an engine recognised it."""

    text: str
    """The lines from top to bottom; empty if there is no text."""
    confidence: float | None
    """The confidence of the engine, from 0 to 1, weighted by line length; None if unknown."""


class OcrResult(NamedTuple):
    """The text in an image, and details for the log."""

    text: str
    confidence: float | None
    """The confidence of the engine, from 0 to 1; None if unknown or if there is no text."""
    language: str | None
    """The code of the language (`en`, `de`, `zh`); None if it is unknown."""
    engine: str
    duration_s: float


@final
class OcrEngineFailed(Unrecognised):
    """An engine failed on an image; `engine` is the name of the engine for the log."""

    def __init__(self, reason: str, engine: str, *, code: str) -> None:
        super().__init__(reason, code=code)
        self.engine = engine


class OcrEngine(Protocol):
    """Recognises text in images. Any thread may call it, but only one at a time."""

    @property
    def name(self) -> str:
        """The name and version of the engine for the log, such as `rapidocr 3.10.0`."""
        ...

    def recognise(self, data: bytes) -> RecognisedText:
        """Recognise the text in an upright PNG or JPEG image.

        Raises Unrecognised if that fails, with a message that suggests a solution. The first call
        may be slow, because it loads models. An engine that works in steps should call
        `check_not_cancelled` (`steno.tools.cancellable_thread`) between steps, to end when its
        task is cancelled.
        """
        ...


def format_confidence(confidence: float) -> str:
    """Format a confidence with two decimals, rounded down, so that 0.999 is not 1.00."""
    return f"{int(confidence * 10_000 + 0.5) // 100 / 100:.2f}"


# -- lines in reading order -----------------------------------------------------------------------

Point: TypeAlias = tuple[float, float]

_SAME_ROW_RATIO: Final = 0.5
"""Two pieces are in one row if they are at most this fraction of the smaller height apart."""


class LineCorners(NamedTuple):
    """The four corners of a line of text, named from the viewpoint of its reader."""

    top_left: Point
    top_right: Point
    bottom_right: Point
    bottom_left: Point

    @property
    def length(self) -> float:
        """The length of the line in its reading direction."""
        return dist(self.top_left, self.top_right)

    @property
    def height(self) -> float:
        """The approximate height of the letters."""
        return dist(self.top_left, self.bottom_left)

    @property
    def centre(self) -> Point:
        """The centre of the line."""
        return (
            (self.top_left[0] + self.bottom_right[0]) / 2,
            (self.top_left[1] + self.bottom_right[1]) / 2,
        )

    def rotated(self, quarters: int) -> LineCorners:
        """Return the same corners, named for text that is rotated clockwise by quarter turns.

        `quarters` is the number of quarter turns.
        """
        return LineCorners(*self[quarters % 4 :], *self[: quarters % 4])


class OcrLine(NamedTuple):
    """A line of text, and the confidence of the engine, from 0 to 1."""

    text: str
    confidence: float


def join_lines(lines: Iterable[OcrLine]) -> RecognisedText:
    """Join lines in reading order to a text with a mean confidence; skip blank lines."""
    with_text = [line for line in lines if line.text.strip()]
    text = "\n".join([line.text.strip() for line in with_text])
    return RecognisedText(text, mean_confidence(with_text))


def mean_confidence(lines: Iterable[OcrLine]) -> float | None:
    """Return the mean confidence of lines, weighted by length; None if there is no text."""
    weighted = [(len(line.text.strip()), line.confidence) for line in lines]
    total = sum(weight for weight, _ in weighted)
    if not total:
        return None
    return round(sum(weight * confidence for weight, confidence in weighted) / total, 4)


def sort_in_reading_order(pieces: Sequence[tuple[LineCorners, OcrLine]]) -> list[OcrLine]:
    """Join the pieces of each row from left to right, and return the rows from top to bottom.

    The rows follow the reading direction of most of the text, because a page may be sideways or
    slightly rotated.
    """
    across, down = _reading_direction([corners for corners, _ in pieces])
    placed: list[_PlacedLine] = []
    for corners, line in pieces:
        x, y = corners.centre
        placed.append(
            _PlacedLine(x * across + y * down, y * across - x * down, corners.height, line)
        )
    rows: list[list[_PlacedLine]] = []
    for piece in sorted(placed, key=lambda piece: piece.down):
        last = rows[-1][-1] if rows else piece
        max_distance = _SAME_ROW_RATIO * min(piece.height, last.height)
        if rows and piece.down - last.down <= max_distance:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    joined: list[OcrLine] = []
    for row in rows:
        lines = [piece.line for piece in sorted(row, key=lambda piece: piece.across)]
        text = " ".join([line.text.strip() for line in lines])
        joined.append(OcrLine(text, mean_confidence(lines) or 0.0))
    return joined


class _PlacedLine(NamedTuple):
    across: float
    down: float
    height: float
    line: OcrLine


def _reading_direction(pieces: Sequence[LineCorners]) -> Point:
    """Return the reading direction of most of the text, as a unit vector."""
    steps = [(c.top_right[0] - c.top_left[0], c.top_right[1] - c.top_left[1]) for c in pieces]
    # Use either the horizontal or the vertical lines, whichever have more text.
    sideways = [step for step in steps if abs(step[1]) > abs(step[0])]
    upright = [step for step in steps if abs(step[1]) <= abs(step[0])]
    longest_group = max(upright, sideways, key=lambda group: sum([hypot(*step) for step in group]))
    x, y = sum(step[0] for step in longest_group), sum(step[1] for step in longest_group)
    length = hypot(x, y) or 1.0
    return x / length, y / length


# -- pixels and settings --------------------------------------------------------------------------


def decode_rgb_image(image: bytes) -> Image:
    """Decode a PNG or JPEG. Raises Unrecognised if it is damaged or Pillow is not installed."""
    try:
        from PIL import Image  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        message = f"OCR needs Pillow: {install_command('ocr')}"
        raise Unrecognised(message, code="missing_extra") from exc
    try:
        with Image.open(BytesIO(image), formats=("PNG", "JPEG")) as image_file:
            return image_file.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as exc:
        message = "the data is not a complete PNG or JPEG image; save the image again"
        raise Unrecognised(message, code="image_damaged") from exc


def background_colour(image: Image) -> tuple[int, ...]:
    """Return the colour for pixels that are added at the edges of an image."""
    colour = image.getpixel((0, 0))
    return colour if isinstance(colour, tuple) else (255, 255, 255)


@contextmanager
def temporary_environment_variable(name: str, value: str) -> Generator[None]:
    """Set an environment variable for the block, and restore its value afterwards."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
