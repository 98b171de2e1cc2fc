"""RapidOCR: finds lines with one small network and reads them with another, offline.

Lines are found first, then cut out, turned and read one by one. RapidOCR's own classifier is left
out: it looks at one line at a time and takes every second upside-down line for upright. Instead,
if the longest lines cannot be read well they are read the other way round, and the better way is
that of the whole image. Images are held to a size first: the networks would take any.
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

from steno.errors import Unrecognised
from steno.inputs.ocr.apart import check_wanted
from steno.inputs.ocr.engine import Recognised
from steno.inputs.ocr.lines import Corners, Line, confidence_of, in_reading_order, recognised
from steno.inputs.ocr.loading import with_variable
from steno.inputs.ocr.picture import open_picture, paper_of

if TYPE_CHECKING:
    from PIL.Image import Image

_INSTALL: Final = "pip install 'steno[ocr]'"
_MOST_THREADS: Final = 2
_MOST_PIXELS: Final = 4_000_000
"""A screen has about half as many; finding lines takes time and memory by the pixel."""
_LEAST_EDGE: Final = 32
"""Its networks see squares of so many pixels."""
_OBLONG: Final = 1.5
"""What is not that many times longer in one direction does not show which way it is read."""
_SAMPLE: Final = 3
_SURE: Final = 0.9
"""Lines that are read the right way round come out above 0.95, the others below 0.85."""
_LEAST_CONFIDENCE: Final = 0.5
"""What is less sure is no text."""


@final
class RapidOcr:
    """Recognises Chinese, English and most languages in Latin letters (extra: `steno[ocr]`)."""

    def __init__(self) -> None:
        """Load nothing yet: the first image does."""
        self._lock = Lock()

    @property
    def name(self) -> str:
        """`rapidocr` and its version."""
        try:
            return f"rapidocr {version('rapidocr')}"
        except PackageNotFoundError:
            return "rapidocr"

    def recognise(self, image: bytes) -> Recognised:
        """Recognise what stands in an image, whichever way up. Raises Unrecognised."""
        with self._lock:
            picture = _bounded(open_picture(image))
            found = self._find(picture)
            pieces: list[tuple[Corners, Line]] = []
            for lines in _by_direction(found):
                pieces += self._read_all(picture, lines)
            sure = [piece for piece in pieces if piece[1].confidence >= _LEAST_CONFIDENCE]
            return recognised(in_reading_order(sure))

    @cached_property
    def _rapid(self) -> Any:
        """What does the work, loaded on first use."""
        try:
            # It would tell Microsoft of each model that is run, and leave an id in the home folder.
            with with_variable("ORT_DISABLE_TELEMETRY", "1"):
                import_module("onnxruntime").disable_telemetry_events()  # Windows needs both
            rapidocr = import_module("rapidocr")
        except ModuleNotFoundError as exc:
            raise Unrecognised(f"OCR needs {exc.name}: {_INSTALL}") from exc
        except ImportError as exc:
            raise Unrecognised(f"rapidocr cannot be loaded: {exc}") from exc
        threads = min(_MOST_THREADS, os.cpu_count() or 1)
        return rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                # Sizes are the business of `_bounded`. Left to itself it would enlarge the shorter
                # edge to 736 pixels, which takes six times as long and tears short lines apart;
                # with its padding on top, one pixel would take 5 GB.
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "Det.limit_type": "max",
                "Det.limit_side_len": _MOST_PIXELS,
                # With a path there is nothing that it could want to download.
                "Det.model_path": _model("det"),
                "Rec.model_path": _model("rec"),
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def _find(self, picture: Image) -> list[Corners]:
        """Return where lines are, as if each were read to the right."""
        rapid = self._rapid
        check_wanted()  # loading has taken a while, and this takes longer than any line
        found = rapid(picture, use_det=True, use_cls=False, use_rec=False)
        boxes = [] if found.boxes is None else found.boxes.tolist()
        return [Corners(*[(float(x), float(y)) for x, y in box]) for box in boxes]

    def _read_all(self, picture: Image, lines: Sequence[Corners]) -> list[tuple[Corners, Line]]:
        """Read lines of one direction, the way round in which the longest can be read best."""
        ordered = sorted(lines, key=lambda line: line.length, reverse=True)
        sample = self._read(picture, ordered[:_SAMPLE])
        if _sureness(sample) < _SURE:
            upside_down = [line.rotated(2) for line in ordered]
            other = self._read(picture, upside_down[:_SAMPLE])
            if _sureness(other) > _sureness(sample):
                sample, ordered = other, upside_down
        return sample + self._read(picture, ordered[_SAMPLE:])

    def _read(self, picture: Image, lines: Sequence[Corners]) -> list[tuple[Corners, Line]]:
        read: list[tuple[Corners, Line]] = []
        for corners in lines:
            check_wanted()
            words = self._rapid(_cut(picture, corners), use_det=False, use_cls=False, use_rec=True)
            if words.txts:
                read.append((corners, Line(words.txts[0], float(words.scores[0]))))
        return read


def _model(kind: str) -> str:
    """Return the path of a network that came with the package; others may lie beside it."""
    found = [file for file in files("rapidocr") or [] if file.match(f"models/*_{kind}*.onnx")]
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise Unrecognised(
            f"rapidocr: its model '{kind}' is not installed, and nothing is downloaded here: "
            "pip install --force-reinstall --no-deps rapidocr"
        )
    return str(path)


def _sureness(read: Sequence[tuple[Corners, Line]]) -> float:
    return confidence_of([line for _, line in read]) or 0.0


def _by_direction(found: Sequence[Corners]) -> list[list[Corners]]:
    """Return the lines that go across the image, and those that go down, each as it is read then.

    What is about square goes with the majority.
    """
    across = [line for line in found if line.length >= line.height * _OBLONG]
    down = [line for line in found if line.height >= line.length * _OBLONG]
    rest = [line for line in found if line not in across and line not in down]
    is_sideways = sum(line.height for line in down) > sum(line.length for line in across)
    (down if is_sideways else across).extend(rest)
    return [lines for lines in (across, [line.rotated(1) for line in down]) if lines]


def _bounded(picture: Image) -> Image:
    """Return an image with not too many pixels, and not too few."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - it is loaded by now

    width, height = picture.size
    scale = sqrt(_MOST_PIXELS / (width * height))
    if scale < 1:
        width, height = max(1, int(width * scale)), max(1, int(height * scale))
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    wider, higher = max(0, _LEAST_EDGE - width), max(0, _LEAST_EDGE - height)
    if wider or higher:
        picture = ImageOps.expand(picture, (0, 0, wider, higher), fill=paper_of(picture))
    return picture


def _cut(picture: Image, corners: Corners) -> Image:
    """Return a line as an image of its own, upright and straight."""
    from PIL import Image  # noqa: PLC0415 - it is loaded by now

    size = max(1, round(corners.length)), max(1, round(corners.height))
    top_left, top_right, bottom_right, bottom_left = corners
    quad = (*top_left, *bottom_left, *bottom_right, *top_right)
    return picture.transform(size, Image.Transform.QUAD, quad, resample=Image.Resampling.BICUBIC)
