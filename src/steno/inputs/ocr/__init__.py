"""The text in an image, recognised here and offline.

`engine_for()` finds an engine, `Ocr(engine)` reads images with it. Importing this loads no engine.
"""

from steno.inputs.ocr.engine import Engine, Recognised, Unrecognised
from steno.inputs.ocr.reading import ENGINES, Ocr, Reading, engine_for

__all__ = ["ENGINES", "Engine", "Ocr", "Reading", "Recognised", "Unrecognised", "engine_for"]
