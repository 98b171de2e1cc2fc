"""What stands in a prompt for something that is too long to stand there: `[pasted 1: 120 lines]`.

A mark is ordinary text. As long as it stands there as it was written, what it means is sent; so
deleting it is enough, and undoing that too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, final

from steno.printable import counted, cut, on_one_line

Image: TypeAlias = str | bytes
"""A file by its name, or what was pasted."""
_LONGEST_NAME: Final = 40
_LIKE_AN_IMAGE: Final = re.compile(r"\[image [0-9]+: ([^\[\]\n]*)\]")


class Meaning(NamedTuple):
    """A text with everything that its marks mean."""

    text: str
    """With pasted texts in place of their marks; the marks of images stay, to be spoken of."""
    images: tuple[Image, ...]
    """In the order in which they are mentioned."""
    text_without_images: str
    """The text without its images, for when they are long gone."""
    typed: str
    """The text as it stands there, with its marks."""


@final
class Pieces:
    """The marks of one prompt, and what they mean."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._pattern: re.Pattern[str] | None = None

    def add_text(self, text: str) -> str:
        """Take a long text, and return its mark."""
        lines = text.removesuffix("\n").count("\n") + 1
        size = counted(lines, "line", "lines")
        if lines == 1:
            size = counted(len(text), "character", "characters")
        mark = f"[pasted {len(self._texts) + 1}: {size}]"
        self._texts[mark] = text
        self._pattern = None
        return mark

    def add_image(self, image: Image) -> str:
        """Take an image, and return its mark."""
        number = len(self._images) + 1
        while (mark := f"[image {number}: {_name_of(image)}]") in self._images:
            number += 1  # a mark that came with a text has a number of its own
        self._images[mark] = image
        self._pattern = None
        return mark

    def load(self, text: str, images: Iterable[Image]) -> str:
        """Take a text with the images that it speaks of; return it with a mark for each."""
        free = {found[0]: found[1] for found in _LIKE_AN_IMAGE.finditer(text)}
        added: list[str] = []
        for image in images:
            mark = next((mark for mark, name in free.items() if name == _name_of(image)), None)
            if mark is None:
                added.append(self.add_image(image))
            else:
                del free[mark]
                self._images[mark] = image
        self._pattern = None
        return " ".join([*([text] if text else []), *added])

    def clear(self) -> None:
        """Forget everything."""
        self._texts.clear()
        self._images.clear()
        self._pattern = None

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield where marks stand in a line."""
        if pattern := self._placeholder_pattern():
            yield from (found.span() for found in pattern.finditer(line))

    def expand(self, text: str) -> Meaning:
        """Return what a text means with its marks."""
        pattern = self._placeholder_pattern()
        if pattern is None:
            return Meaning(text, (), text, text)
        images = {
            found[0]: self._images[found[0]]
            for found in pattern.finditer(text)
            if found[0] in self._images
        }
        return Meaning(
            pattern.sub(lambda found: self._texts.get(found[0], found[0]), text),
            (*images.values(),),
            pattern.sub(lambda found: self._texts.get(found[0], ""), text),
            text,
        )

    def _placeholder_pattern(self) -> re.Pattern[str] | None:
        if self._pattern is None and (self._texts or self._images):
            marks = [*self._texts, *self._images]
            self._pattern = re.compile("|".join(map(re.escape, marks)))
        return self._pattern


def _name_of(image: Image) -> str:
    if isinstance(image, bytes):
        return "clipboard"
    name = on_one_line(Path(image).name) or "image"
    return cut(name.translate({ord("["): "(", ord("]"): ")"}), _LONGEST_NAME)
