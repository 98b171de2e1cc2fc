"""The widget where a person types, and everything that happens to words before they are sent.

It knows what was typed before, which commands there are, and what pasted texts and images stand
for. Whoever owns it is told what was sent, and asked what may be meant. Needed for the first
paint: nothing heavy is imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, final

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.events import DescendantBlur, DescendantFocus
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TextArea

from steno.printable import counted, on_one_line, printable
from steno.tui.prompt import clipboard
from steno.tui.prompt.completion import Choice, Completion, Offered, put_in
from steno.tui.prompt.editor import Editor
from steno.tui.prompt.history import History, Walk
from steno.tui.prompt.pasting import harmless, image_files
from steno.tui.prompt.pieces import Image, Meaning, Pieces
from steno.tui.prompt.popup import Popup

_MOST_LINES: Final = 8
_MOST_CHARACTERS: Final = 600
"""What is longer when pasted is shown as a mark."""
_MOST_FOUND: Final = 100


class _Mode(NamedTuple):
    """What is being typed, as the person sees it."""

    name: str
    """A class of the widget."""
    sign: str


_SAYING: Final = _Mode("-words", ">")
_SEARCHING: Final = _Mode("-search", "?")
_MODES: Final = {"!": _Mode("-shell", "!"), "/": _Mode("-command", "/")}
"""What begins with a sign."""
_ELSEWHERE: Final = "keys go above · Esc comes back here"
_NOT_TYPED: Final = "shell: pasted text is not run as a command; type it"
_NOT_ONE_LINE: Final = "shell: a command is one line; more of them are for a script"
_NO_IMAGES: Final = "shell: a command takes no images; name their files instead"


@final
class Prompt(Widget):
    """Where a person types. Enter sends; Shift+Enter, Alt+Enter and Ctrl+J begin another line."""

    DEFAULT_CSS = """
    Prompt {
        layout: horizontal;
        height: auto;
        background: $surface;

        & > .prompt--sign { width: 2; height: 1; color: $primary; text-style: bold; }
        &.-shell > .prompt--sign { color: $warning; }
        &.-command > .prompt--sign { color: $accent; }
        &.-search > .prompt--sign { color: $success; }
        &.-elsewhere { background: $background; & > .prompt--sign { color: $text-muted; } }
    }
    """

    hint: reactive[str] = reactive("")
    """What is shown where nothing is typed."""

    @dataclass
    class Submitted(Message):
        """Something is to be sent, with everything that was pasted."""

        text: str
        images: tuple[Image, ...]
        typed: str
        """The text as it stood there: what was pasted and is long is only a mark in it."""

    @dataclass
    class CompletionRequested(Message):
        """Something is being typed that may be completed; the answer goes to `offer`."""

        typed: str

    @dataclass
    class Notified(Message):
        """There is something that the person should know."""

        text: str

    def __init__(self, history: History | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._history = History() if history is None else history
        self._history_cursor: Walk | None = None
        self._placeholders = Pieces()
        self._completion = Completion()
        self._search_draft: str | None = None
        """What stood here before the search that is under way."""
        self._is_setting_text = False
        self._prompt_mode = _SAYING
        self._popup = Popup()
        self._sign = Static(_SAYING.sign, classes="prompt--sign", markup=False)
        self._editor = Editor(self, self._placeholders)

    def compose(self) -> ComposeResult:
        """Put the list above, and the sign before the lines."""
        yield self._popup
        yield self._sign
        yield self._editor

    # -- for the owner -------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What is typed, with marks as they are shown."""
        return self._editor.text

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to send."""
        return not self._editor.text.strip()

    @property
    def last_key_at(self) -> float:
        """When a key was last pressed here, on the clock of `time.monotonic`."""
        return self._editor.last_key_at

    def focus(self, scroll_visible: bool = True) -> Self:
        """Let keys come here."""
        self._editor.focus(scroll_visible)
        return self

    def focus_at_once(self) -> None:
        """Let keys come here, the one that is under way already; `focus` waits its turn."""
        self.screen.set_focus(self._editor)

    def load(self, text: str, images: Iterable[Image] = ()) -> None:
        """Put a text here in place of what is there, and images with it.

        What is there can be fetched with the arrow up, as if it had been sent.
        """
        self._add_to_history(self._editor.text if self._search_draft is None else self._search_draft)
        self._clear_state()
        words = harmless(text).text
        if words.startswith("!") and _is_long(words):
            words = self._placeholders.add_text(words)  # perhaps it was pasted: it must not be run
        self._put_text(self._placeholders.load(words, images))

    def clear(self) -> None:
        """Take everything away."""
        self.load("")

    def show_suggestions(self, typed: str, candidates: Sequence[Offered]) -> None:
        """Show what may be meant by something typed; nothing happens if it was typed before."""
        if self._search_draft is None and self._completion.set_suggestions(typed, candidates):
            self._popup.show(self._completion.choices, chosen=self._popup.chosen)

    def action_delete_right(self) -> None:
        """Delete the character behind the cursor."""
        self._editor.action_delete_right()

    def watch_hint(self) -> None:
        """Show another hint, as it is: it holds no markup."""
        hint = _ELSEWHERE if self.has_class("-elsewhere") else self.hint
        self._editor.placeholder = Content(on_one_line(hint))

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _show_focus_hint(self) -> None:
        """Invite nobody to type while keys go elsewhere; without a focus, the terminal has none."""
        focused = self.screen.focused
        self.set_class(focused not in (None, self._editor), "-elsewhere")
        self.watch_hint()

    # -- what keys are good for ----------------------------------------------------------------

    def enter(self) -> None:
        """Take what is chosen, break a line behind a backslash, or send."""
        word = self._completion.word
        chosen = self._popup.chosen
        if self._search_draft is not None:
            self._end_search(None if chosen is None else chosen.text)
        elif chosen is not None and word is not None and chosen.text != word.typed:
            self._accept_choice(chosen)
        elif not self._editor.break_behind_backslash() and not self.is_blank:
            self._submit()

    def tab(self) -> bool:
        """Take what is chosen, or ask what there is to choose from."""
        chosen = self._popup.chosen
        if self._search_draft is not None:
            self._end_search(None if chosen is None else chosen.text)
        elif chosen is not None:
            self._accept_choice(chosen)
        elif self._completion.word is not None:
            self._completion.reopen()
            self._update_popup()
        else:
            return False
        return True

    def escape(self) -> bool:
        """Close the list."""
        if self._search_draft is not None:
            self._end_search(self._search_draft)
        elif self._popup.chosen is not None:
            self._completion.dismiss()
            self._popup.hide()
        else:
            return False
        return True

    def move_vertically(self, rows: int) -> bool:
        """Go up or down in the list, or through what was typed before."""
        if self._popup.chosen is not None:
            self._popup.move(rows)
            return True
        if self._search_draft is not None or not self._editor.is_at_edge(rows):
            return False
        if self._history_cursor is None:
            if rows > 0:
                return False
            self._history_cursor = Walk(self._history.entries())
        found = (self._history_cursor.older if rows < 0 else self._history_cursor.newer)(self._editor.text)
        if found is None:
            return False
        # Going on goes on: what is above a text of several lines is what was typed before it.
        self._put_text(harmless(found).text, at_first_row=rows < 0)
        return True

    def search(self) -> None:
        """Search what was typed before for what is typed now; again, go on to what is older."""
        if self._search_draft is not None:
            self._popup.move(1)
            return
        if not self._history.entries():
            self._post_notice("history: nothing was typed before")
            return
        self._search_draft = self._editor.text
        self._completion.set_word(None)
        self._update_popup()

    def paste(self, text: str) -> None:
        """Put in what was pasted: as it is, or a mark for what is long, or for images."""
        if self._search_draft is not None:
            self._editor.type_in(on_one_line(text)[:_MOST_CHARACTERS])
            return
        if files := image_files(text):
            marks = [self._placeholders.add_image(str(file)) for file in files]
            self._editor.type_in("".join([f"{mark} " for mark in marks]))
            return
        words, left_out = harmless(text)
        if left_out:
            characters = counted(left_out, "character", "characters")
            self._post_notice(f"left out of what you pasted: {characters} that cannot be seen")
        if words.count("\n") == 1:
            words = words.removesuffix("\n")  # a line that was copied whole
        if _is_long(words):
            words = self._placeholders.add_text(words)
        self._editor.type_in(words)

    def paste_clipboard(self) -> None:
        """Fetch what is in the clipboard, while typing goes on."""
        self.run_worker(self._fetch_clipboard(), group="clipboard", exclusive=True)

    def text_changed(self) -> None:
        """Follow what is typed."""
        if not self._is_setting_text:
            self._update_popup()

    # -- how it is done ------------------------------------------------------------------------

    def _submit(self) -> None:
        """Send what is there, unless it is for the shell and not just typed."""
        meant = self._placeholders.expand(_trimmed(self._editor.text))
        if meant.typed.startswith("!") and (doubt := _doubt_about(meant)) is not None:
            self._post_notice(doubt)
            return
        self.clear()
        self.post_message(self.Submitted(meant.text, meant.images, meant.typed))

    def _add_to_history(self, text: str) -> None:
        """Note what was typed, for the arrow up."""
        words = self._placeholders.expand(_trimmed(text)).text_without_images
        if (trouble := self._history.add(_trimmed(words))) is not None:
            self._post_notice(trouble)

    def _clear_state(self) -> None:
        self._history_cursor = None
        self._search_draft = None
        self._placeholders.clear()

    def _put_text(self, text: str, *, at_first_row: bool = False) -> None:
        """Show a text, and no list: nobody is typing it."""
        self._is_setting_text = True
        self._editor.set_text(text, at_first_row=at_first_row)
        self._is_setting_text = False
        self._completion.set_word(None)
        self._popup.hide()
        self._show_mode()

    def _update_popup(self) -> None:
        """Show what may be meant by what is typed, and ask the owner, too."""
        self._show_mode()
        if self._search_draft is not None:
            found = self._history.search(self._editor.text)[:_MOST_FOUND]
            self._popup.show([Choice(harmless(entry).text) for entry in found])
            return
        word = self._editor.typed_word()
        if self._completion.set_word(word) and word is not None:
            self.post_message(self.CompletionRequested(word.typed))
        self._popup.show(self._completion.choices)

    @on(TextArea.SelectionChanged)
    def _leave_word(self, message: TextArea.SelectionChanged) -> None:
        """Close the list when the cursor leaves the word; going back does not open it again."""
        message.stop()
        word = self._editor.typed_word()
        now = self._completion.word
        if self._search_draft is None and now is not None and (word is None or word.start != now.start):
            self._completion.set_word(None)
            self._popup.hide()

    @on(TextArea.Changed)
    def _stop_text_changed(self, message: TextArea.Changed) -> None:
        message.stop()

    @on(Popup.Clicked)
    def _accept_clicked(self, message: Popup.Clicked) -> None:
        message.stop()
        self.tab()

    def _accept_choice(self, choice: Choice) -> None:
        """Put what is chosen in place of what is typed."""
        word = self._completion.word
        if word is None:
            return
        text = put_in(choice)
        row, _ = self._editor.cursor_location
        line = self._editor.document.get_line(row)
        end = word.end + (text.endswith(" ") and line[word.end : word.end + 1] == " ")
        self._completion.set_word(None)
        self._editor.replace(text, (row, word.start), (row, end), maintain_selection_offset=False)

    def _end_search(self, text: str | None) -> None:
        """Go on with what was found, or what stood here before; None: with what is typed."""
        self._search_draft = None
        self._put_text(self._editor.text if text is None else text)

    def _show_mode(self) -> None:
        first = self._editor.document.get_line(0)[:1]
        mode = _SEARCHING if self._search_draft is not None else _MODES.get(first, _SAYING)
        if mode == self._prompt_mode:
            return  # it would be drawn anew with every key
        self.set_class(False, self._prompt_mode.name)
        self.set_class(True, mode.name)
        self._sign.update(mode.sign)
        self._prompt_mode = mode

    def _post_notice(self, text: str) -> None:
        self.post_message(self.Notified(printable(text)))

    async def _fetch_clipboard(self) -> None:
        if image := await asyncio.to_thread(clipboard.read_image):
            self._editor.type_in(f"{self._placeholders.add_image(image)} ")
        elif text := await asyncio.to_thread(clipboard.read_text) or self.app.clipboard:
            self.paste(text)
        else:
            missing = clipboard.what_is_missing()
            self._post_notice(missing or "the clipboard holds neither an image nor text")


def _is_long(words: str) -> bool:
    return words.count("\n") >= _MOST_LINES or len(words) > _MOST_CHARACTERS


def _trimmed(text: str) -> str:
    return text.strip("\n").rstrip()


def _doubt_about(meant: Meaning) -> str | None:
    """Tell why something is not run in the shell: nobody should run what they have not seen."""
    if meant.images:
        return _NO_IMAGES
    if meant.text != meant.typed:
        return _NOT_TYPED
    return _NOT_ONE_LINE if "\n" in meant.typed else None
