"""Fonts and Tesseract's data: those of the system, or from Debian packages that are only unpacked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(sys.prefix) / "ocr-parts"
"""Where packages are unpacked, once; it goes with the environment."""
LANGUAGES: Final = ("eng", "deu", "fra", "spa", "chi_sim")
_FONT: Final = "usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
_CHINESE: Final = "usr/share/fonts/truetype/wqy/wqy-microhei.ttc"
_DATA: Final = "usr/share/tesseract-ocr/*/tessdata/eng.traineddata"
_PACKAGES: Final = (
    "fonts-dejavu-core",
    "fonts-wqy-microhei",
    *[f"tesseract-ocr-{language.replace('_', '-')}" for language in LANGUAGES],
)


class Parts(NamedTuple):
    """The fonts and data to measure with; None if they could not be found or fetched."""

    font: str | None
    """A font for all languages in Latin script; Pillow's own has only ASCII."""
    chinese: str | None
    data: str | None
    trouble: str = ""


def find_parts() -> Parts:
    """Return the parts, fetched if necessary. Needs a network and Debian's tools, but no root rights."""
    trouble = ""
    if not all(_found()):
        trouble = _fetch()
    font, chinese, data = _found()
    return Parts(
        str(font) if font else None,
        str(chinese) if chinese else None,
        str(data.parent) if data else None,
        trouble,
    )


def _found() -> tuple[Path | None, Path | None, Path | None]:
    font, chinese, data = (_place(pattern) for pattern in (_FONT, _CHINESE, _DATA))
    if data and not all((data.parent / f"{name}.traineddata").is_file() for name in LANGUAGES):
        data = next(iter(sorted(FOLDER.glob(_DATA))), None)
    return font, chinese, data


def _place(pattern: str) -> Path | None:
    places = [file for root in (Path("/"), FOLDER) for file in sorted(root.glob(pattern))]
    return places[0] if places else None


def _fetch() -> str:
    """Fetch and unpack packages; return a description of the failure."""
    apt, unpack = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or unpack is None:
        return "apt-get and dpkg-deb, which fetch fonts and data, are not installed"
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        ran = subprocess.run(
            [apt, "download", *_PACKAGES],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if ran.returncode:
            reason = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"apt-get download failed: {reason} (apt-get update, as root, may help)"
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run([unpack, "-x", package, FOLDER], check=True, timeout=60)
    return ""
