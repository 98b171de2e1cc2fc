"""`/export`: this branch as a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.app.commands.context import CommandContext
from steno.app.commands.report import Report
from steno.app.commands.slash_commands import run_slash_command
from steno.codec import decode_document
from steno.errors import InvalidValue, Missing, Unavailable
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageData, Text
from steno.render.items import TextForm
from steno.store import MemoryStore
from tests.app.command_setup import build_context, state_of
from tests.cli.program import copy_to_store, run_steno, sample_session

PICTURE = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")


@pytest.fixture
def context(tmp_path: Path) -> CommandContext:
    """A session with two branches, in a folder of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    store = MemoryStore()
    return build_context(folder, store, sample_session(store))


def exported(context: CommandContext, argument: str = "") -> Report:
    return asyncio.run(run_slash_command(context, "export", argument))


def names(context: CommandContext) -> list[str]:
    return sorted(path.name for path in context.folder.iterdir())


def day(context: CommandContext) -> str:
    created = state_of(context).store.header("talk").created_at
    assert created is not None
    return f"{created:%Y-%m-%d}"


def test_a_branch_is_written_as_markdown_and_never_over_anything(context: CommandContext) -> None:
    name = f"{day(context)}-mend-the-build"
    first, second = exported(context), exported(context)
    assert names(context) == [f"{name}-2.md", f"{name}.md"]
    file = context.folder / f"{name}.md"
    text, *left_out = first.plain_text.splitlines()
    assert text == f"wrote {file} (format markdown)"
    assert left_out[0] == "session: only this branch is in the file"
    assert left_out[-1].startswith("arguments_sha256: left out (1 entry: #")
    assert f"{name}-2.md" in second.plain_text
    assert first.form is TextForm.PLAIN
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text("utf-8").startswith("# Mend the build\n\n- session: `talk`\n")


def test_it_is_the_branch_at_hand_that_is_written(context: CommandContext) -> None:
    state_of(context).conversation.switch("other")
    exported(context, "html page.html")
    text = (context.folder / "page.html").read_text("utf-8")
    assert "Another way" in text
    assert "Once more" not in text


def test_json_is_what_another_steno_reads(context: CommandContext) -> None:
    exported(context, "json")
    (name,) = names(context)
    document = decode_document((context.folder / name).read_bytes())
    assert document.entries == state_of(context).conversation.entries()


@pytest.mark.parametrize(
    ("argument", "name", "start"),
    [
        ("talk.md", "talk.md", b"# Mend"),
        ("talk.HTML", "talk.HTML", b"<!DOCTYPE html>"),
        ("talk.json", "talk.json", b"{"),
        ("markdown notes.txt", "notes.txt", b"# Mend"),
        ("html 'my talk'", "my talk", b"<!DOCTYPE html>"),
        ("my talk.md", "my talk.md", b"# Mend"),
    ],
)
def test_the_format_is_the_one_that_is_named_or_what_the_file_ends_in(
    context: CommandContext, argument: str, name: str, start: bytes
) -> None:
    exported(context, argument)
    assert names(context) == [name]
    assert (context.folder / name).read_bytes().startswith(start)


def test_a_file_can_lie_below_the_home_folder(context: CommandContext, home: Path) -> None:
    exported(context, "~/talk.md")
    assert (home / "talk.md").is_file()
    assert names(context) == []


def test_an_existing_file_is_not_overwritten(context: CommandContext) -> None:
    (context.folder / "talk.md").write_text("mine")
    with pytest.raises(InvalidValue) as caught:
        exported(context, "talk.md")
    assert caught.value.code == "file_exists"
    for argument in ("markdown .", "--force markdown ."):
        with pytest.raises(InvalidValue) as caught:
            exported(context, argument)
        assert caught.value.code == "not_a_file"
    assert (context.folder / "talk.md").read_text() == "mine"
    assert names(context) == ["talk.md"]


@pytest.mark.parametrize("argument", ["talk.md --force", "--force talk.md", "-o talk.md --force"])
def test_with_force_it_is(context: CommandContext, argument: str) -> None:
    (context.folder / "talk.md").write_text("mine")
    exported(context, argument)
    assert (context.folder / "talk.md").read_text("utf-8").startswith("# Mend")
    assert names(context) == ["talk.md"]


@pytest.mark.parametrize(
    ("argument", "name", "start"),
    [
        ("--format chat -o chat.json", "chat.json", b"["),
        ("markdown talk.md --quiet", "talk.md", b"# Mend"),
        ("json my talk.json --strict", "my talk.json", b"{"),
        ("--format html -o p.html --force", "p.html", b"<!"),
        ("audit au.json", "au.json", b"{"),
        ("-o talk.md", "talk.md", b"# Mend"),
    ],
)
def test_options_are_those_of_the_command_line(
    context: CommandContext, argument: str, name: str, start: bytes
) -> None:
    exported(context, argument)
    assert names(context) == [name]
    assert (context.folder / name).read_bytes().startswith(start)


def test_of_another_session_it_is_the_branch_written_to_last(context: CommandContext) -> None:
    store = state_of(context).store
    store.new([ChatMessage.user("Elsewhere")], id="other-talk")
    exported(context, "-o other.md other-talk")
    assert "Elsewhere" in (context.folder / "other.md").read_text("utf-8")
    state_of(context).conversation.switch("other")
    exported(context, "-o again.md other-talk")
    assert "Elsewhere" in (context.folder / "again.md").read_text("utf-8")


@pytest.mark.parametrize("argument", ["json talk.json", "jsonl talk.jsonl", "html talk.html"])
def test_a_terminal_and_the_command_line_write_the_same_file(
    context: CommandContext, argument: str, tmp_path: Path
) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    copy_to_store(state_of(context).store, address)
    exported(context, argument)
    _, name = argument.split()
    file = tmp_path / name
    assert run_steno("sessions", "export", "talk", "-o", str(file), "--store", address).status == 0
    assert (context.folder / name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        *[(one, "unknown_format") for one in ("pdf", "talk.pdf", "talk")],
        ("~nobody-of-this-name/talk.md", "invalid_file_name"),
    ],
)
def test_an_unknown_argument_writes_nothing(
    context: CommandContext, argument: str, code: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        exported(context, argument)
    assert (caught.value.code, caught.value.place) == (code, "/export")
    assert names(context) == []


def test_a_missing_folder_is_reported(context: CommandContext) -> None:
    with pytest.raises(Unavailable) as caught:
        exported(context, "absent/talk.md")
    assert caught.value.code == "write_failed"
    assert "absent/talk.md" in str(caught.value)


def test_images_are_brought_back_and_missed(tmp_path: Path) -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.user([Text("What is this? / ../"), PICTURE])])
    context = build_context(tmp_path, store, conversation)
    reply = exported(context, "seen.html")
    assert "data:image/png;base64," in (tmp_path / "seen.html").read_text("utf-8")
    assert "the bytes of" not in reply.plain_text
    (blob,) = store.blobs()
    store.remove_blob(blob.sha256)
    reply = exported(context)
    assert "the bytes of" in reply.plain_text
    (file,) = tmp_path.glob("*.md")
    assert file.name.endswith("-what-is-this.md")


def test_a_session_that_is_not_recorded_has_nothing_to_export(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    context = build_context(folder, MemoryStore(), Conversation())
    with pytest.raises(Missing) as caught:
        exported(context)
    assert caught.value.code == "empty_session"
    assert names(context) == []
