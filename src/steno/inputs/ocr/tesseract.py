"""Tesseract: much faster than networks that find lines, and less patient with images.

It reads what is upright and level. What it cannot read well is turned until it can: by the slope
of the lines it does find, by quarters, and a little to both sides. It needs data for each language,
which come with the system and not with the package.
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

from steno.errors import Unrecognised
from steno.inputs.ocr.apart import check_wanted
from steno.inputs.ocr.engine import Recognised
from steno.inputs.ocr.lines import Line, confidence_of, recognised
from steno.inputs.ocr.loading import with_variable
from steno.inputs.ocr.picture import open_picture, paper_of

if TYPE_CHECKING:
    from PIL.Image import Image

_USUAL: Final = ("eng", "deu", "fra", "spa", "ita", "por", "chi_sim")
"""What is read where nobody says which languages; each of them takes its time."""
_PREFIX: Final = "TESSDATA_PREFIX"
_PLACES: Final = (
    "/usr/share/tesseract-ocr/*/tessdata",  # Debian, Ubuntu
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
    f"{sys.prefix}/share/tessdata".replace("[", "[[]"),  # conda
)
_NO_LANGUAGE: Final = "osd"
"""Data by which scripts are told apart."""
_ENDING: Final = ".traineddata"
_TURNS: Final = (0, 90, 180, 270, 4, -4)
"""In degrees. Text that is a few degrees off is sometimes taken for a drawing."""
_SURE: Final = 0.8
"""What is read the right way round comes out above, the rest around 0.6."""
_LEVEL: Final = 0.5
"""How many degrees a line may slope."""
_MOST_LEVELLED: Final = 2
"""How often a slope is taken out; the first estimate may come from scraps of lines."""
_MOST_ENLARGED: Final = 2_000_000
"""Letters of a screen are too small for it; images up to so many pixels are doubled in size."""
_PATIENCE_MS: Final = 30_000
_IDEOGRAPHIC: Final = "[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
_NO_BLANK: Final = re.compile(f"(?<={_IDEOGRAPHIC}) (?={_IDEOGRAPHIC})")
"""Where it sees a gap, and nobody writes one."""


class _Read(NamedTuple):
    lines: list[Line]
    slope: float
    """Of its lines, in degrees, clockwise."""

    @property
    def confidence(self) -> float:
        return confidence_of(self.lines) or 0.0


@final
class TesseractOcr:
    """Recognises the languages that there are data for (extra: `steno[tesseract]`)."""

    def __init__(self, languages: tuple[str, ...] = ()) -> None:
        """Take languages as Tesseract names them (`deu`), or none for the usual ones."""
        self._languages = languages
        self._lock = Lock()

    @property
    def name(self) -> str:
        """`tesseract`, and which package brought it."""
        try:
            return f"tesseract (tesserocr {version('tesserocr')})"
        except PackageNotFoundError:
            return "tesseract"

    def recognise(self, image: bytes) -> Recognised:
        """Recognise what stands in an image, whichever way up. Raises Unrecognised."""
        with self._lock:
            picture = _enlarged(open_picture(image))
            best = _Read([], 0.0)
            for turn in _TURNS:
                read = self._read_level(_turned(picture, turn))
                if read.confidence > best.confidence:
                    best = read
                if best.confidence >= _SURE:
                    break
            return recognised(best.lines)

    def _read_level(self, picture: Image) -> _Read:
        """Read an image; if its lines slope, again without the slope."""
        read = self._read(picture)
        angle = 0.0
        for _ in range(_MOST_LEVELLED):
            if abs(read.slope) <= _LEVEL:
                break
            angle += read.slope
            level = self._read(_turned(picture, angle))
            # Lines that slope are lost rather than misread: that one is more sure tells nothing.
            if level.confidence < _SURE:
                break
            read = level
        return read

    def _read(self, picture: Image) -> _Read:
        check_wanted()
        api = self._api
        tesserocr = import_module("tesserocr")
        level = tesserocr.RIL.TEXTLINE
        api.SetImage(picture)
        if not api.Recognize(_PATIENCE_MS):
            raise Unrecognised(
                f"Tesseract did not finish within {_PATIENCE_MS // 1000} s: cut out the part with text"
            )
        found = api.GetIterator()
        if found is None or found.Empty(level):
            return _Read([], 0.0)
        lines: list[Line] = []
        slopes: list[float] = []
        for line in tesserocr.iterate_level(found, level):
            text = _NO_BLANK.sub("", line.GetUTF8Text(level))
            lines.append(Line(text, line.Confidence(level) / 100))
            if base := line.Baseline(level):
                (left, low), (right, high) = base
                slopes.append(degrees(atan2(high - low, right - left)))
        return _Read(lines, median(slopes) if slopes else 0.0)

    @cached_property
    def _api(self) -> Any:
        """What does the work, loaded on first use."""
        try:
            with with_variable("OMP_THREAD_LIMIT", "1"):  # more threads only make it slower
                tesserocr = import_module("tesserocr")
        except ModuleNotFoundError as exc:
            raise Unrecognised(
                "OCR with Tesseract needs tesserocr: pip install 'steno[tesseract]'"
            ) from exc
        except ImportError as exc:
            raise Unrecognised(f"tesserocr cannot be loaded: {exc}") from exc
        folder = _data_folder()
        languages = "+".join(_chosen(self._languages, _installed(folder)))
        api = tesserocr.PyTessBaseAPI(
            path=f"{folder}{os.sep}", lang=languages, psm=tesserocr.PSM.AUTO
        )
        api.SetVariable("debug_file", os.devnull)  # it would speak on standard error
        return api


# -- data ------------------------------------------------------------------------------------


def has_data(languages: Sequence[str]) -> bool:
    """Tell whether there are data for all of some languages, as Tesseract names them."""
    try:
        return bool(_chosen(languages, _installed(_data_folder())))
    except Unrecognised:
        return False


def _data_folder() -> Path:
    """Return the folder with data for languages; who names one means that one."""
    named = os.environ.get(_PREFIX)
    if named:
        places = [Path(named), Path(named) / "tessdata"]
    else:
        root = Path("/")
        places = [found for place in _PLACES for found in sorted(root.glob(place.lstrip("/")))]
    for place in reversed(places):  # the newest of several versions
        if _installed(place):
            return place
    where = f" in {named}, which {_PREFIX} names" if named else ""
    raise Unrecognised(
        f"Tesseract has no data for any language{where}: install some (Debian: apt install "
        f"tesseract-ocr-eng), or let {_PREFIX} name their folder"
    )


def _installed(folder: Path) -> list[str]:
    """Return the languages that there are data for."""
    names = [file.name.removesuffix(_ENDING) for file in folder.glob(f"*{_ENDING}")]
    return sorted([name for name in names if name != _NO_LANGUAGE])


def _chosen(wanted: Sequence[str], installed: Sequence[str]) -> Sequence[str]:
    """Return which languages to read."""
    if missing := [language for language in wanted if language not in installed]:
        raise Unrecognised(
            f"Tesseract has no data for {', '.join(missing)}, only for {', '.join(installed)}: "
            f"install them (Debian: apt install tesseract-ocr-{missing[0].replace('_', '-')})"
        )
    return wanted or [language for language in _USUAL if language in installed] or installed


# -- pixels ----------------------------------------------------------------------------------


def _enlarged(picture: Image) -> Image:
    width, height = picture.size
    return picture if width * height > _MOST_ENLARGED else picture.resize((width * 2, height * 2))


def _turned(picture: Image, angle: float) -> Image:
    """Turn an image counter-clockwise."""
    if angle == 0:
        return picture
    from PIL.Image import Resampling  # noqa: PLC0415 - it is loaded by now

    paper = paper_of(picture)
    return picture.rotate(angle, expand=True, fillcolor=paper, resample=Resampling.BICUBIC)
