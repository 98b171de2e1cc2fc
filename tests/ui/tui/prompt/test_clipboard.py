"""Pasting from the clipboard of the desktop, with fake clipboard programs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot

from steno.ui.tui import clipboard
from tests.ui.tui.prompt.prompt_app import PromptApp, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")

PNG = b"\x89PNG\r\n\x1a\nand so on"


class Programs:
    """A folder that is the whole PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cat = shutil.which("cat")

    def write(self, name: str, script: str) -> None:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def answer(self, name: str, *, image: bytes | None = None, text: str | None = None) -> None:
        """Write a program that returns an image, a text, or neither, and records its arguments."""
        cases = [f"printf '%s\\n' \"$*\" >> {self.folder}/asked"]
        for sign, answer in (("*png*|-", image), ("*", text)):
            reply = "exit 1"
            if answer is not None:
                data = answer if isinstance(answer, bytes) else answer.encode()
                file = self.folder / f"{name}.{len(cases)}"
                file.write_bytes(data)
                reply = f"exec {self._cat} {file}"
            cases.append(f'case "$*" in {sign}) {reply};; esac')
        self.write(name, "\n".join(cases))

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return made


def test_an_image_comes_from_xclip(programs: Programs) -> None:
    programs.answer("xclip", image=PNG, text="words")
    assert clipboard.read_image() == PNG
    assert clipboard.read_text() == "words"
    assert programs.asked == ["-selection clipboard -t image/png -o", "-selection clipboard -o"]


def test_wayland_comes_first(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    programs.answer("wl-paste", image=PNG)
    programs.answer("xclip", image=b"another", text="from X")
    assert clipboard.read_image() == PNG
    assert clipboard.read_text() == "from X"
    assert programs.asked == ["--type image/png", "-n", "-selection clipboard -o"]


@pytest.mark.parametrize("script", ["exit 1", "echo no image", "printf '\\211PNG'; exit 3", "exit"])
def test_bytes_that_are_not_an_image_give_none(programs: Programs, script: str) -> None:
    programs.write("xclip", script)
    assert clipboard.read_image() is None


def test_a_program_that_never_ends_is_ended(programs: Programs) -> None:
    programs.write("xclip", f"{shutil.which('sleep', path='/bin:/usr/bin')} 600")
    assert clipboard.read_image(limit_s=0.2) is None
    programs.write("xclip", f"exec >&-; exec {shutil.which('sleep', path='/bin:/usr/bin')} 600")
    assert clipboard.read_text(limit_s=0.2) is None


def test_a_program_that_never_stops_talking_is_ended(programs: Programs) -> None:
    programs.write("xclip", f"exec {shutil.which('yes', path='/bin:/usr/bin')}")
    assert clipboard.read_text(limit_s=20) is None


def test_a_missing_clipboard_program_is_named(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clipboard.read_image() is None
    monkeypatch.setattr("sys.platform", "linux")
    assert clipboard.missing_program_hint() == "to paste images, install xclip"
    programs.answer("xclip")
    assert clipboard.missing_program_hint() is None
    monkeypatch.delenv("DISPLAY")
    assert "no clipboard found" in (clipboard.missing_program_hint() or "")


# -- in the prompt -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["ctrl+v", "alt+v"])
def test_an_image_in_the_clipboard_is_sent(programs: Programs, key: str) -> None:
    programs.answer("xclip", image=PNG, text="words")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "what is ")
        await pilot.press(key)
        await app.workers.wait_for_complete()
        assert app.prompt.text == "what is [image 1: clipboard] "
        await pilot.press("enter")

    assert run_steps(flow).sent == [("what is [image 1: clipboard]", (PNG,))]


def test_text_in_the_clipboard_is_pasted_like_any_other(programs: Programs) -> None:
    programs.answer("xclip", text="a\x1b[31m\r\nb")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+v")
        await app.workers.wait_for_complete()
        assert app.prompt.text == "a\nb"
        programs.answer("xclip", text="line\n" * 100)
        await pilot.press("ctrl+v")
        await app.workers.wait_for_complete()
        assert app.prompt.text == "a\nb[pasted 1: 100 lines]"

    run_steps(flow)


def test_text_copied_in_steno_is_pasted_without_a_system_clipboard(programs: Programs) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.copy_to_clipboard("copied")
        await pilot.press("ctrl+v")
        await app.workers.wait_for_complete()
        assert app.prompt.text == "copied"

    assert run_steps(flow).notices == []


def test_an_empty_clipboard_is_reported(programs: Programs) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+v")
        await app.workers.wait_for_complete()
        programs.answer("xclip")
        await pilot.press("ctrl+v")
        await app.workers.wait_for_complete()

    told = run_steps(flow).notices
    assert [text.split(",")[0] for text in told] == [
        "to paste images",
        "the clipboard contains no image and no text",
    ]
