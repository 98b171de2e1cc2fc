"""A referenced file is shown with line numbers, in full or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from steno.agent import AgentRole, Permissions
from steno.agent.permissions.rules import DecisionKind
from steno.errors import ToolFailed
from steno.inputs.file_references import FileLimits, FileReferenceResolver
from steno.messages.call import ToolCall
from steno.messages.content import Text
from steno.ports import Capability, ResolveContext
from steno.records.entry import Mode, ResolutionStatus
from steno.tools.read import ReadTool
from steno.tools.workspace import Workspace
from tests.inputs.file_references.reference_setup import (
    ScriptedPermission,
    details_of,
    error_code_of,
    error_of,
    recorded,
    reference,
    resolve,
    text_of,
)
from tests.raised_errors import raises_code
from tests.tools.search_engines import ENGINES, MakeEngine, write_files


@pytest.mark.requirement("S2-03", "S2-12", "S2-13")
def test_a_file_is_shown_with_its_name_and_the_numbers_of_its_lines(
    workspace: Workspace, folder: Path
) -> None:
    data = b"one\n\n\ttwo\nno end"
    (folder / "notes.md").write_bytes(data)
    finding = resolve(FileReferenceResolver(workspace), "notes.md")
    assert text_of(finding) == (
        "notes.md, lines 1 to 4 of 4:\n     1\tone\n     2\t\n     3\t\ttwo\n     4\tno end\n"
    )
    assert details_of(finding) == {
        "kind": "file",
        "path": "notes.md",
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "encoding": "utf-8",
        "lines": 4,
        "first_line": 1,
        "last_line": 4,
        "allowed_by": "the test",
    }


@pytest.mark.requirement("S2-03")
def test_a_resolved_reference_is_recorded_and_reused(workspace: Workspace, folder: Path) -> None:
    (folder / "a").write_text("one\n")
    files, viewer = FileReferenceResolver(workspace), ResolveContext(authorize=ScriptedPermission())
    found, missing = recorded(resolve(files, "a")), recorded(resolve(files, "b"))
    assert found.status is ResolutionStatus.RESOLVED
    assert found.content == (Text("a, line 1 of 1:\n     1\tone\n"),)
    assert missing.status is ResolutionStatus.FAILED
    assert files.is_current(reference("a"), found, viewer)
    assert not files.is_current(reference("b"), missing, viewer)


@pytest.mark.requirement("S2-11")
def test_an_absolute_path_inside_is_the_same_file(workspace: Workspace, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a.py").write_text("x = 1\n")
    door = ScriptedPermission()
    finding = resolve(FileReferenceResolver(workspace), str(folder / "sub" / "a.py"), permits=door)
    assert text_of(finding) == "sub/a.py, line 1 of 1:\n     1\tx = 1\n"
    assert door.asked == [("read", Capability.READ, "sub/a.py")]


def test_a_folder_that_was_added_is_named_by_its_absolute_path(folder: Path, outside: Path) -> None:
    files = FileReferenceResolver(Workspace([folder, outside]))
    finding = resolve(files, str(outside / "secret.txt"))
    assert text_of(finding) == f"{outside}/secret.txt, line 1 of 1:\n     1\tSECRET\n"


@pytest.mark.requirement("S2-11")
def test_a_file_that_is_not_there_is_an_error_that_names_the_nearest(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "Main.py").touch()
    (folder / "README").touch()
    files = FileReferenceResolver(workspace)
    for path, name, near in (
        ("src/mian.py", "src/mian.py", "src/Main.py"),
        ("scr/Main.py", "scr/Main.py", "src/Main.py"),
        ("scr/other", "scr/other", "src"),
        (str(folder / "READNE"), "READNE", "README"),
        ("SCR/mian.py", "SCR/mian.py", "src/Main.py"),
    ):
        finding = resolve(files, path)
        assert error_code_of(finding) == "file_not_found"
        assert error_of(finding).startswith(f"'{name}': ")
        assert error_of(finding).endswith(f"; did you mean '{near}'?")
    assert error_code_of(resolve(files, "README/zzz")) == "not_a_folder"
    assert error_code_of(resolve(files, "zzz/zzz")) == "file_not_found"
    assert "did you mean" not in error_of(resolve(files, "zzz/zzz"))


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_a_file_further_down_is_suggested_if_there_is_only_one(
    make: MakeEngine, workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {"src/lib/main.py": "", "src/x.rs": "", "other/x.rs": "", "maim.py": ""})
    files = FileReferenceResolver(workspace, engine=make(workspace))
    for path in ("main.py", "lib/main.py"):
        assert error_of(resolve(files, path)).endswith("; did you mean 'src/lib/main.py'?")
    assert error_code_of(resolve(files, "x.rs")) == "file_not_found"
    assert "did you mean" not in error_of(resolve(files, "x.rs"))


@pytest.mark.requirement("S2-11")
def test_a_name_in_an_added_folder_that_is_not_there_has_a_nearest_too(
    folder: Path, outside: Path
) -> None:
    files = FileReferenceResolver(Workspace([folder, outside]))
    assert f"did you mean '{outside}/secret.txt'?" in error_of(
        resolve(files, str(outside / "secrets.txt"))
    )


@pytest.mark.requirement("S2-12")
@pytest.mark.parametrize("path", ["notes.md", "/etc/hostname", "*.md"])
def test_without_a_workspace_nothing_is_opened(path: str) -> None:
    door = ScriptedPermission()
    finding = resolve(FileReferenceResolver(None), path, permits=door)
    assert error_code_of(finding) == "no_workspace"
    assert error_of(finding).startswith(f"'{path}': ")
    assert door.asked == []


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ((2,), "f, line 2 of 3:\n     2\tb\n"),
        ((2, 2), "f, line 2 of 3:\n     2\tb\n"),
        ((2, 3), "f, lines 2 to 3 of 3:\n     2\tb\n     3\tc\n"),
        ((1, 3), "f, lines 1 to 3 of 3:\n     1\ta\n     2\tb\n     3\tc\n"),
    ],
)
def test_only_the_lines_that_are_named_are_shown(
    workspace: Workspace, folder: Path, lines: tuple[int, ...], shown: str
) -> None:
    (folder / "f").write_text("a\nb\nc\n")
    finding = resolve(FileReferenceResolver(workspace), "f", *lines)
    assert text_of(finding) == shown
    details = details_of(finding)
    assert (details["first_line"], details["last_line"]) == (lines[0], lines[-1])
    assert details["sha256"] == hashlib.sha256(b"a\nb\nc\n").hexdigest()


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize(
    ("text", "lines", "parts"),
    [
        ("a\nb\n", (3,), ("only 2 lines", "so there is no line 3")),
        ("a\nb\n", (9, 12), ("only 2 lines", "so there is no line 9")),
        ("a\nb\n", (2, 12), ("only 2 lines", "; use 2")),
        ("a\n" * 6, (5, 99), ("only 6 lines", "; use 5-6")),
        ("a", (2,), ("only 1 line", "so there is no line 2")),
        ("", (1,), ("no lines", "so there is no line 1")),
    ],
)
def test_missing_lines_are_an_error_with_the_number_of_lines(
    workspace: Workspace, folder: Path, text: str, lines: tuple[int, ...], parts: tuple[str, str]
) -> None:
    (folder / "f").write_text(text)
    finding = resolve(FileReferenceResolver(workspace), "f", *lines)
    assert error_code_of(finding) == "line_not_found"
    assert parts[0] in error_of(finding)
    assert error_of(finding).endswith(parts[1])


def test_an_empty_file_has_a_note(workspace: Workspace, folder: Path) -> None:
    (folder / "f").touch()
    finding = resolve(FileReferenceResolver(workspace), "f")
    assert text_of(finding) == "[f is empty]"
    assert details_of(finding)["lines"] == 0


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("naïve\r\nend\r\n".encode(), "utf-8"),
        ("naïve\r\nend".encode("utf-8-sig"), "utf-8-sig"),
        (b"\xff\xfe" + "naïve\nend\n".encode("utf-16-le"), "utf-16-le"),
        ("naïve\nend\n".encode("latin-1"), "cp1252"),
    ],
)
def test_text_is_shown_whatever_its_encoding_and_line_ends(
    workspace: Workspace, folder: Path, data: bytes, encoding: str
) -> None:
    (folder / "f").write_bytes(data)
    finding = resolve(FileReferenceResolver(workspace), "f")
    assert text_of(finding) == "f, lines 1 to 2 of 2:\n     1\tnaïve\n     2\tend\n"
    assert details_of(finding)["encoding"] == encoding


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\0", "a PDF document of 9 bytes"),
        (b"\0\1\2\3", "binary data of 4 bytes"),
        (b"\x89PNG\r\n\x1a\n", "an image (image/png) of 8 bytes"),
    ],
)
def test_a_binary_file_is_an_error_with_its_type(
    workspace: Workspace, folder: Path, data: bytes, kind: str
) -> None:
    (folder / "f").write_bytes(data)
    finding = resolve(FileReferenceResolver(workspace), "f")
    assert error_code_of(finding) == "not_text"
    assert error_of(finding).endswith(kind)


def test_a_file_that_is_too_long_is_an_error_with_the_lines_that_fit(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "log").write_text("line\n" * 1000)
    files = FileReferenceResolver(workspace, limits=FileLimits(max_bytes=1000))
    finding = resolve(files, "log")
    assert error_code_of(finding) == "extract_too_long"
    advice, _, last = error_of(finding).rpartition("-")
    assert advice.endswith(" :1")
    assert len(text_of(resolve(files, "log", 1, int(last))).encode()) <= 1000
    later = error_of(resolve(files, "log", 500, 900))
    assert later.rpartition("-")[0].endswith(" :500")


def test_a_line_that_is_too_long_is_an_error(workspace: Workspace, folder: Path) -> None:
    (folder / "min.js").write_text("short\n" + "x" * 1000)
    files = FileReferenceResolver(workspace, limits=FileLimits(max_bytes=500))
    finding = resolve(files, "min.js", 2)
    assert error_code_of(finding) == "extract_too_long"
    assert error_of(finding).startswith("'min.js': line 2 alone ")


def test_a_huge_file_is_not_read_to_its_end(workspace: Workspace, folder: Path) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    finding = resolve(FileReferenceResolver(workspace), "huge", 1)
    assert error_code_of(finding) == "file_too_large"


# -- what the model may do with it -----------------------------------------------------------


def test_a_file_that_was_shown_may_be_changed(workspace: Workspace, folder: Path) -> None:
    (folder / "f").write_text("a\nb\n")
    resolve(FileReferenceResolver(workspace), "f", 1)
    workspace.check_unchanged_since_read("f", b"a\nb\n")


def test_a_file_that_was_not_shown_does_not_count_as_read(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_text("a\nb\n")
    error_of(resolve(FileReferenceResolver(workspace), "f", 9))
    with raises_code(ToolFailed, "not_read_yet"):
        workspace.check_unchanged_since_read("f", b"a\nb\n")


# -- permissions -----------------------------------------------------------------------------


class Ruled:
    """Applies the rules of an agent, as for the tool."""

    def __init__(self, permissions: Permissions, workspace: Workspace) -> None:
        self.permissions = permissions
        self.tool = ReadTool(workspace)

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        assert (tool, capability) == (self.tool.definition.name, self.tool.capability)
        call = ToolCall.create(tool, {"path": subject})
        decision = self.permissions.decide(self.tool, call, mode=Mode.PLAN)
        if decision.kind is not DecisionKind.ALLOW:
            raise ToolFailed(decision.reason, code="denied")
        return decision.rule


@pytest.mark.requirement("S2-14")
def test_a_planner_reads_but_not_what_a_rule_forbids(workspace: Workspace, folder: Path) -> None:
    (folder / "secret").mkdir()
    (folder / "secret" / "key").write_text("SECRET\n")
    (folder / "plan").write_text("fine\n")
    (folder / "link").symlink_to("secret/key")
    rules = Permissions.of(role=AgentRole.PLANNER, deny=["read(secret/**)"])
    files, permits = FileReferenceResolver(workspace), Ruled(rules, workspace)
    finding = resolve(files, "plan", permits=permits)
    assert text_of(finding) == "plan, line 1 of 1:\n     1\tfine\n"
    assert details_of(finding)["allowed_by"] == "default read"
    for path in ("secret/key", "link", str(folder / "link")):
        finding = resolve(files, path, permits=permits)
        assert error_code_of(finding) == "denied"
        assert error_of(finding).startswith("secret/key: ")


@pytest.mark.requirement("S2-11", "S2-14")
def test_a_denied_file_is_an_error_and_does_not_count_as_read(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_text("SECRET\n")
    finding = resolve(
        FileReferenceResolver(workspace), "f", permits=ScriptedPermission(denied={"f"})
    )
    assert error_code_of(finding) == "denied"
    assert error_of(finding).startswith("f: ")
    with raises_code(ToolFailed, "not_read_yet"):
        workspace.check_unchanged_since_read("f", b"SECRET\n")
