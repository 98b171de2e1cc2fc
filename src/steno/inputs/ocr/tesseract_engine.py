"""An OCR engine based on Tesseract, much faster than RapidOCR but more sensitive to the image.

Tesseract reads upright, level text. If it cannot read an image well, the image is rotated by the
slope of the lines found, by quarter turns, and by a few degrees in both directions. Tesseract needs
data for each language, which the operating system provides and the Python package does not contain.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import atan2, degrees
from pathlib import Path
from statistics import median
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from steno.errors import Unrecognised, install_command
from steno.inputs.ocr.engine import (
    OcrLine,
    RecognisedText,
    background_colour,
    decode_rgb_image,
    join_lines,
    mean_confidence,
    temporary_environment_variable,
)
from steno.tools.cancellable_thread import check_not_cancelled

if TYPE_CHECKING:
    from PIL.Image import Image

_DEFAULT_LANGUAGES: Final = ("eng", "deu", "fra", "spa", "ita", "por", "chi_sim")
"""The languages to recognise by default; each one makes recognition slower."""
_DATA_VARIABLE: Final = "TESSDATA_PREFIX"
_DATA_FOLDERS: Final = (
    "/usr/share/tesseract-ocr/*/tessdata",  # Debian, Ubuntu
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
    f"{sys.prefix}/share/tessdata".replace("[", "[[]"),  # conda
)
_ORIENTATION_DATA: Final = "osd"
"""The name of the data for detecting orientation and script, which are not a language."""
_DATA_SUFFIX: Final = ".traineddata"
_ROTATIONS: Final = (0, 90, 180, 270, 4, -4)
"""Angles to try, in degrees. Tesseract may mistake slightly rotated text for a drawing."""
_SURE_CONFIDENCE: Final = 0.8
"""Upright text has a higher confidence than this; other text has about 0.6."""
_MAX_SLOPE: Final = 0.5
"""The largest slope of a line, in degrees, that needs no correction."""
_MAX_STRAIGHTENINGS: Final = 2
"""The maximum number of slope corrections; the first estimate may use parts of lines only."""
_MAX_ENLARGED_PIXELS: Final = 2_000_000
"""Images up to this size are doubled; letters in screenshots are too small for Tesseract."""
_TIMEOUT_MS: Final = 30_000
_IDEOGRAPHIC: Final = "[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
_SPURIOUS_BLANK: Final = re.compile(f"(?<={_IDEOGRAPHIC}) (?={_IDEOGRAPHIC})")
"""Matches a space that Tesseract inserts between ideographs."""


class _RecognisedLines(NamedTuple):
    lines: list[OcrLine]
    slope: float
    """The slope of the lines in degrees, clockwise."""

    @property
    def confidence(self) -> float:
        return mean_confidence(self.lines) or 0.0


@final
class TesseractEngine:
    """Recognises the languages whose data are installed (extra: `steno-agent[tesseract]`)."""

    def __init__(self, languages: tuple[str, ...] = ()) -> None:
        """Create an engine for languages such as `deu`.

        By default, it recognises those of `_DEFAULT_LANGUAGES` whose data are installed, or else
        all installed languages.
        """
        self._languages = languages
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name `tesseract`, with the version of the tesserocr package if it is installed."""
        try:
            return f"tesseract (tesserocr {version('tesserocr')})"
        except PackageNotFoundError:
            return "tesseract"

    def recognise(self, data: bytes) -> RecognisedText:
        """Recognise the text in an image of any orientation. Raises Unrecognised if that fails."""
        with self._lock:
            image = _enlarge(decode_rgb_image(data))
            best = _RecognisedLines([], 0.0)
            for angle in _ROTATIONS:
                lines = self._read_level(_rotate(image, angle))
                if lines.confidence > best.confidence:
                    best = lines
                if best.confidence >= _SURE_CONFIDENCE:
                    break
            return join_lines(best.lines)

    def _read_level(self, image: Image) -> _RecognisedLines:
        """Read an image; if its lines slope, correct the slope and read it again."""
        lines = self._read(image)
        angle = 0.0
        for _ in range(_MAX_STRAIGHTENINGS):
            if abs(lines.slope) <= _MAX_SLOPE:
                break
            angle += lines.slope
            levelled = self._read(_rotate(image, angle))
            # Tesseract skips sloped lines, so a higher confidence before a correction means little.
            if levelled.confidence < _SURE_CONFIDENCE:
                break
            lines = levelled
        return lines

    def _read(self, image: Image) -> _RecognisedLines:
        check_not_cancelled()
        api = self._api
        tesserocr = import_module("tesserocr")
        level = tesserocr.RIL.TEXTLINE
        api.SetImage(image)
        if not api.Recognize(_TIMEOUT_MS):
            problem = f"Tesseract did not finish within {_TIMEOUT_MS // 1000} s"
            raise Unrecognised(f"{problem}; crop the image to its text", code="engine_timeout")
        found = api.GetIterator()
        if found is None or found.Empty(level):
            return _RecognisedLines([], 0.0)
        lines: list[OcrLine] = []
        slopes: list[float] = []
        for line in tesserocr.iterate_level(found, level):
            text = _SPURIOUS_BLANK.sub("", line.GetUTF8Text(level))
            lines.append(OcrLine(text, line.Confidence(level) / 100))
            if base := line.Baseline(level):
                (left, low), (right, high) = base
                slopes.append(degrees(atan2(high - low, right - left)))
        return _RecognisedLines(lines, median(slopes) if slopes else 0.0)

    @cached_property
    def _api(self) -> Any:
        """The Tesseract API, loaded on first use."""
        try:
            # More threads only make Tesseract slower.
            with temporary_environment_variable("OMP_THREAD_LIMIT", "1"):
                tesserocr = import_module("tesserocr")
        except ModuleNotFoundError as exc:
            message = f"OCR with Tesseract needs tesserocr: {install_command('tesseract')}"
            raise Unrecognised(message, code="missing_extra") from exc
        except ImportError as exc:
            message = f"tesserocr cannot be loaded: {exc}"
            raise Unrecognised(message, code="engine_not_loaded") from exc
        folder = _find_data_folder()
        languages = "+".join(_choose_languages(self._languages, _installed_languages(folder)))
        api = tesserocr.PyTessBaseAPI(
            path=f"{folder}{os.sep}", lang=languages, psm=tesserocr.PSM.AUTO
        )
        api.SetVariable("debug_file", os.devnull)  # Tesseract prints to stderr by default
        return api


# -- data ------------------------------------------------------------------------------------


def has_language_data(languages: Sequence[str]) -> bool:
    """Return whether the data for all these languages (Tesseract codes) are installed."""
    try:
        return bool(_choose_languages(languages, _installed_languages(_find_data_folder())))
    except Unrecognised:
        return False


def _find_data_folder() -> Path:
    """Return the folder with language data. Raises Unrecognised if there is none.

    If TESSDATA_PREFIX is set, only that folder and its subfolder `tessdata` are tried.
    """
    configured = os.environ.get(_DATA_VARIABLE)
    if configured:
        folders = [Path(configured), Path(configured) / "tessdata"]
    else:
        patterns = [folder.lstrip("/") for folder in _DATA_FOLDERS]
        folders = [found for pattern in patterns for found in sorted(Path("/").glob(pattern))]
    for folder in reversed(folders):  # the newest of several versions
        if _installed_languages(folder):
            return folder
    location = f" in {configured} (from {_DATA_VARIABLE})" if configured else ""
    raise Unrecognised(
        f"Tesseract has no language data{location}; install a language (Debian: apt install "
        f"tesseract-ocr-eng), or set {_DATA_VARIABLE} to the folder with the data",
        code="no_language_data",
    )


def _installed_languages(folder: Path) -> list[str]:
    """Return the languages with data in a folder."""
    names = [file.name.removesuffix(_DATA_SUFFIX) for file in folder.glob(f"*{_DATA_SUFFIX}")]
    return sorted([name for name in names if name != _ORIENTATION_DATA])


def _choose_languages(wanted: Sequence[str], installed: Sequence[str]) -> Sequence[str]:
    """Return the languages to recognise.

    Raises Unrecognised if the data for a wanted language are not installed.
    """
    if missing := [language for language in wanted if language not in installed]:
        raise Unrecognised(
            f"Tesseract has no data for {', '.join(missing)}, only for {', '.join(installed)}; "
            f"install the data (Debian: apt install tesseract-ocr-{missing[0].replace('_', '-')})",
            code="language_missing",
        )
    usual = [language for language in _DEFAULT_LANGUAGES if language in installed]
    return wanted or usual or installed


# -- pixels ----------------------------------------------------------------------------------


def _enlarge(image: Image) -> Image:
    width, height = image.size
    return image if width * height > _MAX_ENLARGED_PIXELS else image.resize((width * 2, height * 2))


def _rotate(image: Image, angle: float) -> Image:
    """Return an image rotated counter-clockwise by `angle` degrees."""
    if angle == 0:
        return image
    from PIL.Image import Resampling  # noqa: PLC0415 - already loaded

    background = background_colour(image)
    return image.rotate(angle, expand=True, fillcolor=background, resample=Resampling.BICUBIC)
