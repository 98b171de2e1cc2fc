"""`steno permissions`, and the file of grants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.agent.permissions.rules import PermissionRule
from steno.app.permissions import (
    GrantsFile,
    GrantTable,
    StoredGrants,
    format_grants,
    parse_grants,
    resolve_rule,
)
from steno.cli.main import run_command
from steno.errors import InvalidDocument, InvalidValue, LogError, Missing, StenoError, Unavailable
from steno.ports import GrantScope, GrantStore
from steno.testing import texts

PROJECT, USER = GrantScope.PROJECT, GrantScope.USER


@pytest.fixture(autouse=True)
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, which is not there yet."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home / ".config" / "steno"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are run in."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(settings: Path, text: str | bytes) -> Path:
    settings.mkdir(parents=True, exist_ok=True)
    file = settings / "grants.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(0o600)
    return file


# -- what is stored ------------------------------------------------------------------------------


def test_a_permanent_grant_applies_to_its_project_or_user(project: Path) -> None:
    grants: GrantStore = GrantsFile(project)
    assert grants.rules() == ()
    grants.add("write(src/**)", PROJECT)
    grants.add("bash(git log *)", USER)
    grants.add("bash(git log *)", USER)
    assert grants.rules() == ("write(src/**)", "bash(git log *)")
    assert GrantsFile(project.parent).rules() == ("bash(git log *)",)
    assert GrantsFile(project / "src").rules() == ("bash(git log *)",)


def test_a_project_is_known_by_its_real_path(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    GrantsFile(link / ".." / "link").add("write", PROJECT)
    assert GrantsFile(project).rules() == ("write",)
    link.unlink()
    link.mkdir()
    assert GrantsFile(link).rules() == ()


def test_nothing_in_a_project_allows_anything(project: Path) -> None:
    for folder in (project, project / ".steno", project / ".config" / "steno"):
        write(folder, '[user]\nallow = ["*"]\n')
    assert GrantsFile(project).rules() == ()


def test_the_file_is_of_the_user_alone(project: Path, settings: Path) -> None:
    GrantsFile(project).add("write", PROJECT)
    file = settings / "grants.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert settings.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in settings.iterdir()) == ["grants.toml", "grants.toml.lock"]


def test_the_folder_of_settings_can_be_elsewhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    GrantsFile(project).add("write", USER)
    assert (tmp_path / "elsewhere" / "steno" / "grants.toml").exists()


def test_without_a_home_no_grant_is_stored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    with pytest.raises(InvalidValue) as caught:
        GrantsFile(project)
    assert caught.value.code == "home_unknown"


def test_a_link_to_the_file_stays_a_link(project: Path, settings: Path, tmp_path: Path) -> None:
    settings.mkdir(parents=True)
    (settings / "grants.toml").symlink_to(tmp_path / "store.toml")
    GrantsFile(project).add("write", USER)
    assert (settings / "grants.toml").is_symlink()
    assert GrantsFile(project).rules() == ("write",)


def test_a_person_can_read_it(project: Path, settings: Path) -> None:
    GrantsFile(project).add("bash(git log *)", USER)
    GrantsFile(project).add(r"bash(echo \(\"\))".replace('\\"', '"'), PROJECT)
    text = (settings / "grants.toml").read_text(encoding="utf-8")
    assert text.startswith("# The permission rules that you have allowed permanently.")
    assert '[user]\nallow = [\n    "bash(git log *)",\n]\n' in text
    assert f'[projects."{project}"]\nallow = [\n    "bash(echo \\\\(\\"\\\\))",\n]\n' in text


def test_a_revoked_rule_is_removed(project: Path, settings: Path) -> None:
    grants = GrantsFile(project)
    for rule in ("write", "bash"):
        grants.add(rule, PROJECT)
        grants.add(rule, USER)
    assert grants.revoke("write", PROJECT)
    assert grants.rules() == ("bash", "write")
    assert grants.revoke("write", USER)
    assert not grants.revoke("write", USER)
    assert grants.revoke("bash", PROJECT)
    assert "projects" not in (settings / "grants.toml").read_text(encoding="utf-8")
    assert grants.rules() == ("bash",)


@pytest.mark.parametrize("scope", [GrantScope.ONCE, GrantScope.SESSION])
def test_a_grant_of_a_smaller_scope_is_not_stored(
    project: Path, settings: Path, scope: GrantScope
) -> None:
    with pytest.raises(InvalidValue) as caught:
        GrantsFile(project).add("write", scope)
    assert caught.value.code == "scope_not_stored"
    assert not settings.exists()


def test_an_invalid_rule_is_not_stored(project: Path, settings: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        GrantsFile(project).add("bash()", USER)
    assert caught.value.code == "rule_pattern_empty"
    assert not settings.exists()


def test_a_project_whose_path_no_text_can_hold_is_refused(tmp_path: Path) -> None:
    grants = GrantsFile(tmp_path / os.fsdecode(b"\xff"))
    assert grants.rules() == ()
    with pytest.raises(InvalidValue) as caught:
        grants.add("write", PROJECT)
    assert caught.value.code == "path_not_utf8"
    grants.add("write", USER)
    assert grants.rules() == ("write",)


# -- files of older versions ---------------------------------------------------------------------

OLD_FILE = """
[user]
allow = ["bash(git log *)", "bash", "write(src/**)", "mcp__files__*", "bash(> log)"]
[projects."{project}"]
allow = ["bash(npm test)", "bash(git grep *)", "*"]
"""
DROPPED = ("bash(> log)", "bash(git log *)", "bash", "bash(git grep *)", "*")


def test_rules_for_several_commands_in_an_old_file_do_not_count(
    project: Path, settings: Path
) -> None:
    file = write(settings, OLD_FILE.format(project=project))
    grants = GrantsFile(project)
    kept = ("bash(npm test)", "write(src/**)", "mcp__files__*")
    assert grants.rules() == kept
    assert sorted(grants.migrate()) == sorted(DROPPED)
    assert grants.migrate() == ()
    assert grants.rules() == kept
    stored = tomllib.loads(file.read_text(encoding="utf-8"))
    assert stored["version"] == 2
    assert sorted(stored["user"]["unconfirmed"]) == sorted(DROPPED[:3])
    assert stored["projects"][str(project)]["unconfirmed"] == ["bash(git grep *)", "*"]


def test_a_change_of_an_old_file_loses_no_rule(project: Path, settings: Path) -> None:
    write(settings, OLD_FILE.format(project=project))
    GrantsFile(project).add("edit", USER)
    stored = GrantsFile(project).read()
    assert stored.version == 2
    assert sorted(stored.user.unconfirmed) == sorted(DROPPED[:3])
    assert "edit" in stored.user.allow


def test_an_unconfirmed_rule_is_confirmed_or_revoked(project: Path, settings: Path) -> None:
    write(settings, OLD_FILE.format(project=project))
    grants = GrantsFile(project)
    grants.add("bash(git log *)", USER)
    assert "bash(git log *)" in grants.rules()
    assert grants.revoke("bash(> log)", USER)
    assert grants.read().user.unconfirmed == ("bash",)
    assert not grants.revoke("bash(git grep *)", USER)
    assert grants.revoke("bash(git grep *)", PROJECT)


def test_a_new_file_keeps_rules_for_several_commands(project: Path, settings: Path) -> None:
    grants = GrantsFile(project)
    grants.add("bash(git log *)", PROJECT)
    assert grants.migrate() == ()
    assert grants.rules() == ("bash(git log *)",)


def test_unconfirmed_rules_are_listed(
    project: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(settings, OLD_FILE.format(project=project))
    assert command("list") == 0
    rows = capsys.readouterr().out.split("\n")
    assert "user     bash(git log *)   needs confirmation" in rows
    assert sum("needs confirmation" in row for row in rows) == len(DROPPED)
    assert command("allow", "bash(git log *)", "--user") == 0
    assert command("revoke", "bash") == 0
    capsys.readouterr()
    command("list", "--json")
    unconfirmed = json.loads(capsys.readouterr().out)["unconfirmed"]
    assert unconfirmed["user"] == ["bash(> log)"]
    assert unconfirmed["project"] == ["bash(git grep *)", "*"]


# -- paths in rules ------------------------------------------------------------------------------


def test_paths_in_rules_are_resolved_as_tools_resolve_them(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "shop"
    (folder / "real").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    (tmp_path / "way").symlink_to(folder)

    def resolved(text: str) -> list[str]:
        rules = resolve_rule(PermissionRule.parse(text), str(folder), home)
        return [str(rule) for rule in rules]

    assert resolved("read(src/**)") == ["read(src/**)"]
    assert resolved("read(link/**)") == ["read(real/**)"]
    assert resolved("read(link/)") == ["read(real/)"]
    assert resolved(f"read({folder}/a)") == ["read(a)", f"read({folder}/a)"]
    assert resolved(f"read({tmp_path}/way/a)") == ["read(a)"]
    assert resolved("read(~/shop/*.key)") == ["read(*.key)", f"read({folder}/*.key)"]
    assert resolved("read(~/**)") == ["read(**)", f"read({home}/**)"]
    assert resolved("read(~/.ssh/**)") == [f"read({home}/.ssh/**)"]
    assert resolved("bash(cat ~/x)") == ["bash(cat ~/x)"]
    assert resolved("fetch(https://example.org/**)") == ["fetch(https://example.org/**)"]
    assert resolved("*") == ["*"]
    for text, code in (("read(../x)", "rule_path_parent"), ("read(~eva/x)", "rule_path_home")):
        with pytest.raises(InvalidValue) as refused:
            resolved(text)
        assert refused.value.code == code


# -- bad files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ('[user]\nallow = ["bash"\n[x]\n', 3, "file_not_toml"),
        ('[user]\nallow = ["bash", "bash()"]\n', 2, "rule_pattern_empty"),
        ('[user]\nallow = [\n"write",\n1234]\n', 4, "not_a_rule"),
        ('[user]\nallow = "bash"\n', 2, "not_a_list"),
        ('[user]\nallow = []\ndeny = ["bash(rm *)"]\n', 3, "field_unknown"),
        ('[users]\nallow = ["bash"]\n', 1, "field_unknown"),
        ("# mine\nuser = 1\n", 2, "not_a_table"),
        ('\nprojects = ["/a"]\n', 2, "not_a_table"),
        ('[projects]\n"/a" = ["bash"]\n', 2, "not_a_table"),
        ('[projects."/a"]\nalow = ["bash"]\n', 2, "field_unknown"),
        ('[user]\nallow = ["bash"]\n[user]\n', 3, "file_not_toml"),
        ('version = 3\n[user]\nallow = ["write"]\n', 1, "grants_version"),
        ('version = "2"\n', 1, "grants_version"),
        ('version = 2\n[user]\nallow = ["bash(> log)"]\n', 3, "rule_redirection"),
        ("[user]\nunconfirmed = [1]\n", 2, "not_a_rule"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_nothing_in_it_counts(
    project: Path, settings: Path, text: str, line: int, code: str
) -> None:
    file = write(settings, text)
    grants = GrantsFile(project)
    for attempt in (grants.rules, lambda: grants.add("write", USER)):
        with pytest.raises(InvalidDocument) as refused:
            attempt()
        error = refused.value
        assert error.code == code
        if code == "file_not_toml":  # Python names the line
            assert (error.place, f"line {line}" in error.message) == (str(file), True)
        else:
            assert error.place == f"{file}, line {line}"
    assert file.read_text(encoding="utf-8") == text


def test_a_file_that_is_no_text_is_refused(project: Path, settings: Path) -> None:
    write(settings, b'[user]\nallow = ["\xff"]\n')
    with pytest.raises(InvalidDocument) as caught:
        GrantsFile(project).rules()
    assert caught.value.code == "not_utf8"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_does_not_count(
    project: Path, settings: Path, mode: int
) -> None:
    write(settings, '[user]\nallow = ["*"]\n').chmod(mode)
    with pytest.raises(Unavailable) as caught:
        GrantsFile(project).rules()
    assert caught.value.code == "file_writable_by_others"


def test_a_place_that_cannot_be_written_to_is_named(project: Path, home: Path) -> None:
    (home / ".config").write_text("in the way", encoding="utf-8")
    with pytest.raises(LogError) as caught:
        GrantsFile(project).add("write", USER)
    assert caught.value.code == "os_error"


# -- many at once --------------------------------------------------------------------------------


ADD_SOME = """
import sys
from pathlib import Path
from steno.app.permissions import GrantsFile
from steno.ports import GrantScope
for number in range(10):
    GrantsFile(Path(sys.argv[1])).add(f"{sys.argv[2]}{number}", GrantScope.PROJECT)
"""


def test_two_processes_lose_nothing_of_each_other(project: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_SOME, project, name]) for name in ("a", "b")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert sorted(GrantsFile(project).rules()) == [f"{n}{i}" for n in "ab" for i in range(10)]


# -- laws ----------------------------------------------------------------------------------------


def rule_with(text: str) -> str:
    """Return a rule with a text, or with a plain word in place of a text that no rule contains."""
    try:
        return str(PermissionRule.parse(f"bash({text})"))
    except InvalidValue:
        return f"bash(word{len(text)})"


RULES = st.lists(
    texts().map(rule_with) | st.sampled_from(["write", 'bash(echo "a" \\\\)', "bash(𝕏 é *)"]),
    unique=True,
    max_size=3,
).map(tuple)


TABLES = st.builds(GrantTable, allow=RULES, unconfirmed=RULES)


STORED = st.builds(
    StoredGrants,
    user=TABLES,
    projects=st.dictionaries(
        texts(), TABLES.map(lambda table: table if any(table) else GrantTable(("write",)))
    ),
    version=st.just(2),
    is_unreported=st.booleans(),
)


@given(STORED)
def test_written_grants_are_read_back(grants: StoredGrants) -> None:
    text = format_grants(grants)
    assert parse_grants(text.encode(), "here") == grants
    assert all(line.isprintable() for line in text.split("\n"))


@given(st.binary(max_size=40) | texts().map(str.encode))
def test_any_bytes_are_grants_or_refused(data: bytes) -> None:
    try:
        grants = parse_grants(data, "here")
    except InvalidDocument:
        return
    assert set(tomllib.loads(data.decode())) <= {"version", "unreported", "user", "projects"}
    assert all(str(PermissionRule.parse(rule)) == rule for rule in grants.user.allow)


# -- commands ------------------------------------------------------------------------------------


def command(*arguments: str) -> int:
    return run_command(["permissions", *arguments])


def test_commands_allow_list_and_revoke(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list") == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert command("allow", "bash(git log *)", "--project") == 0
    assert capsys.readouterr().err.endswith(": bash(git log *)\n")
    assert command("allow", "write(docs/**)", "--user") == 0
    assert command("allow", "edit", "--project", "--folder", str(project.parent)) == 0
    capsys.readouterr()
    assert command("list") == 0
    assert capsys.readouterr().out == (
        "for      rule\nproject  bash(git log *)\nuser     write(docs/**)\n"
    )
    assert command("list", "--all") == 0
    assert f"{project.parent}  edit\n" in capsys.readouterr().out
    assert command("revoke", "bash(git log *)") == 0
    assert capsys.readouterr().err.endswith(": bash(git log *)\n")
    assert GrantsFile(project).rules() == ("write(docs/**)",)


def test_the_list_is_there_for_programs(
    project: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("allow", "bash(git log *)", "--project")
    command("allow", "edit", "--project", "--folder", str(project.parent))
    capsys.readouterr()
    command("list", "--json", "--all")
    assert json.loads(capsys.readouterr().out) == {
        "file": str(settings / "grants.toml"),
        "folder": str(project),
        "project": ["bash(git log *)"],
        "user": [],
        "other_projects": {str(project.parent): ["edit"]},
        "unconfirmed": {
            "project": [],
            "user": [],
            "other_projects": {str(project.parent): []},
        },
    }


def test_permissions_alone_lists_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("allow", "bash(git log *)", "--project")
    capsys.readouterr()
    command("list")
    listed = capsys.readouterr().out
    command()
    assert capsys.readouterr().out == listed
    assert "bash(git log *)" in listed


def test_revoking_can_be_about_one_of_both(project: Path) -> None:
    for scope in ("--project", "--user"):
        command("allow", "write", scope)
    command("revoke", "write", "--user")
    assert GrantsFile(project).rules() == ("write",)
    with pytest.raises(Missing) as caught:
        command("revoke", "write", "--user")
    assert caught.value.code == "rule_not_granted"


@pytest.mark.parametrize(
    "arguments", [["allow", "bash"], ["allow", "bash", "--user", "--project"], ["allow"]]
)
def test_a_command_without_a_scope_is_refused(project: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        command(*arguments)


def test_an_invalid_rule_is_refused_with_an_explanation(project: Path) -> None:
    with pytest.raises(StenoError) as caught:
        command("allow", "bash(", "--user")
    assert caught.value.code == "rule_brackets"
