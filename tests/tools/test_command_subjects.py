"""The subjects of a command line: their access, their paths, and when the table counts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import pytest

from steno.agent.permissions.rules import PermissionRule, counts_as_grant, suggest_rule
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
        ("mkdir a", {"mkdir a": "routine", "write:a": "routine"}),
        ("mkdir /else/a", {"mkdir /else/a": "execute"}),
        ("mkdir out/a", {"mkdir out/a": "execute"}),
        ("mkdir .git/x", {"mkdir .git/x": "execute"}),
        ("touch broken", {"touch broken": "execute"}),
        ("cd /else && pytest", {"cd /else": "read", "cd /else && pytest": "execute"}),
        ("cd out && pytest", {"cd out": "read", "cd out && pytest": "execute"}),
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


# -- input and folders ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "has_input"),
    [
        ("sqlite3 app.db", "sqlite3 app.db", False),
        ("cat a | sqlite3 app.db", "sqlite3 app.db", True),
        ("sqlite3 app.db <<< '.shell x'", "sqlite3 app.db", True),
        ("make -f - < a", "make -f -", True),
        ("cat a | { psql shop; }", "psql shop", True),
        ("cat a | ( true; psql shop )", "psql shop", True),
        ("{ psql shop; } < a", "psql shop", True),
        ("3< a psql shop <&3", "psql shop", True),
        ("psql shop < /dev/null", "psql shop", False),
        ("psql shop | head", "psql shop", False),
        ("cat a | head -5", "head -5", False),
    ],
)
@pytest.mark.parametrize("is_confined", [True, False])
def test_input_that_may_be_code_is_marked(
    line: str, name: str, *, has_input: bool, is_confined: bool
) -> None:
    assert subjects(line, is_confined=is_confined)[name].has_input == has_input


def test_a_granted_rule_does_not_count_for_a_command_with_input() -> None:
    rule = PermissionRule.parse("bash(sqlite3 app.db)")
    plain = subjects("sqlite3 app.db")["sqlite3 app.db"]
    fed = subjects("sqlite3 app.db <<< x")["sqlite3 app.db"]
    assert counts_as_grant(rule, plain)
    assert not counts_as_grant(rule, fed)
    assert counts_as_grant(PermissionRule.parse("bash"), fed)
    assert suggest_rule("bash", [plain]) == str(rule)
    assert suggest_rule("bash", [fed]) == ""


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("bash(./build.sh)", "cd evil && ./build.sh"),
        ("bash(make deploy)", "cd /tmp && make deploy"),
        ("bash(make *)", "cd evil && make deploy"),
        ("bash(cd *)", "cd evil && make deploy"),
        ("bash(cd -*)", "cd evil && make deploy"),
        ("bash(* deploy)", "cd evil && make deploy"),
        ("bash(make deploy)", "cd $X; make deploy"),
        ("bash(make deploy)", "cd a || true; make deploy"),
    ],
)
def test_a_rule_for_a_command_does_not_hold_in_another_folder(rule: str, line: str) -> None:
    *_, subject = subjects(line).values()
    assert not PermissionRule.parse(rule).covers("bash", subject)
    assert suggest_rule("bash", [subject]) in {"", f"bash({subject.text})"}


def test_the_folder_is_part_of_the_offered_rule() -> None:
    subject = subjects("cd evil && ./build.sh")["cd evil && ./build.sh"]
    rule = suggest_rule("bash", [subject])
    assert rule == "bash(cd evil && ./build.sh)"
    assert PermissionRule.parse(rule).covers("bash", subject)
    assert suggest_rule("bash", [subjects("cd a && sudo x")["cd a && sudo x"]]) == ""


# -- reading outside of the workspace ------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        *(
            "cat /srv/x/.en?",
            "cat ~/other/.env",
            "cat ~root/x",
            "cat $X",
            "cat {a,../b}",
            "cat ../*",
        ),
        *("cat .*/x", "cat src/../../*", "cat [.]./x*", "head < /srv/*", "cat out/*"),
        *(
            "grep -r TOP /srv/x",
            "grep --recursive TOP /srv/x",
            "rg TOP /srv/x",
            "diff /srv/a /srv/b",
        ),
        *("cd /srv/x && rg TOP", "cd /srv/x && grep -r TOP .", "cd /srv/x && git log -p"),
        *("cd /srv/x && cat *", "cd /srv/x && timeout 5 git show", "find /srv/x | xargs cat"),
        *("cat list | xargs cat", "echo /srv/x/.env | xargs cat", "xargs cat < list"),
        *("find . -printf /srv/x | xargs cat", "rg -e -l x | xargs cat", "find . | { xargs cat; }"),
    ],
)
def test_reading_what_may_be_outside_of_the_workspace_asks(line: str) -> None:
    assert {"execute"} <= set(access(line).values())


@pytest.mark.parametrize(
    "line",
    [
        *("cat src/*.py", "cat *", "cat src/.en?", "grep -r TOP src", "rg TOP", "cat /etc/passwd"),
        *("grep root /etc/passwd", "ls /srv", "find src -name x | xargs wc -l", "cd src && rg x"),
        *("git ls-files | xargs grep x", "rg -l x | xargs cat", "git log | grep x", "diff a b"),
    ],
)
def test_reading_in_the_workspace_does_not_ask(line: str) -> None:
    assert set(access(line).values()) == {"read"}


# -- rules that deny -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        *(("git log *", line) for line in ("git -P log", "git --no-pager log -p", "CI=1 git log")),
        *(("pytest *", line) for line in ("timeout 5 pytest", "uv run pytest -q", "npx pytest")),
        *(("pytest *", line) for line in ("python -m pytest", "timeout 5 uv run pytest")),
        *(("cat *", line) for line in ("ls | xargs cat", "xargs -n 1 cat a", "/bin/cat a")),
        *(("make deploy", line) for line in ("cd a && make deploy", "cd $X; make deploy")),
        ("git push *", "timeout 5 git -C x push"),
    ],
)
def test_a_rule_that_denies_reaches_wrapped_commands(rule: str, line: str) -> None:
    denied = PermissionRule.parse(f"bash({rule})")
    assert denied.denies(["bash"], [*subjects(line).values()])


@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize("line", ["echo x > private/a", "touch private/a", "ls | tee private/a"])
def test_a_rule_that_denies_writing_reaches_the_files_of_commands(tool: str, line: str) -> None:
    denied = PermissionRule.parse(f"{tool}(private/**)")
    assert denied.denies(["bash"], [*subjects(line).values()])


@pytest.mark.parametrize(
    ("line", "unnamed"),
    [
        *((line, READ) for line in ("grep -r x .", "rg x", "git log -p", "git diff", "diff a b")),
        *((line, WRITE) for line in ("prettier --write private/a", "pytest", "git add -A")),
        *((line, None) for line in ("cat a", "ls", "git status", "grep x a", "touch a", "./x")),
    ],
)
def test_access_to_files_that_a_command_does_not_name_is_marked(
    line: str, unnamed: Capability | None
) -> None:
    assert next(iter(subjects(line).values())).unnamed_access == unnamed


@pytest.mark.parametrize("path", ["src/a.txt", "a.txt"])
def test_a_redirection_offers_its_path_alone(path: str) -> None:
    subject = subjects(f"echo x > {path}")[f"write:{path}"]
    assert suggest_rule("bash", [subject]) == f"write({path})"
