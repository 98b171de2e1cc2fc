"""Measure both engines, print a table, and write it to the guide.

It fails if the accuracy of an engine is below its minimum. If fonts or data are missing, it measures
less, reports that, and does not change the guide.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from steno.inputs import OcrReader, choose_ocr_engine
from tests.ocr_accuracy.fonts_and_data import find_parts
from tests.ocr_accuracy.text_samples import Sample, samples

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "images.md"
BEGIN, END = "<!-- accuracy -->\n", "<!-- /accuracy -->\n"


class Result(NamedTuple):
    """The result of an engine for an image."""

    accuracy: float
    cpu_s: float
    confidence: float
    language: str | None


def accuracy(found: str, text: str) -> float:
    """Return 1 minus the edit distance divided by the length of the text; line breaks are blanks."""
    left, right = " ".join(found.split()), " ".join(text.split())
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, start=1):
        above, row = row, [number]
        for column, other in enumerate(right, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (one != other)))
    return max(0.0, 1 - row[-1] / len(right))


def measure(ocr: OcrReader, sample: Sample) -> Result:
    started = time.process_time()
    reading = asyncio.run(ocr.read(sample.image))
    cpu_s = time.process_time() - started
    right = accuracy(reading.text, sample.text)
    return Result(right, cpu_s, reading.confidence or 0.0, reading.language)


def table(results: dict[str, dict[str, Result]]) -> list[str]:
    """Return a row for each image, and the average time per image."""
    names = list(results)
    engines = "".join([f" {name} | sure |" for name in names])
    lines = [f"| image |{engines}", f"|---|{'---|---|' * len(names)}"]
    for image in results[names[0]]:
        cells = [results[name][image] for name in names]
        shown = "".join([f" {one.accuracy:.3f} | {one.confidence:.2f} |" for one in cells])
        lines.append(f"| {image} |{shown}")
    means = [sum(one.cpu_s for one in of_one.values()) / len(of_one) for of_one in results.values()]
    return [*lines, "| CPU time an image |" + "".join([f" {mean:.1f} s | |" for mean in means])]


def main() -> int:
    parts = find_parts()
    engines = ["rapidocr"]
    if parts.data is not None:
        os.environ["TESSDATA_PREFIX"] = parts.data
        engines.append("tesseract")
    results: dict[str, dict[str, Result]] = {}
    wrong: list[str] = []
    for name in engines:
        ocr = OcrReader(choose_ocr_engine(name))
        asyncio.run(ocr.read(next(samples(parts)).image))  # loads the models
        results[name] = {}
        for sample in samples(parts):
            result = results[name][sample.name] = measure(ocr, sample)
            if result.accuracy < sample.floor:
                wrong.append(f"{name}, {sample.name}: {result.accuracy:.3f} < {sample.floor}")
            if result.language != sample.language and sample.floor:
                wrong.append(f"{name}, {sample.name}: language {result.language}")
    lines = table(results)
    sys.stdout.write("\n".join([*lines, "", *wrong, ""]))
    if parts.trouble:
        sys.stdout.write(f"Not everything could be measured: {parts.trouble}.\n")
    else:
        before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        written = f"{before}{BEGIN}" + "".join([f"{line}\n" for line in lines]) + f"{END}{after}"
        GUIDE.write_text(written, encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
