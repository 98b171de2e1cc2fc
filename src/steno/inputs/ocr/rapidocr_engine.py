"""An offline OCR engine based on RapidOCR.

One small neural network finds lines, and another one reads them. Lines are found first, then
cropped, rotated and read one by one. RapidOCR's own classifier is not used, because it examines one
line at a time and mistakes every second upside-down line for upright. Instead, if the longest lines
cannot be read well, they are also read upside down, and the better result decides for all lines of
that direction. Large images are shrunk first, because the networks do not limit the size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files, version
from math import sqrt
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, final

from steno.errors import Unrecognised, install_command
from steno.inputs.ocr.engine import (
    LineCorners,
    OcrLine,
    RecognisedText,
    background_colour,
    decode_rgb_image,
    join_lines,
    mean_confidence,
    sort_in_reading_order,
    temporary_environment_variable,
)
from steno.tools.cancellable_thread import check_not_cancelled

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_THREADS: Final = 2
_MAX_PIXELS: Final = 4_000_000
"""The maximum number of pixels, about two screens; each pixel takes time and memory."""
_MIN_EDGE: Final = 32
"""The minimum edge length; the networks process squares of this size."""
_OBLONG_RATIO: Final = 1.5
"""The minimum aspect ratio of a box whose longer side is its reading direction."""
_SAMPLE_LINES: Final = 3
_SURE_CONFIDENCE: Final = 0.9
"""The confidence from which lines are not also read upside down.

Upright lines have a confidence of more than 0.95, and upside-down lines of less than 0.85.
"""
_MIN_CONFIDENCE: Final = 0.5
"""Lines with a lower confidence are dropped."""


@final
class RapidOcrEngine:
    """Recognises Chinese, English and most languages in Latin script (`steno-agent[ocr]`)."""

    def __init__(self) -> None:
        """Create the engine; models are loaded with the first image."""
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name `rapidocr`, with its version if it is installed."""
        try:
            return f"rapidocr {version('rapidocr')}"
        except PackageNotFoundError:
            return "rapidocr"

    def recognise(self, data: bytes) -> RecognisedText:
        """Recognise the text in an image of any orientation. Raises Unrecognised if that fails."""
        with self._lock:
            image = _limit_size(decode_rgb_image(data))
            found = self._find(image)
            confident = [
                piece
                for lines in _group_by_direction(found)
                for piece in self._read_all(image, lines)
                if piece[1].confidence >= _MIN_CONFIDENCE
            ]
            return join_lines(sort_in_reading_order(confident))

    @cached_property
    def _pipeline(self) -> Any:
        """The RapidOCR pipeline, loaded on first use."""
        try:
            # onnxruntime would report each model to Microsoft and leave an ID in the home folder.
            with temporary_environment_variable("ORT_DISABLE_TELEMETRY", "1"):
                import_module("onnxruntime").disable_telemetry_events()  # Windows needs both
            rapidocr = import_module("rapidocr")
        except ModuleNotFoundError as exc:
            message = f"OCR needs {exc.name}: {install_command('ocr')}"
            raise Unrecognised(message, code="missing_extra") from exc
        except ImportError as exc:
            message = f"rapidocr cannot be loaded: {exc}"
            raise Unrecognised(message, code="engine_not_loaded") from exc
        threads = min(_MAX_THREADS, os.cpu_count() or 1)
        return rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                # `_limit_size` sets the size. By default rapidocr would enlarge the shorter edge
                # to 736 pixels, which takes six times as long and splits short lines;
                # with its padding as well, an image of one pixel would take 5 GB.
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "Det.limit_type": "max",
                "Det.limit_side_len": _MAX_PIXELS,
                # With a path, rapidocr does not download a model.
                "Det.model_path": _model_path("det"),
                "Rec.model_path": _model_path("rec"),
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def _find(self, image: Image) -> list[LineCorners]:
        """Return the corners of all lines, as if each were read from left to right."""
        rapid = self._pipeline
        check_not_cancelled()  # loading is slow, and so is the next call
        found = rapid(image, use_det=True, use_cls=False, use_rec=False)
        boxes = [] if found.boxes is None else found.boxes.tolist()
        return [LineCorners(*[(float(x), float(y)) for x, y in box]) for box in boxes]

    def _read_all(
        self, image: Image, lines: Sequence[LineCorners]
    ) -> list[tuple[LineCorners, OcrLine]]:
        """Read lines of one direction, upright or upside down, whichever fits the longest lines."""
        ordered = sorted(lines, key=lambda line: line.length, reverse=True)
        sample = self._read(image, ordered[:_SAMPLE_LINES])
        if _line_confidence(sample) < _SURE_CONFIDENCE:
            upside_down = [line.rotated(2) for line in ordered]
            reversed_sample = self._read(image, upside_down[:_SAMPLE_LINES])
            if _line_confidence(reversed_sample) > _line_confidence(sample):
                sample, ordered = reversed_sample, upside_down
        return sample + self._read(image, ordered[_SAMPLE_LINES:])

    def _read(
        self, image: Image, lines: Sequence[LineCorners]
    ) -> list[tuple[LineCorners, OcrLine]]:
        read_lines: list[tuple[LineCorners, OcrLine]] = []
        for corners in lines:
            check_not_cancelled()
            recognised = self._pipeline(
                _crop_line(image, corners), use_det=False, use_cls=False, use_rec=True
            )
            if recognised.txts:
                line = OcrLine(recognised.txts[0], float(recognised.scores[0]))
                read_lines.append((corners, line))
        return read_lines


def _model_path(kind: str) -> str:
    """Return the path of a model in the package. Raises Unrecognised if it is not installed."""
    found = [file for file in files("rapidocr") or [] if file.match(f"models/*_{kind}*.onnx")]
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise Unrecognised(
            f"the rapidocr model '{kind}' is missing, and steno does not download models; run "
            "pip install --force-reinstall --no-deps rapidocr",
            code="model_missing",
        )
    return str(path)


def _line_confidence(read: Sequence[tuple[LineCorners, OcrLine]]) -> float:
    return mean_confidence([line for _, line in read]) or 0.0


def _group_by_direction(found: Sequence[LineCorners]) -> list[list[LineCorners]]:
    """Group lines into horizontal and vertical lines, with corners as their reader sees them.

    Nearly square boxes are added to the group with the greater total length.
    """
    across = [line for line in found if line.length >= line.height * _OBLONG_RATIO]
    down = [line for line in found if line.height >= line.length * _OBLONG_RATIO]
    rest = [line for line in found if line not in across and line not in down]
    is_sideways = sum(line.height for line in down) > sum(line.length for line in across)
    (down if is_sideways else across).extend(rest)
    return [lines for lines in (across, [line.rotated(1) for line in down]) if lines]


def _limit_size(image: Image) -> Image:
    """Return an image with neither too many nor too few pixels."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - already loaded

    width, height = image.size
    scale = sqrt(_MAX_PIXELS / (width * height))
    if scale < 1:
        width, height = max(1, int(width * scale)), max(1, int(height * scale))
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    wider, higher = max(0, _MIN_EDGE - width), max(0, _MIN_EDGE - height)
    if wider or higher:
        image = ImageOps.expand(image, (0, 0, wider, higher), fill=background_colour(image))
    return image


def _crop_line(image: Image, corners: LineCorners) -> Image:
    """Return a line as a separate image, upright and straight."""
    from PIL import Image  # noqa: PLC0415 - already loaded

    size = max(1, round(corners.length)), max(1, round(corners.height))
    top_left, top_right, bottom_right, bottom_left = corners
    quad = (*top_left, *bottom_left, *bottom_right, *top_right)
    return image.transform(size, Image.Transform.QUAD, quad, resample=Image.Resampling.BICUBIC)
