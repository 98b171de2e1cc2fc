"""The subjects of a command line: their access, their paths, and when the table counts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import pytest

from steno.ports import Capability, Subject
from steno.tools.shell.command_parser import parse_command_line
from steno.tools.shell.command_subjects import LocatedPath, build_subjects

READ, WRITE, EXECUTE = Capability.READ, Capability.WRITE, Capability.EXECUTE


def locate(folder: str, path: str) -> LocatedPath | None:
    """Resolve paths in a workspace `/ws`, which has a link `out` to `/else`."""
    real = posixpath.normpath(posixpath.join("/ws", folder, path))
    if "broken" in real:
        return None
    real = real.replace("/ws/out", "/else")
    is_inside = real == "/ws" or real.startswith("/ws/")
    return LocatedPath(
        real[4:] or "." if is_inside else real,
        is_inside,
        is_secret=real.endswith(".env"),
        is_protected="/.git/" in real,
    )


def subjects(line: str, *, is_confined: bool = True) -> Mapping[str, Subject]:
    found = build_subjects(
        parse_command_line(line), text=line, locate=locate, is_confined=is_confined
    )
    return {
        f"{subject.rule_tool}:{subject.text}" if subject.rule_tool else subject.text: subject
        for subject in found
    }


def access(line: str, *, is_confined: bool = True) -> dict[str, str]:
    return {
        name: "routine" if subject.is_routine else str(subject.capability)
        for name, subject in subjects(line, is_confined=is_confined).items()
    }


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("git status", {"git status": "read"}),
        (
            "cd src && git log | head -5",
            {"cd src": "read", "git log": "read", "head -5": "read"},
        ),
        ("pytest -q && make x", {"pytest -q": "routine", "make x": "execute"}),
        ("cat 'a b'", {"cat 'a b'": "read", "read:a b": "read"}),
        ("echo x > log", {"echo x": "read", "write:log": "write"}),
        ("cd src && echo x >> log", {"cd src": "read", "echo x": "read", "write:src/log": "write"}),
        ("make x < in 2> err", {"make x": "execute", "read:in": "read", "write:err": "write"}),
        ("echo x > /else/log", {"echo x": "read", "write:/else/log": "write"}),
        ("echo x > out/log", {"echo x": "read", "write:/else/log": "write"}),
        ("ls > /dev/stderr", {"ls": "read"}),
        ("> log", {"write:log": "write"}),
        ("ls | tee log", {"ls": "read", "tee log": "read", "write:log": "write"}),
        ("CI=1 pytest", {"CI=1 pytest": "routine"}),
        ("CC=x make test", {"CC=x make test": "execute"}),
        ("X=1", {"X=1": "execute"}),
        ("mkdir a", {"mkdir a": "routine"}),
        ("mkdir /else/a", {"mkdir /else/a": "execute"}),
        ("mkdir out/a", {"mkdir out/a": "execute"}),
        ("mkdir .git/x", {"mkdir .git/x": "execute"}),
        ("touch broken", {"touch broken": "execute"}),
        ("cd /else && pytest", {"cd /else": "read", "pytest": "execute"}),
        ("cd out && pytest", {"cd out": "read", "pytest": "execute"}),
        ("cat /etc/passwd", {"cat /etc/passwd": "read", "read:/etc/passwd": "read"}),
    ],
)
def test_commands_in_a_sandbox(line: str, found: dict[str, str]) -> None:
    assert access(line) == found
    assert all(subject.is_confined for subject in subjects(line).values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("git status", {"git status": "execute"}),
        ("pytest", {"pytest": "execute"}),
        ("echo x > log", {"echo x": "execute", "write:log": "write"}),
        ("make < in", {"make": "execute", "read:in": "read"}),
        ("make < /etc/passwd", {"make": "execute", "read:/etc/passwd": "execute"}),
    ],
)
def test_without_a_sandbox_every_command_needs_a_rule(line: str, found: dict[str, str]) -> None:
    assert access(line, is_confined=False) == found
    assert not any(subject.is_confined for subject in subjects(line, is_confined=False).values())


def test_a_redirection_has_a_subject_in_each_possible_folder() -> None:
    found = access("cd a || true; echo x > log")
    assert {name for name in found if name.startswith("write:")} == {"write:log", "write:a/log"}


def test_in_an_unknown_folder_nothing_is_known_about_relative_paths() -> None:
    line = "cd $X; cat a; cat /etc/hosts; git status; pytest; echo x > log"
    found = subjects(line)
    assert access(line) == {
        "cd $X": "execute",
        "cat a": "execute",
        "cat /etc/hosts": "read",
        "read:/etc/hosts": "read",
        "git status": "execute",
        "pytest": "execute",
        "echo x": "execute",
        "write:log": "write",
    }
    assert found["write:log"].is_unknown


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("cat .env", "read:.env"),
        ("cd src && cat ../.env", "read:.env"),
        ("grep -f .env x", "read:.env"),
        ("git show HEAD:.env", "read:.env"),
        ("sort < .env", "read:.env"),
        ("echo x > .env", "write:.env"),
        ("echo x > .git/config", "write:.git/config"),
        ("ls | tee .git/config", "write:.git/config"),
    ],
)
def test_secrets_and_protected_files_are_marked(line: str, name: str) -> None:
    assert subjects(line)[name].is_protected


def test_reading_a_protected_file_that_is_no_secret_needs_no_approval() -> None:
    assert not subjects("cat .git/config")["read:.git/config"].is_protected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("cat $X", "read:$X"),
        ("ls *.py", "read:*.py"),
        ("echo x > $X", "write:$X"),
        ("cat broken", "read:broken"),
        ("echo x > broken", "write:broken"),
    ],
)
def test_a_path_that_is_unknown_before_the_run_is_marked(line: str, name: str) -> None:
    assert subjects(line)[name].is_unknown


def test_a_line_that_is_not_understood_is_unknown_and_has_guesses() -> None:
    first, *guesses = build_subjects(
        parse_command_line("echo $(rm -rf x)"),
        text="echo $(rm -rf x)",
        locate=locate,
        is_confined=True,
    )
    assert (first.text, first.capability, first.is_unknown) == ("echo $(rm -rf x)", EXECUTE, True)
    assert "rm -rf x" in [guess.text for guess in guesses]
    assert all(guess.words and guess.capability is EXECUTE for guess in guesses)


def test_words_carry_whether_they_may_be_options() -> None:
    words = subjects("make -k '-x' $X a")["make -k -x $X a"].words
    assert [word.may_be_option for word in words] == [False, True, True, True, False]


def test_the_same_subject_is_named_once() -> None:
    found = build_subjects(
        parse_command_line("ls; ls; ls"), text="", locate=locate, is_confined=True
    )
    assert [subject.text for subject in found] == ["ls"]
