"""The prompt history: stored in a file, browsed, searched."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot

from steno.ui.prompt_state import HistoryCursor, PromptHistory
from tests.ui.tui.prompt.prompt_app import PromptApp, paste, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")


def _filled(file: Path, *entries: str) -> Path:
    history = PromptHistory(file)
    for entry in entries:
        assert history.add(entry) is None
    return file


def test_the_prompt_history_is_there_in_the_next_session(tmp_path: Path) -> None:
    file = _filled(tmp_path / "new" / "history.jsonl", "one", "two\nlines \u2028 and more", "three")
    assert PromptHistory(file).entries() == ["one", "two\nlines \u2028 and more", "three"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_same_twice_counts_once_and_blank_or_huge_texts_not_at_all(tmp_path: Path) -> None:
    file = _filled(tmp_path / "h", "one", "one", "  \n", "x" * 20_001, "two", "one", "x" * 20_000)
    assert PromptHistory(file).entries() == ["one", "two", "one", "x" * 20_000]
    PromptHistory(file).add("x" * 20_000)  # the last line of the file, by another terminal
    assert len(file.read_bytes().splitlines()) == 4


def test_damaged_lines_are_passed_over_and_a_cut_off_one_stays_alone(tmp_path: Path) -> None:
    file = tmp_path / "h"
    file.write_bytes(b'{"text":"one"}\n\xff\xfe\n[1]\n{"text":5}\n\n{"text":"two","at":1}\n{"te')
    assert PromptHistory(file).add("three") is None
    assert PromptHistory(file).entries() == ["one", "two", "three"]


def test_only_the_latest_thousand_of_a_big_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "h"
    lines = [json.dumps({"text": f"{number} {'x' * 3_000}"}) for number in range(1_500)]
    file.write_text("\n".join(lines) + "\n")
    entries = PromptHistory(file).entries()
    assert entries[-1].startswith("1499 ")
    assert 500 < len(entries) < 1_000  # as many as two megabytes hold, each of them whole
    assert all(len(entry.split()[1]) == 3_000 for entry in entries)
    short = _filled(tmp_path / "short", *[str(number) for number in range(1_100)])
    assert PromptHistory(short).entries() == [str(number) for number in range(100, 1_100)]


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "history.jsonl")
    told = history.add("one")
    assert told is not None
    assert "cannot be saved" in told
    assert history.add("two") is None
    assert history.entries() == ["one", "two"]


def test_a_file_that_is_none_is_no_trouble(tmp_path: Path) -> None:
    assert PromptHistory(tmp_path).entries() == []
    assert PromptHistory(None).add("one") is None


def test_two_terminals_write_to_one_file(tmp_path: Path) -> None:
    file = tmp_path / "h"
    program = (
        "import sys; from pathlib import Path; from steno.ui.prompt_state import PromptHistory\n"
        "history = PromptHistory(Path(sys.argv[1]))\n"
        "for n in range(300): history.add(f'{sys.argv[2]} {n} ' + sys.argv[2] * 5000)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(file), name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    texts = [json.loads(line)["text"] for line in file.read_bytes().splitlines()]
    for name in "ab":
        own = [text for text in texts if text.startswith(name)]
        assert own == [f"{name} {n} {name * 5000}" for n in range(300)]


def test_a_walk_keeps_the_draft_and_what_was_changed_on_the_way() -> None:
    walk = HistoryCursor(["one", "two"])
    assert walk.move(1, "draft") is None
    assert walk.move(-1, "draft") == "two"
    assert walk.move(-1, "two, changed") == "one"
    assert walk.move(-1, "one") is None
    assert walk.move(1, "one") == "two, changed"
    assert walk.move(1, "two, changed") == "draft"


# -- in the prompt -----------------------------------------------------------------------------


def test_up_and_down_walk_through_what_was_typed_and_back_to_the_draft(tmp_path: Path) -> None:
    file = _filled(tmp_path / "h", "one", "two\nlines", "three")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "draft")
        seen = []
        for key in ["up", "up", "up", "up", "down", "down", "down", "down", "down"]:
            await pilot.press(key)
            seen.append(app.prompt.text)
        assert seen == [
            *["three", "two\nlines", "one", "one"],
            *["two\nlines", "three", "draft", "draft", "draft"],
        ]

    run_steps(flow, PromptApp(file))


def test_a_draft_keeps_what_was_pasted_into_it(tmp_path: Path) -> None:
    long = "line\n" * 50

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, long)
        await pilot.press("up", "down", "enter")

    assert run_steps(flow, PromptApp(_filled(tmp_path / "h", "one"))).sent == [(long, ())]


def test_inside_of_several_lines_up_and_down_move_the_cursor(tmp_path: Path) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "a")
        await pilot.press("ctrl+j")
        await type_in(pilot, "b")
        await pilot.press("up", "x")
        assert app.prompt.text == "ax\nb"
        await pilot.press("up")
        assert app.prompt.text == "one"

    run_steps(flow, PromptApp(_filled(tmp_path / "h", "one")))


def test_inside_of_a_wrapped_line_up_moves_the_cursor(tmp_path: Path) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        words = "word " * 20
        app.prompt.load(words)
        await pilot.pause()
        await pilot.press("up")
        assert app.prompt.text == words
        await pilot.press("up")
        assert app.prompt.text == "one"

    run_steps(flow, PromptApp(_filled(tmp_path / "h", "one")), size=(60, 20))


def test_the_prompt_history_keeps_pasted_text_and_no_images(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(b"x")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "see ")
        await paste(pilot, "line\n" * 20)
        await paste(pilot, str(tmp_path / "shot.png"))
        await pilot.press("enter", "up")
        assert app.prompt.text == "see " + "line\n" * 19 + "line"

    app = run_steps(flow, PromptApp(tmp_path / "h"))
    assert len(app.sent) == 1
    assert PromptHistory(tmp_path / "h").entries() == ["see " + "line\n" * 19 + "line"]


def test_the_file_is_not_touched_before_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "h"

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "words")
        _filled(file, "by another terminal")
        await pilot.press("up")
        assert app.prompt.text == "by another terminal"

    run_steps(flow, PromptApp(file))


def test_an_error_of_the_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        for word in ("one", "two"):
            await type_in(pilot, word)
            await pilot.press("enter")
        await pilot.press("up")
        assert app.prompt.text == "two"

    app = run_steps(flow, PromptApp(tmp_path / "file" / "h"))
    assert len(app.notices) == 1
    assert len(app.sent) == 2


def test_a_hostile_entry_is_shown_without_what_a_terminal_acts_on(tmp_path: Path) -> None:
    (tmp_path / "h").write_text(json.dumps({"text": "a\x1b[2Jb\u202ec"}) + "\n")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await pilot.press("up")
        assert app.prompt.text == "abc"

    run_steps(flow, PromptApp(tmp_path / "h"))


def test_ctrl_r_finds_what_holds_the_words_the_latest_first(tmp_path: Path) -> None:
    file = _filled(tmp_path / "h", "Mend it", "two", "mend that\nnow", "three")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "men")
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert app.offered == ["▸ mend that now", "  Mend it"]
        assert app.prompt.has_class("-search")
        await pilot.press("ctrl+r")
        assert app.offered == ["  mend that now", "▸ Mend it"]
        await type_in(pilot, "d t")
        await pilot.pause()
        assert app.offered == ["▸ mend that now"]
        await pilot.press("enter")
        assert (app.prompt.text, app.offered) == ("mend that\nnow", [])
        assert not app.prompt.has_class("-search")
        await pilot.press("enter")

    assert run_steps(flow, PromptApp(file)).sent == [("mend that\nnow", ())]


def test_escape_leaves_a_search_with_the_draft_as_it_was(tmp_path: Path) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "o")
        await pilot.press("ctrl+r")
        await type_in(pilot, "nothing like it")
        await pilot.pause()
        assert app.offered == []
        await paste(pilot, "x\n" * 50)
        await pilot.press("escape")
        assert app.prompt.text == "o"
        assert app.interrupts == 0
        await pilot.press("escape")
        assert app.interrupts == 1

    run_steps(flow, PromptApp(_filled(tmp_path / "h", "one")))


def test_a_search_without_history_says_so() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+r")
        assert not app.prompt.has_class("-search")

    assert run_steps(flow).notices == ["the prompt history is empty"]
