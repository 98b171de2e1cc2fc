"""The text area of the prompt: Textual's editor, with keys in order and placeholders in one piece.

The owner decides first about each key; the editor only edits.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias, final

from rich.text import Text
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.geometry import Size
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location

from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.ui.completion_state import TypedWord, word_at

PromptImage: TypeAlias = str | bytes
"""The name of a file, or pasted bytes."""
_MAX_IMAGE_NAME: Final = 40
# Searched for in a returned prompt, because the user may have edited the text around placeholders.
_IMAGE_PLACEHOLDER: Final = re.compile(r"\[image [0-9]+: ([^\[\]\n]*)\]")


class ExpandedPrompt(NamedTuple):
    """A prompt with its placeholders expanded."""

    text: str
    """With pasted texts in place of their placeholders. The placeholders of images stay, so that
    the text can refer to them."""
    images: tuple[PromptImage, ...]
    """In the order of their placeholders."""
    text_without_images: str
    """The text without its images, for when they are long gone."""
    typed: str
    """The typed text with its placeholders."""


@final
class PastePlaceholders:
    """The placeholders of one prompt, and the texts and images that they stand for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, PromptImage] = {}
        self._pattern: re.Pattern[str] | None = None

    def add_text(self, text: str) -> str:
        """Add a long text; return its placeholder."""
        lines = text.removesuffix("\n").count("\n") + 1
        size = format_count(lines, "line", "lines")
        if lines == 1:
            size = format_count(len(text), "character", "characters")
        placeholder = f"[pasted {len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = text
        self._pattern = None
        return placeholder

    def add_image(self, image: PromptImage) -> str:
        """Add an image; return its placeholder."""
        number = len(self._images) + 1
        while (placeholder := f"[image {number}: {_image_label(image)}]") in self._images:
            number += 1  # the loaded text may contain a placeholder with this number
        self._images[placeholder] = image
        self._pattern = None
        return placeholder

    def load(self, text: str, images: Iterable[PromptImage]) -> str:
        """Load a text with its images; return it with a placeholder for each image."""
        unassigned = {match[0]: match[1] for match in _IMAGE_PLACEHOLDER.finditer(text)}
        added: list[str] = []
        for image in images:
            placeholder = next(
                (
                    placeholder
                    for placeholder, name in unassigned.items()
                    if name == _image_label(image)
                ),
                None,
            )
            if placeholder is None:
                added.append(self.add_image(image))
            else:
                del unassigned[placeholder]
                self._images[placeholder] = image
        self._pattern = None
        return " ".join([*([text] if text else []), *added])

    def clear(self) -> None:
        """Forget everything."""
        self._texts.clear()
        self._images.clear()
        self._pattern = None

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the placeholders in a line."""
        if pattern := self._placeholder_pattern():
            yield from (match.span() for match in pattern.finditer(line))

    def expand(self, text: str) -> ExpandedPrompt:
        """Return a text with its placeholders expanded."""
        pattern = self._placeholder_pattern()
        if pattern is None:
            return ExpandedPrompt(text, (), text, text)
        images = {
            match[0]: self._images[match[0]]
            for match in pattern.finditer(text)
            if match[0] in self._images
        }
        return ExpandedPrompt(
            pattern.sub(lambda match: self._texts.get(match[0], match[0]), text),
            (*images.values(),),
            pattern.sub(lambda match: self._texts.get(match[0], ""), text),
            text,
        )

    def _placeholder_pattern(self) -> re.Pattern[str] | None:
        if self._pattern is None and (self._texts or self._images):
            placeholders = [*self._texts, *self._images]
            self._pattern = re.compile("|".join(map(re.escape, placeholders)))
        return self._pattern


def _image_label(image: PromptImage) -> str:
    if isinstance(image, bytes):
        return "clipboard"
    name = terminal_line(Path(image).name) or "image"
    return truncate_to_width(name.translate({ord("["): "(", ord("]"): ")"}), _MAX_IMAGE_NAME)


class EditorOwner(Protocol):
    """Handles keys before the editor does; a method that returns a bool returns whether it did."""

    def enter(self) -> None:
        """Handle Enter."""
        ...

    def tab(self) -> bool:
        """Handle Tab."""
        ...

    def escape(self) -> bool:
        """Handle Esc."""
        ...

    def move_vertically(self, rows: int) -> bool:
        """Handle the arrow up (-1) or down (1)."""
        ...

    def search(self) -> None:
        """Search the history."""
        ...

    def paste(self, text: str) -> None:
        """Handle a paste."""
        ...

    def paste_clipboard(self) -> None:
        """Paste from the clipboard."""
        ...

    def text_changed(self) -> None:
        """Handle a change of the text."""
        ...


@final
class Editor(TextArea):
    """An editor of a few lines."""

    DEFAULT_CSS: ClassVar[str] = """
    Editor {
        width: 1fr;
        height: auto;
        padding: 0;
        background: transparent;
        & .editor--placeholder { color: $accent; text-style: bold; }
        & .text-area--placeholder { color: $text-muted; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"editor--placeholder"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "send", show=False),
        Binding("shift+enter,alt+enter,ctrl+j", "break_line", "new line", show=False),
        Binding("tab", "tab", "complete", show=False),
        Binding("escape", "escape", "close", show=False),
        Binding("ctrl+r", "search", "search history", show=False),
        Binding("ctrl+u", "clear", "clear", show=False),
        Binding("ctrl+v,alt+v", "paste", "paste", show=False),
    ]

    def __init__(self, owner: EditorOwner, placeholders: PastePlaceholders) -> None:
        super().__init__(compact=True, highlight_cursor_line=False)
        self._owner = owner
        self._placeholders = placeholders
        self.last_key_at: float = 0.0

    async def on_key(self, event: Key) -> None:
        """Run the action of a key at once.

        Otherwise the key would go up to the app and return as an action after later keys: a fast
        typist would delete the wrong letter.
        """
        self.last_key_at = time.monotonic()
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()
                return

    def on_paste(self, event: Paste) -> None:
        """Hand a paste to the owner."""
        self.last_key_at = time.monotonic()
        event.stop()
        event.prevent_default()
        self._owner.paste(event.text)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. An edit that touches a placeholder covers all of it."""
        start, end = (
            self._outside_placeholder(edit.top, 0),
            self._outside_placeholder(edit.bottom, 1),
        )
        if (start, end) != (edit.top, edit.bottom):
            edit = Edit(edit.text, start, end, edit.maintain_selection_offset)
        return super().edit(edit)

    def update_suggestion(self) -> None:
        """Notify the owner; Textual calls this after every change, before the next key."""
        self._owner.text_changed()

    def get_line(self, line_index: int) -> Text:
        """Return a line with its placeholders highlighted."""
        line = super().get_line(line_index)
        for start, end in self._placeholders.spans(line.plain):
            line.stylize(
                self.get_component_rich_style("editor--placeholder", partial=True), start, end
            )
        return line

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows are shown: all of them, up to a third of the screen.

        `max-height` would count for nothing: the widget around grows with this one.
        """
        return min(self.virtual_size.height, max(1, viewport.height // 3))

    def typed_word(self) -> TypedWord | None:
        """Return the word at the cursor."""
        row, column = self.cursor_location
        return word_at(
            self.document.get_line(row), column, is_whole_text=self.document.line_count == 1
        )

    def is_at_edge(self, rows: int) -> bool:
        """Return whether no line is above the cursor (negative), or below it."""
        if rows < 0:
            return self.navigator.is_first_wrapped_line(self.cursor_location)
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    def set_text(self, text: str, *, at_first_row: bool = False) -> None:
        """Show another text, with the cursor at its end, or at the end of its first row."""
        self.load_text(text)
        location = self.document.end
        if at_first_row:
            breaks = self.wrapped_document.get_offsets(0)
            location = (0, breaks[0] - 1 if breaks else len(self.document.get_line(0)))
        self.move_cursor(location)

    def insert_text(self, text: str) -> None:
        """Insert a text at the cursor, in place of the selection."""
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def break_after_backslash(self) -> bool:
        """Replace a backslash by a line break; two backslashes stay as they are."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column < len(line) or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            return False
        self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
        return True

    def action_enter(self) -> None:
        """Let the owner handle Enter: send, accept a suggestion or break the line."""
        self._owner.enter()

    def action_break_line(self) -> None:
        """Insert a line break."""
        self.insert_text("\n")

    def action_tab(self) -> None:
        """Complete the word, if there is a suggestion."""
        if not self._owner.tab():
            raise SkipAction

    def action_escape(self) -> None:
        """Close the open list; else pass the key on."""
        if not self._owner.escape():
            raise SkipAction

    def action_search(self) -> None:
        """Search the history."""
        self._owner.search()

    def action_clear(self) -> None:
        """Delete everything; it can be undone."""
        self.clear()

    def action_paste(self) -> None:
        """Paste from the clipboard of the desktop, images too."""
        self._owner.paste_clipboard()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up; on the first line, to the prompt before."""
        if select or not self._owner.move_vertically(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down; on the last line, to the prompt after."""
        if select or not self._owner.move_vertically(1):
            super().action_cursor_down(select)

    def _outside_placeholder(self, location: Location, side: int) -> Location:
        """Return a location, moved to an edge of the placeholder that contains it."""
        row, column = location
        if row >= self.document.line_count:
            return location
        for span in self._placeholders.spans(self.document.get_line(row)):
            if span[0] < column < span[1]:
                return row, span[side]
        return location
