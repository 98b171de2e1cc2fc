"""An `@` in a prompt is a reference, unless it belongs to a mail address, to code or to a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steno.errors import InvalidValue
from steno.inputs.mentions import Mentions, parse_mentions
from steno.messages.content import FileReference, Image, ImageFile, ImageUrl, Resource
from steno.ports import SetupNotice
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code

# -- test any text ---------------------------------------------------------------------------------
#
# Any text is parsed, or refused with a reason.


PIECES = st.sampled_from(
    [
        *"@@@\\\"'` \n/.:-1*[]{}()?\0…é\ud800\u2028\x0b\x0c\x1c\x85>",
        *("```", "~~~", "..", ":10-2", "a.py", "src", "alice", ".png", "docs:", "https://", "x://"),
    ]
)


TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)


# One workspace serves all texts: nothing is written to it.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@shared
@given(text=TEXTS)
def test_any_text_has_mentions_or_is_refused(workspace: Workspace, text: str) -> None:
    try:
        found = parse_mentions(text, workspace=workspace, servers={"docs"})
    except InvalidValue:
        return
    assert found.text.replace("\\@", "@") == text.replace("\\@", "@")
    assert len(set(found.blocks)) == len(found.blocks) <= text.count("@")
    assert parse_mentions(text, workspace=workspace, servers={"docs"}) == found


@shared
@given(text=TEXTS)
def test_a_text_without_the_sign_stays_as_it_is(workspace: Workspace, text: str) -> None:
    text = text.replace("@", "")
    assert parse_mentions(text, workspace=workspace) == Mentions(text, (), ())


@pytest.mark.parametrize(
    "piece",
    [
        "@a ",
        "@a) ",
        "@a",
        "@'",
        "`@`` ",
        "\\@x ",
        "@" + "(" * 50,
        "@a:1 ",
        "\\@",
        "~~~\n@",
        ":@a",
        "*@a*",
        "@a,",
    ],
)
def test_a_text_full_of_signs_is_read(tmp_path: Path, piece: str) -> None:
    text = piece * 20_000
    assert "@" in parse_mentions(text, workspace=Workspace(tmp_path)).text
    assert parse_mentions("@a" + ")" * 100_000, workspace=Workspace(tmp_path)).blocks == ()


def file(path: str, first: int | None = None, last: int | None = None) -> FileReference:
    return FileReference(path=path, start_line=first, end_line=last)


def image(path: str) -> Image:
    return Image(source=ImageFile(path))


def read(workspace: Workspace | None, text: str) -> Mentions:
    found = parse_mentions(text, workspace=workspace, servers={"docs", "my-server"})
    assert "\\@" in text or found.text == text
    return found


@pytest.mark.requirement("S2-03")
@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("@a.py", file("a.py")),
        ("Look at @a.py:10", file("a.py", 10)),
        ("Look at @a.py:10-20 please", file("a.py", 10, 20)),
        ("@./src/../a.py", file("a.py")),
        ('See @"my notes.md"', file("my notes.md")),
        ("See @'my notes.md':3-4.", file("my notes.md", 3, 4)),
        ('@"it\'s"', file("it's")),
        ("What is in @src/?", file("src")),
        ("What is in @src?", file("src")),
        ("@Makefile", file("Makefile")),
        ("@src/**/*.py", file("src/**/*.py")),
        ("@*.{py,ts}", file("*.{py,ts}")),
        ("(see @src/*.{py,ts})", file("src/*.{py,ts}")),
        ("@*", file("*")),
        ("@shot.PNG", image("shot.PNG")),
        ("@none.jpeg", image("none.jpeg")),
        ('@"two words.webp"', image("two words.webp")),
        ("@shot.PNG:3", file("shot.PNG", 3)),
        ("@*.png", file("*.png")),
        ("@[id].png", image("[id].png")),
        ("@docs:file:///a/b.md", Resource(server="docs", uri="file:///a/b.md")),
        ("(@my-server:demo://x/1)", Resource(server="my-server", uri="demo://x/1")),
    ],
)
def test_a_mention_points_at_something(workspace: Workspace, text: str, block: object) -> None:
    assert read(workspace, text).blocks == (block,)


def test_an_absolute_path_is_a_mention(workspace: Workspace, folder: Path) -> None:
    path = f"{folder}/src/main.py"
    found = read(workspace, f"See @{path}:1, and then @/etc/passwd.")
    assert found.blocks == (file(path, 1), file("/etc/passwd"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("@https://host/x.png", "https://host/x.png"),
        ("See @http://host/x.JPG?size=1#a.", "http://host/x.JPG?size=1#a"),
        ("@HTTPS://host/x.gif", "https://host/x.gif"),
    ],
)
def test_the_address_of_an_image_is_a_mention(workspace: Workspace, text: str, url: str) -> None:
    assert read(workspace, text).blocks == (Image(source=ImageUrl(url)),)


@pytest.mark.parametrize("address", ["https://host/page", "https://[x.png", "http://host"])
def test_any_other_address_is_left_as_text(workspace: Workspace, address: str) -> None:
    found = read(workspace, f"@{address}")
    assert found.blocks == ()
    (note,) = found.notices
    assert note.code == "address_left_as_text"
    assert note.text.startswith(f"@{address}: ")


@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "(", "[", "{", "<", '"', "'", "«", "“"])
def test_a_mention_follows_white_space_or_an_opening_character(
    workspace: Workspace, before: str
) -> None:
    assert read(workspace, f"{before}@a.py").blocks == (file("a.py"),)


@pytest.mark.parametrize(
    "text",
    ["@a.py,@src/main.py", "@a.py;@src/main.py.", "@a.py、@src/main.py", "@a.py，@src/main.py"],
)
def test_mentions_may_be_separated_without_a_blank(workspace: Workspace, text: str) -> None:
    assert read(workspace, text) == Mentions(text, (file("a.py"), file("src/main.py")), ())


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("看@a.py", file("a.py")),
        ("看：@a.py:3。", file("a.py", 3)),
        ("見て@a.py、", file("a.py")),
        ("请看——@a.py。", file("a.py")),
        ("**@a.py**", file("a.py")),
        ("看**@a.py**", file("a.py")),
        ("_@src/main.py_, or", file("src/main.py")),
        ("(***@a.py:2-3***)", file("a.py", 2, 3)),
        ("compare:@a.py", file("a.py")),
        ("file=@shot.PNG.", image("shot.PNG")),
    ],
)
def test_close_to_a_word_or_markup_a_file_that_is_there_is_a_mention(
    workspace: Workspace, text: str, block: FileReference | Image
) -> None:
    assert read(workspace, text) == Mentions(text, (block,), ())


@pytest.mark.parametrize(
    "text",
    [
        *("看@none.py", "**@none.py**", "compare:@none.py", "x=@../work", "x:@a.py:0", "x:@."),
        *("joe_@a.py", "jo*@a.py", "é_@a.py", "x:@none(", "看@https://example.org/a.png"),
    ],
)
def test_close_to_a_word_anything_else_is_text_without_a_note(
    workspace: Workspace, text: str
) -> None:
    assert read(workspace, text) == Mentions(text, (), ())


def test_close_to_a_word_a_backslash_is_lost_where_there_is_such_a_file(
    workspace: Workspace,
) -> None:
    text = "compare:\\@a.py re:\\@x x:@y(@src/main.py"
    found = read(workspace, text)
    assert found.text == "compare:@a.py re:\\@x x:@y(@src/main.py"
    assert found.blocks == (file("src/main.py"),)


@pytest.mark.parametrize(
    "text",
    [
        "me@a.py",
        "Mail joe.b@src/main.py or <joe@a.py>",
        "x/@a.py",
        "@ a.py",
        "@",
        "@@a.py",
        "@...",
        "@?!",
        '@""',
        "no @\n",
    ],
)
def test_other_signs_are_no_mentions(workspace: Workspace, text: str) -> None:
    assert read(workspace, text) == Mentions(text, (), ())


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("(@a.py).", file("a.py")),
        ("@a.py, @a.py: @a.py; @a.py! @a.py?", file("a.py")),
        ('"@a.py"', file("a.py")),
        ("«@a.py»…", file("a.py")),
        ("@a.py:3-4).", file("a.py", 3, 4)),
        ("@odd.", file("odd.")),
        ("@odd..", file("odd.")),
        ("@odd:10", file("odd:10")),
        ("@odd:10:2.", file("odd:10", 2)),
        ("@what?!", file("what?!")),
        ("(@copy(1).txt)", file("copy(1).txt")),
    ],
)
def test_punctuation_belongs_to_the_sentence_unless_there_is_such_a_file(
    workspace: Workspace, text: str, block: FileReference
) -> None:
    assert read(workspace, text) == Mentions(text, (block,), ())


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("@src/none", file("src/none")),
        ("@none/such.md", file("none/such.md")),
        ("@./none", file("none")),
        ("@/none/such", file("/none/such")),
        ("@mian.py", file("mian.py")),
        ("@none:3", file("none", 3)),
        ("@none.py:3:14", file("none.py", 3)),
        ("@none.jpeg", image("none.jpeg")),
    ],
)
def test_a_word_that_looks_like_a_path_is_one_even_if_it_is_missing(
    workspace: Workspace, text: str, block: FileReference
) -> None:
    assert read(workspace, text) == Mentions(text, (block,), (), frozenset({block}))


@pytest.mark.parametrize(("text", "path"), [('@"none such"', "none such"), ("@*.rs", "*.rs")])
def test_quoted_mentions_and_patterns_are_certainly_paths(
    workspace: Workspace, text: str, path: str
) -> None:
    assert read(workspace, text) == Mentions(text, (file(path),), ())


def test_an_existing_path_that_may_not_be_opened_is_certainly_a_path(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    text = "@link, @folder/passwd and @/etc/passwd"
    blocks = (file("link"), file("folder/passwd"), file("/etc/passwd"))
    assert read(workspace, text) == Mentions(text, blocks, ())


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_quote_that_is_not_closed_is_left_as_text_with_a_note(
    workspace: Workspace, quote: str
) -> None:
    text = f"see @{quote}my notes.md"
    note = SetupNotice("quote_not_closed", f"@{quote}my: the quote is not closed; left as text")
    assert read(workspace, text) == Mentions(text, (), (note,))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("@my\\ notes.md", "my notes.md"),
        ("(see @my\\ notes.md, please)", "my notes.md"),
        ("@notes\\ dir/to\\ do.txt\\ ", "notes dir/to do.txt\\"),
        ("@notes\\ dir/to\\ do.txt", "notes dir/to do.txt"),
    ],
)
def test_a_blank_behind_a_backslash_is_part_of_a_path(
    workspace: Workspace, text: str, path: str
) -> None:
    found = read(workspace, text)
    assert found.blocks == ((file(path),) if not path.endswith("\\") else ())


def test_the_home_folder_can_be_pointed_at(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    found = read(workspace, "@~/a.py:1 @~/none @'~/my notes.md' @~joe")
    blocks = (file(f"{folder}/a.py", 1), file(f"{folder}/none"), file(f"{folder}/my notes.md"))
    assert found.blocks == blocks
    assert found.uncertain == {blocks[1]}
    (notice,) = found.notices
    assert (notice.code, notice.text.partition(":")[0]) == ("mention_left_as_text", "@~joe")


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("@a.py:2:5", file("a.py", 2)),
        ("in @a.py:2:5: error", file("a.py", 2)),
        ("@a.py#L2", file("a.py", 2)),
        ("@a.py#L2-L3.", file("a.py", 2, 3)),
        ("@a.py#L2-3", file("a.py", 2, 3)),
    ],
)
def test_lines_may_be_named_as_other_programs_do(
    workspace: Workspace, text: str, block: FileReference
) -> None:
    assert read(workspace, text) == Mentions(text, (block,), ())


@pytest.mark.parametrize(
    "word",
    [
        *("alice", "dataclass", "pytest.fixture", "v1.2", "joe@mastodon.social"),
        *("types/node", "scope/pkg", "org/team/member", "none/"),
    ],
)
def test_any_other_word_is_left_as_text_with_a_note(workspace: Workspace, word: str) -> None:
    text = f"Ask @{word}, and @{word}."
    note = SetupNotice("mention_left_as_text", f"@{word}: no such file; left as text")
    assert read(workspace, text) == Mentions(text, (), (note,))


def test_pasted_code_points_at_nothing(workspace: Workspace) -> None:
    text = '@app.get("/items/{id}")\ndef f(): ...\n@click.option(\'--a/--no-a\')\n@Test(x="/y.py")'
    assert read(workspace, text).blocks == ()


@pytest.mark.parametrize(
    "text",
    [
        "`@a.py`",
        "`` ` @a.py``",
        "see `x @a.py y` there",
        "```\n@a.py\n```",
        "```python\n@a.py\n@alice\n",
        "~~~\n```\n@a.py\n~~~",
        "1. do\n\n   ````\n   ```\n   @a.py\n   ````\n",
        "> ```\n> @a.py\n> ```",
        "`a\n@a.py`",
    ],
)
def test_in_code_nothing_is_a_mention(workspace: Workspace, text: str) -> None:
    assert read(workspace, text) == Mentions(text, (), ())
    behind = f"{text}\n\n@a.py" if "python" not in text else text
    assert read(workspace, behind).blocks == ((file("a.py"),) if behind != text else ())


@pytest.mark.parametrize(
    "text", ["a ` and @a.py", "``a` @a.py", "`a\n\n@a.py`", "``` a ``` @a.py", "`x` @a.py `y`"]
)
def test_backticks_without_their_like_are_no_code(workspace: Workspace, text: str) -> None:
    assert read(workspace, text).blocks == (file("a.py"),)


@pytest.mark.parametrize(
    "text",
    [
        "> ```\n> @src\n\nSee @a.py",
        "> ```\n> @src\nSee @a.py",
        "> > ~~~\n> > @src\n> See @a.py",
        "a\u2028```\n@a.py\n",
        "a\x0c~~~\n@a.py\n",
        "```\n@src\u2028```\n@src\n```\n@a.py",
    ],
)
def test_text_after_a_block_quote_and_text_like_a_fence_are_no_code(
    workspace: Workspace, text: str
) -> None:
    """Only LF, CR and CRLF end a line, and the end of a block quote ends the code in it."""
    assert read(workspace, text).blocks == (file("a.py"),)


def test_an_escaped_sign_is_text_without_its_backslash(workspace: Workspace) -> None:
    text = "\\@a.py, (\\@types/node) and @a.py; `\\@x` C:\\dir\\@y \\\\@z \\@"
    found = read(workspace, text)
    assert found.text == "@a.py, (@types/node) and @a.py; `\\@x` C:\\dir\\@y \\\\@z \\@"
    assert found.blocks == (file("a.py"),)
    assert found.notices == ()


def test_a_path_mentioned_twice_is_one_block(workspace: Workspace) -> None:
    text = "@a.py @src/main.py @./a.py @a.py:1 @'a.py'"
    assert read(workspace, text).blocks == (file("a.py"), file("src/main.py"), file("a.py", 1))


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ("0", "lines are counted from 1"),
        ("3-1", "the last line is before the first"),
        ("2-", "add the last line, such as 2-22"),
        ("1-9999999999", "the numbers are too large"),
    ],
)
@pytest.mark.parametrize("path", ["a.py", "'a.py'"])
def test_lines_that_cannot_be_are_refused(
    workspace: Workspace, path: str, lines: str, rule: str
) -> None:
    with raises_code(InvalidValue, "invalid_lines", place="@'a.py'") as raised:
        read(workspace, f"@{path}:{lines}")
    assert raised.value.message == f"lines {lines}: {rule}"  # one code, a rule for each mistake


@pytest.mark.parametrize("mention", ["@../x", "@src/../../x.png", "@'..'", "@../other/a.py"])
def test_a_path_that_leaves_the_workspace_is_refused_with_a_remedy(
    workspace: Workspace, mention: str
) -> None:
    with raises_code(InvalidValue, "outside_workspace") as raised:
        read(workspace, mention)
    assert "--add-dir" in raised.value.message


def test_a_path_with_a_nul_is_refused(workspace: Workspace) -> None:
    with raises_code(InvalidValue, "invalid_path"):
        read(workspace, "@a\0.py")


def test_a_server_that_is_not_there_is_refused(workspace: Workspace) -> None:
    with raises_code(InvalidValue, "server_not_found", place="@'other'"):
        read(workspace, "@other:demo://x")
    with raises_code(InvalidValue, "server_not_found", place="@'dosc'") as raised:
        read(workspace, "@dosc:demo://x")
    assert "did you mean 'docs'?" in raised.value.message


@pytest.mark.requirement("S2-12")
def test_without_a_workspace_paths_are_still_mentions(workspace: Workspace) -> None:
    found = read(None, "@a.py @Makefile")
    assert found.blocks == (file("a.py"),)
    (notice,) = found.notices
    assert (notice.code, notice.text.partition(":")[0]) == ("mention_left_as_text", "@Makefile")


def test_a_text_full_of_words_with_an_at_gives_few_notes(workspace: Workspace) -> None:
    notes = read(workspace, " ".join(f"@word{number}" for number in range(500))).notices
    assert len(notes) == 21
    assert {notice.code for notice in notes[:-1]} == {"mention_left_as_text"}
    assert notes[-1].code == "more_mentions_left_as_text"
    assert notes[-1].text.startswith("480 ")


def test_a_note_about_a_very_long_word_is_short(workspace: Workspace) -> None:
    (note,) = read(workspace, "@" + "x" * 100_000).notices
    assert len(note.text) < 300


@pytest.mark.parametrize("text", ["What is in @.", "What is in @./ and why?"])
def test_the_working_folder_can_be_pointed_at(workspace: Workspace, text: str) -> None:
    assert read(workspace, text).blocks == (FileReference(path="."),)
