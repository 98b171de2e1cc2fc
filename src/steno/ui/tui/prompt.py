"""The prompt widget, with editing, history, completion and pasting.

The widget posts a message when the user sends a prompt, and when it needs suggestions. The first
paint waits for this module, so it imports nothing slow. `ui.prompt_state` contains the logic that
needs no widget.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self, final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Click, DescendantBlur, DescendantFocus, Key, Paste
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Edit, EditResult, Location

from steno.app.commands.table import Suggestion
from steno.render.quantities import format_count
from steno.render.terminal_text import (
    display_width,
    terminal_line,
    terminal_text,
    truncate_to_width,
)
from steno.ui.prompt_state import (
    CompletionState,
    ExpandedPrompt,
    HistoryCursor,
    PastePlaceholders,
    PromptHistory,
    PromptImage,
    TypedWord,
    image_files,
    insertion_text,
    sanitize_pasted,
    word_at,
)
from steno.ui.tui import clipboard

MAX_POPUP_ROWS: Final = 8
_POPUP_KEYS: Final = "Tab/Enter accept · Esc close"
_MAX_CHOICE_LENGTH: Final = 400
"""The maximum number of characters of a suggestion; no terminal shows more on a line."""
_MAX_PASTED_LINES: Final = 8
_MAX_PASTED_CHARACTERS: Final = 600
"""Longer pasted text is shown as a placeholder."""
_MAX_FOUND: Final = 100
_UNFOCUSED_HINT: Final = "focus is above · Esc back to the prompt"


@final
class Popup(Widget, can_focus=False):
    """A list of suggestions above the prompt, with one selected suggestion."""

    DEFAULT_CSS: ClassVar[str] = """
    Popup {
        display: none; overlay: screen; offset-y: -100%; width: 100%; height: auto;
        background: $panel; color: $foreground;
        & .popup--about { color: $text-muted; }
        & .popup--chosen {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"popup--about", "popup--chosen"}

    class SuggestionClicked(Message):
        """Posted when the user clicks a suggestion, which is then selected."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: Sequence[Suggestion] = ()
        self._index = 0
        self._first_row = 0

    @property
    def chosen(self) -> Suggestion | None:
        """The selected suggestion; None if the list is closed."""
        return self._choices[self._index] if self._choices else None

    def show(self, choices: Sequence[Suggestion], *, chosen: Suggestion | None = None) -> None:
        """Show suggestions; hide the list if there are none.

        Select `chosen`, or the first suggestion if `chosen` is not one of them.
        """
        if not choices and not self._choices:
            return
        is_another_size = _popup_height(choices) != _popup_height(self._choices)
        self._index = choices.index(chosen) if chosen in choices else 0
        self._choices = choices
        self._scroll()
        self.display = bool(choices)
        self.refresh(layout=is_another_size)

    def move(self, rows: int) -> None:
        """Move the selection by a number of rows, wrapping around."""
        if self._choices:
            self._index = (self._index + rows) % len(self._choices)
            self._scroll()
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows of the list."""
        return _popup_height(self._choices)

    def render_line(self, y: int) -> Strip:
        """Draw a suggestion or, in the last row, the number of hidden suggestions and the keys."""
        index, width = self._first_row + y, self.size.width
        if y == _row_count(self._choices):
            hidden = len(self._choices) - y
            footer = f"  … {hidden} more · {_POPUP_KEYS}" if hidden else f"  {_POPUP_KEYS}"
            segment = Segment(truncate_to_width(footer, width), self._about_style)
            return Strip([segment]).adjust_cell_length(width, self.rich_style)
        if index >= len(self._choices):
            return Strip.blank(width, self.rich_style)
        is_chosen = index == self._index
        style = self.get_component_rich_style("popup--chosen") if is_chosen else self.rich_style
        about_style = style if is_chosen else self._about_style
        choice = self._choices[index]
        text = truncate_to_width(_choice_text(choice), width - 2)
        # The arrow is for terminals without colours.
        row = f"{'▸' if is_chosen else ' '} {text}"
        # Descriptions start in the same column, except after a long suggestion.
        shown = self._choices[self._first_row : self._first_row + MAX_POPUP_ROWS]
        column = min(max(display_width(_choice_text(other)) for other in shown), width // 2)
        row += " " * (2 + column - display_width(row))
        about = f"  {choice.description}" if choice.description else ""
        about = truncate_to_width(about, max(0, width - display_width(row)))
        segments = [Segment(row, style), Segment(about, about_style)]
        return Strip(segments).adjust_cell_length(width, style)

    def on_click(self, event: Click) -> None:
        """Select the clicked suggestion."""
        event.stop()
        if event.y < _row_count(self._choices):
            self._index = self._first_row + event.y
            self.refresh()
            self.post_message(self.SuggestionClicked())

    @property
    def _about_style(self) -> Style:
        return self.get_component_rich_style("popup--about")

    def _scroll(self) -> None:
        last_top = max(0, len(self._choices) - MAX_POPUP_ROWS)
        self._first_row = min(
            max(self._first_row, self._index - MAX_POPUP_ROWS + 1, 0), self._index, last_top
        )


def _row_count(choices: Sequence[Suggestion]) -> int:
    return min(MAX_POPUP_ROWS, len(choices))


def _popup_height(choices: Sequence[Suggestion]) -> int:
    """Return the number of rows, including the last row with the keys."""
    return _row_count(choices) + bool(choices)


def _choice_text(choice: Suggestion) -> str:
    return terminal_line(f"{choice.text[:_MAX_CHOICE_LENGTH]} {choice.argument}")


# -- the editor --------------------------------------------------------------------------------


@final
class _Editor(TextArea):
    """The text area of the prompt, which edits each placeholder as a whole."""

    DEFAULT_CSS: ClassVar[str] = """
    _Editor {
        width: 1fr; height: auto; padding: 0; background: transparent;
        & .editor--placeholder { color: $accent; text-style: bold; }
        & .text-area--placeholder { color: $text-muted; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"editor--placeholder"}
    BINDINGS: ClassVar[list[BindingType]] = [
        ("shift+enter,alt+enter,ctrl+j", "break_line"),
        ("ctrl+u", "clear"),
    ]

    def __init__(self, owner: Prompt, placeholders: PastePlaceholders) -> None:
        super().__init__(compact=True, highlight_cursor_line=False)
        self._owner = owner
        self._placeholders = placeholders
        self.last_key_at: float = 0.0

    async def on_key(self, event: Key) -> None:
        """Run the action bound to a key at once; bindings of the prompt take precedence.

        Textual would run the action after later keys, and a fast typist would delete the wrong
        letter.
        """
        self.last_key_at = time.monotonic()
        for widget in (self._owner, self):
            for binding in widget._bindings.key_to_bindings.get(event.key, ()):
                if await self.app.run_action(binding.action, widget):
                    event.stop()
                    event.prevent_default()
                    return

    def on_paste(self, event: Paste) -> None:
        self.last_key_at = time.monotonic()
        event.stop()
        event.prevent_default()
        self._owner.paste(event.text)

    def edit(self, edit: Edit) -> EditResult:
        """Apply an edit, extended so that it replaces placeholders only as a whole."""
        start = self._outside_placeholder(edit.top, 0)
        end = self._outside_placeholder(edit.bottom, 1)
        if (start, end) != (edit.top, edit.bottom):
            edit = Edit(edit.text, start, end, edit.maintain_selection_offset)
        return super().edit(edit)

    def update_suggestion(self) -> None:
        """Notify the prompt; Textual calls this after each text change, before the next key."""
        self._owner.text_changed()

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        for span in self._placeholders.spans(line.plain):
            style = self.get_component_rich_style("editor--placeholder", partial=True)
            line.stylize(style, *span)
        return line

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows to show, at most a third of the screen.

        `max-height` has no effect here, because the parent grows with this widget.
        """
        return min(self.virtual_size.height, max(1, viewport.height // 3))

    def typed_word(self) -> TypedWord | None:
        row, column = self.cursor_location
        is_whole_text = self.document.line_count == 1
        return word_at(self.document.get_line(row), column, is_whole_text=is_whole_text)

    def is_at_edge(self, rows: int) -> bool:
        """Return whether the cursor is in the first row (if `rows` is negative) or the last row."""
        if rows < 0:
            return self.navigator.is_first_wrapped_line(self.cursor_location)
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    def set_text(self, text: str, *, at_first_row: bool = False) -> None:
        """Replace the text, and move the cursor to its end or to the end of its first row."""
        self.load_text(text)
        location = self.document.end
        if at_first_row:
            breaks = self.wrapped_document.get_offsets(0)
            location = (0, breaks[0] - 1 if breaks else len(self.document.get_line(0)))
        self.move_cursor(location)

    def insert_text(self, text: str) -> None:
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def break_after_backslash(self) -> bool:
        """Replace a backslash at the end of the line with a line break; return whether it existed.

        The cursor must be at the end of the line. An even number of backslashes is not changed.
        """
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column < len(line) or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            return False
        self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
        return True

    def action_break_line(self) -> None:
        self.insert_text("\n")

    def action_clear(self) -> None:
        """Delete the whole text, as an edit that can be undone."""
        self.clear()

    def _outside_placeholder(self, location: Location, side: int) -> Location:
        """Return a location that is not inside a placeholder.

        If a placeholder contains `location`, return its start (if `side` is 0) or end (1).
        """
        row, column = location
        if row >= self.document.line_count:
            return location
        for span in self._placeholders.spans(self.document.get_line(row)):
            if span[0] < column < span[1]:
                return row, span[side]
        return location


# -- the prompt --------------------------------------------------------------------------------


_CLASS_BY_SIGN: Final = {">": "-text", "?": "-search", "!": "-shell", "/": "-command"}
"""The CSS class of the prompt for each sign, which indicates the kind of the typed text."""


@final
class Prompt(Widget):
    """The widget in which the user types prompts.

    Enter sends the prompt; Shift+Enter, Alt+Enter and Ctrl+J insert a line break.
    """

    DEFAULT_CSS: ClassVar[str] = """
    Prompt {
        layout: horizontal; height: auto; background: $surface;
        & > .prompt--sign { width: 2; height: 1; color: $primary; text-style: bold; }
        &.-shell > .prompt--sign { color: $warning; }
        &.-command > .prompt--sign { color: $accent; }
        &.-search > .prompt--sign { color: $success; }
        &.-unfocused { background: $background; & > .prompt--sign { color: $text-muted; } }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "enter"),
        ("tab", "tab"),
        ("escape", "escape"),
        ("up", "move_vertically(-1)"),
        ("down", "move_vertically(1)"),
        ("ctrl+r", "search"),
        ("ctrl+v,alt+v", "paste_clipboard"),
    ]

    hint: reactive[str] = reactive("")
    """The text that an empty prompt displays."""

    @dataclass
    class Submitted(Message):
        """Posted when the user sends the prompt, with all pasted text and images."""

        text: str
        images: tuple[PromptImage, ...]
        typed: str
        """The typed text, in which long pasted text is only a placeholder."""

    @dataclass
    class CompletionRequested(Message):
        """Posted when a typed word can be completed; answer it with `show_suggestions`."""

        typed: str

    @dataclass
    class Notified(Message):
        """Posted to show a notice to the user."""

        text: str

    def __init__(self, history: PromptHistory | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._history = PromptHistory() if history is None else history
        self._history_cursor: HistoryCursor | None = None
        self._placeholders = PastePlaceholders()
        self._completion = CompletionState()
        self._search_draft: str | None = None
        """The text of the prompt before the current search; None if there is no search."""
        self._is_setting_text = False
        self._shown_sign = ">"
        self._popup = Popup()
        self._sign = Static(self._shown_sign, classes="prompt--sign", markup=False)
        self._editor = _Editor(self, self._placeholders)

    def compose(self) -> ComposeResult:
        """Yield the list of suggestions (drawn above the prompt), the sign and the editor."""
        yield from (self._popup, self._sign, self._editor)

    # -- public methods ------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text of the prompt, with placeholders for long pasted text and images."""
        return self._editor.text

    @property
    def is_blank(self) -> bool:
        """Whether the prompt is empty or contains only whitespace."""
        return not self._editor.text.strip()

    @property
    def last_key_at(self) -> float:
        """The time of the last keypress or paste, on the clock of `time.monotonic`."""
        return self._editor.last_key_at

    def focus(self, scroll_visible: bool = True) -> Self:
        """Focus the editor."""
        self._editor.focus(scroll_visible)
        return self

    def focus_at_once(self) -> None:
        """Focus the editor before the current key is handled; `focus` takes effect later."""
        self.screen.set_focus(self._editor)

    def load(self, text: str, images: Iterable[PromptImage] = ()) -> None:
        """Replace the current text with a text and its images.

        The current text is added to the history, as if it had been sent.
        """
        before = self._editor.text if self._search_draft is None else self._search_draft
        typed = self._placeholders.expand(_trim_prompt(before)).text_without_images
        if (failure := self._history.add(_trim_prompt(typed))) is not None:
            self._post_notice(failure)
        self._history_cursor = self._search_draft = None
        self._placeholders.clear()
        clean_text = sanitize_pasted(text).text
        if clean_text.startswith("!") and _is_long_paste(clean_text):
            # Long text may have been pasted, so it must not run as a shell command.
            clean_text = self._placeholders.add_text(clean_text)
        self._put_text(self._placeholders.load(clean_text, images))

    def clear(self) -> None:
        """Remove the text, after adding it to the history."""
        self.load("")

    def show_suggestions(self, typed: str, candidates: Sequence[Suggestion]) -> None:
        """Show suggestions for a typed word; ignore them if the word has changed."""
        if self._search_draft is None and self._completion.set_suggestions(typed, candidates):
            self._popup.show(self._completion.choices, chosen=self._popup.chosen)

    def action_delete_right(self) -> None:
        """Delete the character after the cursor."""
        self._editor.action_delete_right()

    def watch_hint(self) -> None:
        """Show the hint, without markup."""
        hint = _UNFOCUSED_HINT if self.has_class("-unfocused") else self.hint
        self._editor.placeholder = Content(terminal_line(hint))

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _show_focus_hint(self) -> None:
        """Replace the hint while another widget has the focus.

        If no widget has the focus, the terminal window is not focused, and `hint` is shown.
        """
        focused = self.screen.focused
        self.set_class(focused not in (None, self._editor), "-unfocused")
        self.watch_hint()

    # -- keys -----------------------------------------------------------------------------

    # The editor runs these actions at once. An action that does not apply raises SkipAction; the
    # editor or the app then handles the key.

    def action_enter(self) -> None:
        """Accept the selected suggestion, break the line after a backslash, or send."""
        word, chosen = self._completion.word, self._popup.chosen
        if self._search_draft is not None:
            self._end_search(None if chosen is None else chosen.text)
        elif chosen is not None and word is not None and chosen.text != word.typed:
            self._accept_choice(chosen)
        elif not self._editor.break_after_backslash() and not self.is_blank:
            self._submit()

    def action_tab(self) -> None:
        """Accept the selected suggestion, or request suggestions."""
        chosen = self._popup.chosen
        if self._search_draft is not None:
            self._end_search(None if chosen is None else chosen.text)
        elif chosen is not None:
            self._accept_choice(chosen)
        elif self._completion.word is not None:
            self._completion.reopen()
            self._update_popup()
        else:
            raise SkipAction

    def action_escape(self) -> None:
        """Close the list of suggestions, or cancel the search."""
        if self._search_draft is not None:
            self._end_search(self._search_draft)
        elif self._popup.chosen is not None:
            self._completion.dismiss()
            self._popup.show(())
        else:
            raise SkipAction

    def action_move_vertically(self, rows: int) -> None:
        """Move in the list of suggestions or, from the first or last row, through the history."""
        if self._popup.chosen is not None:
            self._popup.move(rows)
            return
        if self._search_draft is not None or not self._editor.is_at_edge(rows):
            raise SkipAction
        if self._history_cursor is None:
            if rows > 0:
                raise SkipAction
            self._history_cursor = HistoryCursor(self._history.entries())
        entry = self._history_cursor.move(rows, self._editor.text)
        if entry is None:
            raise SkipAction
        # With the cursor in the first row, the same key continues to the previous prompt.
        self._put_text(sanitize_pasted(entry).text, at_first_row=rows < 0)

    def action_search(self) -> None:
        """Search the history for the typed text; during a search, select an older match."""
        if self._search_draft is not None:
            self._popup.move(1)
            return
        if not self._history.entries():
            self._post_notice("the prompt history is empty")
            return
        self._search_draft = self._editor.text
        self._completion.set_word(None)
        self._update_popup()

    def action_paste_clipboard(self) -> None:
        """Paste text or an image from the desktop clipboard, which is read in a thread."""
        self.run_worker(self._fetch_clipboard(), group="clipboard", exclusive=True)

    def paste(self, text: str) -> None:
        """Insert pasted text, or a placeholder for long text and for images."""
        if self._search_draft is not None:
            self._editor.insert_text(terminal_line(text)[:_MAX_PASTED_CHARACTERS])
            return
        if files := image_files(text):
            placeholders = [self._placeholders.add_image(str(file)) for file in files]
            self._editor.insert_text("".join([f"{placeholder} " for placeholder in placeholders]))
            return
        pasted, removed = sanitize_pasted(text)
        if removed:
            characters = format_count(removed, "invisible character", "invisible characters")
            self._post_notice(f"removed {characters} from the pasted text")
        if pasted.count("\n") == 1:
            pasted = pasted.removesuffix("\n")  # a single line that was copied with its line break
        if _is_long_paste(pasted):
            pasted = self._placeholders.add_text(pasted)
        self._editor.insert_text(pasted)

    def text_changed(self) -> None:
        """Update the suggestions after the user has changed the text."""
        if not self._is_setting_text:
            self._update_popup()

    # -- editing -------------------------------------------------------------------------------

    def _submit(self) -> None:
        """Send the prompt; a shell command with pasted text, images or several lines is refused."""
        expanded = self._placeholders.expand(_trim_prompt(self._editor.text))
        if expanded.typed.startswith("!") and (refusal := _shell_refusal(expanded)) is not None:
            self._post_notice(refusal)
            return
        self.clear()
        self.post_message(self.Submitted(expanded.text, expanded.images, expanded.typed))

    def _put_text(self, text: str, *, at_first_row: bool = False) -> None:
        """Set the text without opening the list of suggestions."""
        self._is_setting_text = True
        self._editor.set_text(text, at_first_row=at_first_row)
        self._is_setting_text = False
        self._completion.set_word(None)
        self._popup.show(())
        self._show_mode()

    def _update_popup(self) -> None:
        """Show the matches of the search, or suggestions for the typed word, and request more."""
        self._show_mode()
        if self._search_draft is not None:
            entries = self._history.search(self._editor.text)[:_MAX_FOUND]
            self._popup.show([Suggestion(sanitize_pasted(entry).text) for entry in entries])
            return
        word = self._editor.typed_word()
        if self._completion.set_word(word) and word is not None:
            self.post_message(self.CompletionRequested(word.typed))
        self._popup.show(self._completion.choices)

    @on(TextArea.SelectionChanged)
    def _leave_word(self, message: TextArea.SelectionChanged) -> None:
        """Close the list when the cursor leaves the word; moving back does not reopen the list."""
        message.stop()
        word, current = self._editor.typed_word(), self._completion.word
        has_left = current is not None and (word is None or word.start != current.start)
        if self._search_draft is None and has_left:
            self._completion.set_word(None)
            self._popup.show(())

    @on(TextArea.Changed)
    def _stop_text_changed(self, message: TextArea.Changed) -> None:
        message.stop()

    @on(Popup.SuggestionClicked)
    def _accept_clicked(self, message: Popup.SuggestionClicked) -> None:
        message.stop()
        self.action_tab()

    def _accept_choice(self, choice: Suggestion) -> None:
        word = self._completion.word
        if word is None:
            return
        text = insertion_text(choice)
        row, _ = self._editor.cursor_location
        line = self._editor.document.get_line(row)
        end = word.end + (text.endswith(" ") and line[word.end : word.end + 1] == " ")
        self._completion.set_word(None)
        self._editor.replace(text, (row, word.start), (row, end), maintain_selection_offset=False)

    def _end_search(self, text: str | None) -> None:
        """End the search and set the text; if `text` is None, the typed search text remains."""
        self._search_draft = None
        self._put_text(self._editor.text if text is None else text)

    def _show_mode(self) -> None:
        first = self._editor.document.get_line(0)[:1]
        sign = "?" if self._search_draft is not None else first if first in ("!", "/") else ">"
        if sign != self._shown_sign:  # avoid a redraw on every key
            self.remove_class(_CLASS_BY_SIGN[self._shown_sign])
            self.add_class(_CLASS_BY_SIGN[sign])
            self._sign.update(sign)
            self._shown_sign = sign

    def _post_notice(self, text: str) -> None:
        self.post_message(self.Notified(terminal_text(text)))

    async def _fetch_clipboard(self) -> None:
        if image := await asyncio.to_thread(clipboard.read_image):
            self._editor.insert_text(f"{self._placeholders.add_image(image)} ")
        elif text := await asyncio.to_thread(clipboard.read_text) or self.app.clipboard:
            self.paste(text)
        else:
            missing = clipboard.missing_program_hint()
            self._post_notice(missing or "the clipboard contains no image and no text")


def _is_long_paste(pasted: str) -> bool:
    return pasted.count("\n") >= _MAX_PASTED_LINES or len(pasted) > _MAX_PASTED_CHARACTERS


def _trim_prompt(text: str) -> str:
    return text.strip("\n").rstrip()


def _shell_refusal(expanded: ExpandedPrompt) -> str | None:
    """Return the reason to refuse a shell command; None if it is accepted.

    The whole command must be visible on one line.
    """
    if expanded.images:
        return "shell: a command cannot contain images; use the names of the image files instead"
    if expanded.text != expanded.typed:
        return "shell: pasted text is not run as a command; type the command"
    if "\n" in expanded.typed:
        return "shell: a command must be one line; put several lines in a script"
    return None
