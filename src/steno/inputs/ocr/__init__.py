"""Recognition of text in images, on this machine. `steno.inputs` exports the public names.

The engines are loaded on first use, because most prompts have no image.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.inputs.ocr.reader import find_ocr_reader

__all__ = ["find_ocr_reader"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__, {"steno.inputs.ocr.reader": ("find_ocr_reader",)}
)
