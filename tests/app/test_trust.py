"""Trust is in the content of a project's configuration: any change ends it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steno.app.mcp import ConfiguredServers, find_servers
from steno.app.settings import LoadedSettings, load_settings
from steno.app.trust import TRUST_COMMAND, ProjectTrust, TrustFile, TrustState
from steno.app.trust_review import open_trust_file, review_project
from steno.errors import InvalidDocument, InvalidValue, Unavailable
from tests.app.config_files import ConfigFolders, trust_project

SERVER = {
    "command": "uvx",
    "args": ["mcp-server-time", "--zone=${ZONE:-UTC}"],
    "env": {"TOKEN": "${TOKEN:-none}", "A": "1"},
    "cwd": "sub",
}
REMOTE = {"url": "https://x.example/${AREA:-main}", "headers": {"X-Key": "${TOKEN:-none}"}}


class Project(ConfigFolders):
    """A project whose files tests change, and the variables of its user."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environ = {"HOME": str(self.home)}
        self.trust_file = self.user_file.with_name("trust.toml")
        self.mcp_file = self.project / ".mcp.json"

    def write_servers(self, **rows: object) -> None:
        self.mcp_file.write_text(json.dumps({"mcpServers": rows}))

    def trust(self) -> None:
        trust_project(self.work, self.environ)

    def settings(self) -> LoadedSettings:
        return load_settings(self.work, environ=self.environ)

    def servers(self) -> ConfiguredServers:
        return find_servers(self.settings(), self.environ)

    def states(self) -> dict[str, str]:
        """Return the problem of each server."""
        return {spec.name: spec.problem for spec in self.servers().specs}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "places")


def codes(loaded: LoadedSettings) -> list[str]:
    return [notice.code for notice in loaded.notices]


# -- the settings file -----------------------------------------------------------------------


def test_settings_apply_once_they_are_trusted_and_no_longer_after_a_change(
    project: Project,
) -> None:
    project.project_file.write_text("network = true\n")
    assert (project.settings().settings.network, codes(project.settings())) == (
        False,
        ["settings_ignored"],
    )
    project.trust()
    assert (project.settings().settings.network, codes(project.settings())) == (True, [])
    project.project_file.write_text("network = true\nmax_turns = 1\n")
    changed = project.settings()
    assert (changed.settings.network, changed.settings.max_turns) == (False, 1)
    [notice] = changed.notices
    assert notice.code == "trust_changed"
    assert str(project.project_file) in notice.text
    assert TRUST_COMMAND in notice.text
    assert changed.problems == changed.notices  # commands that only read stores report it, too
    project.trust()
    assert project.settings().settings.network


@pytest.mark.parametrize(
    "data",
    [b"network = true", b"network = true\n\n", b"network = true\n#\n", b"network = true\r\n"],
)
def test_every_byte_of_the_settings_counts(project: Project, data: bytes) -> None:
    project.project_file.write_bytes(b"network = true\n")
    project.trust()
    project.project_file.write_bytes(data)
    assert project.settings().settings.network is False


def test_a_settings_file_that_appears_later_is_not_trusted(project: Project) -> None:
    project.trust()
    project.project_file.write_text("network = true\n")
    assert codes(project.settings()) == ["trust_changed"]
    assert not project.settings().trusts_project


def test_trust_is_in_one_folder_and_not_in_those_below_or_beside(project: Project) -> None:
    project.project_file.write_text("network = true\n")
    project.trust()
    for other in (project.work, project.project.with_name("project2")):
        (other / ".steno").mkdir(parents=True)
        (other / ".steno" / "config.toml").write_text("network = true\n")
        loaded = load_settings(other, environ=project.environ)
        assert (loaded.settings.network, codes(loaded)) == (False, ["settings_ignored"])


def test_trust_in_a_link_is_trust_in_its_target(project: Project) -> None:
    project.project_file.write_text("network = true\n")
    (project.home / "link").symlink_to(project.project)
    trust_project(project.home / "link", project.environ)
    assert project.settings().settings.network


def test_a_review_trusts_the_content_that_it_showed(project: Project) -> None:
    """The file and the servers change between the review and the answer of the user."""
    project.project_file.write_text("network = true\n")
    project.write_servers(time=SERVER)
    review = review_project(project.work, project.environ)
    project.project_file.write_text("allow = ['bash']\n")
    project.write_servers(time={"command": "evil"})
    open_trust_file(project.environ).trust(review.project, review.found)
    assert project.settings().settings.allow == ()
    assert project.states() == {"time": "changed since you trusted it"}


def test_a_review_shows_everything_that_needs_trust(project: Project) -> None:
    project.project_file.write_text(
        "max_turns = 1\nnetwork = true\nmodel = 'a/b\\u202e'\n[mcp_servers.git]\ncommand = 'g'\n".replace(
            "'a/b\\u202e'", '"a/b\\u202e"'
        )
    )
    project.write_servers(time=SERVER, git={"command": "other"})
    parts = review_project(project.work, project.environ).parts
    shown = {part.name: (part.origin, dict(part.members)) for part in parts}
    assert shown == {
        str(project.project_file): (
            str(project.project_file),
            {"network": True, "model": "a/b\u202e"},
        ),
        "time": (str(project.mcp_file), SERVER),
        "git": (str(project.project_file), {"command": "g"}),
    }
    lines = [line for part in parts for line in part.lines()]
    assert any("mcp-server-time" in line for line in lines)
    assert not any("\u202e" in line for line in lines)


# -- servers ---------------------------------------------------------------------------------


def test_a_server_is_used_once_it_is_trusted(project: Project) -> None:
    project.write_servers(time=SERVER, web=REMOTE)
    assert set(project.states().values()) == {"not trusted"}
    project.trust()
    assert project.states() == {"time": "", "web": ""}
    [time, web] = project.servers().specs
    assert (time.args, web.url) == (("mcp-server-time", "--zone=UTC"), "https://x.example/main")


@pytest.mark.parametrize(
    "change",
    [
        {"command": "sh"},
        {"args": ["mcp-server-time", "--evil"]},
        {"args": ["mcp-server-time --zone=${ZONE:-UTC}"]},
        {"env": {"TOKEN": "${TOKEN:-none}", "A": "2"}},
        {"env": {"TOKEN": "${TOKEN:-none}", "A": "1", "LD_PRELOAD": "x.so"}},
        {"env": {"TOKEN": "${OTHER:-none}", "A": "1"}},
        {"cwd": "other"},
        {"reads": ["*"]},
        {"call_timeout_s": 9.5},
        {"disabled": False},
        {"unknown": 1},
    ],
)
def test_a_server_that_changes_is_no_longer_used(project: Project, change: dict[str, Any]) -> None:
    project.write_servers(time=SERVER, web=REMOTE)
    project.trust()
    project.write_servers(time={**SERVER, **change}, web=REMOTE)
    assert project.states() == {"time": "changed since you trusted it", "web": ""}
    [notice] = project.servers().notices
    assert notice.code == "trust_changed"
    assert "time" in notice.text
    assert TRUST_COMMAND in notice.text
    assert project.servers().specs[0].env.get("TOKEN") in (None, "", "none")


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://evil.example/main"},
        {"headers": {"X-Key": "${OPENAI_API_KEY}"}},
        {"headers": {}},
    ],
)
def test_a_remote_server_that_changes_is_no_longer_used(
    project: Project, change: dict[str, Any]
) -> None:
    project.environ["OPENAI_API_KEY"] = "hushhush"
    project.write_servers(web=REMOTE)
    project.trust()
    project.write_servers(web={**REMOTE, **change})
    [web] = project.servers().specs
    assert (web.problem, web.is_usable) == ("changed since you trusted it", False)
    assert "hushhush" not in web.headers.values()


def test_a_server_with_another_name_or_that_is_new_is_not_trusted(project: Project) -> None:
    project.write_servers(time=SERVER)
    project.trust()
    project.write_servers(time=SERVER, clock=SERVER)
    assert project.states() == {"clock": "not trusted", "time": ""}
    [notice] = project.servers().notices
    assert notice.code == "not_trusted"


@pytest.mark.parametrize(
    ("variable", "is_trusted"),
    [("ZONE", False), ("AREA", False), ("TOKEN", True)],
)
def test_variables_that_decide_what_runs_count_and_tokens_may_change(
    project: Project, variable: str, is_trusted: bool
) -> None:
    project.write_servers(time=SERVER, web=REMOTE)
    project.trust()
    project.environ[variable] = "changed"
    assert (set(project.states().values()) == {""}) is is_trusted


def test_a_server_in_the_settings_of_a_project_is_trusted_like_one_in_its_own_file(
    project: Project,
) -> None:
    text = '[mcp_servers.git]\ncommand = "${PROGRAM:-git}"\n'
    project.project_file.write_text(text)
    project.trust()
    assert project.states() == {"git": ""}
    project.environ["PROGRAM"] = "sh"
    assert project.states() == {"git": "changed since you trusted it"}
    del project.environ["PROGRAM"]
    project.project_file.write_text(text + "reads = ['*']\n")
    assert project.states() == {}


def test_a_project_without_trust_reads_no_variable(project: Project) -> None:
    project.environ["TOKEN"] = "hushhush"
    project.write_servers(time=SERVER)
    [time] = project.servers().specs
    assert time.env["TOKEN"] == "none"
    assert "hushhush" not in repr(project.servers())


# -- files that make no sense ----------------------------------------------------------------


def make_fifo(file: Path) -> None:
    os.mkfifo(file)


def make_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def make_unreadable(file: Path) -> None:
    file.write_text("network = true\n")
    file.chmod(0)


def make_loop(file: Path) -> None:
    file.symlink_to(file.name)


BROKEN: dict[str, Callable[[Path], object]] = {
    "toml": lambda file: file.write_text("network = = true"),
    "encoding": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "nul": lambda file: file.write_bytes(b"\0" * 100),
    "unknown": lambda file: file.write_text("max_turn = 1\n"),
    "type": lambda file: file.write_text("max_turns = 'x'\nnetwork = true\n"),
    "deny": lambda file: file.write_text("deny = ['bsh']\n"),
    "long": lambda file: file.write_bytes(b"#" * 1_000_000),
    "long_name": lambda file: file.write_text(f"{'x' * 200_000} = 1\n"),
    "deep": lambda file: file.write_text(f"a = {'[' * 50_000}\n"),
    "number": lambda file: file.write_text(f"max_turns = {'9' * 50_000}\n"),
    "many": lambda file: file.write_text("".join(f"a{n} = 1\n" for n in range(5_000))),
    "fifo": make_fifo,
    "folder": lambda file: file.mkdir(),
    "device": make_device,
    "outside": lambda file: file.symlink_to("/etc/passwd"),
    "loop": make_loop,
    "dangling": lambda file: file.symlink_to("nowhere"),
    "unreadable": make_unreadable,
}


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("trusts", [False, True])
def test_a_broken_settings_file_of_a_project_is_a_notice_and_never_stops_steno(
    project: Project, kind: str, trusts: bool
) -> None:
    project.project_file.write_text("network = true\n")
    if trusts:
        project.trust()
    project.project_file.unlink()
    BROKEN[kind](project.project_file)
    loaded = project.settings()
    if os.geteuid() != 0 or kind != "unreadable":  # the superuser can read every file
        assert loaded.notices
        assert not loaded.settings.network
    assert len(loaded.notices) <= 22
    assert all(len(notice.text) < 1_000 for notice in loaded.notices)
    assert loaded.settings.max_turns == 50
    review = review_project(project.work, project.environ)  # a review shows it, and fails neither
    assert len(review.notices) <= 22


def test_the_valid_settings_of_a_broken_file_still_restrict(project: Project) -> None:
    project.project_file.write_text("max_turn = 1\nmode = 'plan'\ndeny = ['bash']\n")
    loaded = project.settings()
    assert (str(loaded.settings.mode), len(loaded.settings.deny)) == ("plan", 1)
    assert codes(loaded) == ["setting_unknown"]


@pytest.mark.parametrize(
    "kind", ["fifo", "folder", "device", "outside", "loop", "encoding", "long"]
)
def test_a_broken_server_file_of_a_project_is_a_notice(project: Project, kind: str) -> None:
    project.write_servers(time=SERVER)
    project.trust()
    project.mcp_file.unlink()
    BROKEN[kind](project.mcp_file)
    servers = project.servers()
    assert servers.specs == ()
    assert len(servers.notices) == 1


def test_a_folder_of_settings_that_is_a_file_or_leads_out_is_ignored(project: Project) -> None:
    folder = project.project_file.parent
    folder.rmdir()
    folder.write_text("")
    assert project.settings().notices == ()
    folder.unlink()
    outside = project.home / "outside"
    outside.mkdir()
    (outside / "config.toml").write_text("max_turns = 1\n")
    folder.symlink_to(outside)
    assert project.settings().settings.max_turns == 50


def test_a_broken_user_file_and_variable_still_stop(project: Project) -> None:
    project.user_file.write_text("max_turn = 1\n")
    with pytest.raises(InvalidValue):
        project.settings()
    project.user_file.write_text("")
    project.environ["STENO_MAX_TURNS"] = "x"
    with pytest.raises(InvalidValue):
        project.settings()


# -- the trust file --------------------------------------------------------------------------


def test_the_trust_file_is_private_and_holds_digests_only(project: Project) -> None:
    project.project_file.write_text("network = true\n")
    project.environ["TOKEN"] = "hushhush"
    project.write_servers(time=SERVER)
    project.trust()
    assert stat.S_IMODE(project.trust_file.stat().st_mode) == 0o600
    text = project.trust_file.read_text()
    assert "hushhush" not in text
    assert "uvx" not in text
    [(folder, trust)] = TrustFile(project.trust_file).read().items()
    assert (folder, list(trust.servers)) == (str(project.project), ["time"])


def test_a_trust_file_of_another_user_is_ignored(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.project_file.write_text("network = true\n")
    project.trust()
    if os.geteuid() == 0:
        os.chown(project.trust_file, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert codes(project.settings()) == ["file_writable_by_others", "settings_ignored"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_trust_file_that_others_can_write_is_ignored(project: Project, mode: int) -> None:
    project.project_file.write_text("network = true\n")
    project.trust()
    project.trust_file.chmod(mode)
    loaded = project.settings()
    assert (loaded.settings.network, codes(loaded)) == (
        False,
        ["file_writable_by_others", "settings_ignored"],
    )
    with pytest.raises(Unavailable):
        TrustFile(project.trust_file).revoke(str(project.project))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("?", "file_not_toml"),
        ("\udcff", "not_utf8"),
        (f"a = {'[' * 50_000}", "file_not_toml"),
        ("[other]\n", "field_unknown"),
        ("projects = 1\n", "not_a_table"),
        ('[projects."/x"]\nall = true\n', "field_unknown"),
        ('[projects]\n"/x" = true\n', "not_a_table"),
        ('[projects."/x"]\nsettings = "*"\n', "not_sha256"),
        ('[projects."/x"]\nsettings = ""\n', "not_sha256"),
        ('[projects."/x".servers]\na = true\n', "not_sha256"),
    ],
)
def test_an_invalid_trust_file_trusts_nothing(project: Project, text: str, code: str) -> None:
    project.project_file.write_text("network = true\n")
    project.trust_file.write_bytes(text.encode(errors="surrogateescape"))
    assert codes(project.settings()) == [code, "settings_ignored"]
    with pytest.raises(InvalidDocument) as caught:
        TrustFile(project.trust_file).trust(project.project, ProjectTrust())
    assert caught.value.code == code
    assert project.trust_file.read_bytes() == text.encode(errors="surrogateescape")


def test_projects_are_trusted_and_revoked_one_by_one(tmp_path: Path) -> None:
    file = TrustFile(tmp_path / "steno" / "trust.toml")
    odd = Path('/a "b"\\\n\u202e')
    trusted = {Path("/a"): ProjectTrust("0" * 64), odd: ProjectTrust(None, {"x": "1" * 64})}
    for folder, trust in trusted.items():
        file.trust(folder, trust)
    assert file.read() == {str(folder): trust for folder, trust in trusted.items()}
    assert file.revoke("/a")
    assert not file.revoke("/a")
    assert file.read() == {str(odd): trusted[odd]}


def test_a_project_whose_path_is_not_utf8_cannot_be_trusted(project: Project) -> None:
    folder = Path(os.fsdecode(bytes(project.home) + b"/\xff"))
    (folder / ".steno").mkdir(parents=True)
    (folder / ".steno" / "config.toml").write_text("network = true\n")
    with pytest.raises(InvalidValue) as caught:
        trust_project(folder, project.environ)
    assert caught.value.code == "path_not_utf8"
    assert not load_settings(folder, environ=project.environ).settings.network


def test_without_a_home_nothing_is_trusted(project: Project) -> None:
    project.project_file.write_text("network = true\n")
    loaded = load_settings(project.work, environ={"HOME": ""})
    assert codes(loaded) == ["settings_ignored"]
    with pytest.raises(InvalidValue) as caught:
        open_trust_file({"HOME": ""})
    assert caught.value.code == "home_unknown"


# -- trust of older versions -----------------------------------------------------------------


def test_the_setting_of_older_versions_trusts_nothing_and_says_so(project: Project) -> None:
    project.user_file.write_text(f"trusted_projects = [{json.dumps(str(project.project))}]\n")
    project.project_file.write_text("network = true\n")
    project.write_servers(time=SERVER)
    loaded = project.settings()
    assert (loaded.settings.network, loaded.trusts_project) == (False, False)
    assert codes(loaded) == ["trusted_projects_unused", "settings_ignored"]
    assert project.states() == {"time": "not trusted"}
    project.trust()
    loaded = project.settings()
    assert (loaded.settings.network, codes(loaded)) == (True, [])


def test_own_servers_start_in_a_project_only_while_its_settings_are_trusted(
    project: Project,
) -> None:
    project.user_file.write_text('[mcp_servers.mine]\ncommand = "x"\n')
    assert project.servers().specs[0].cwd == project.home
    project.trust()
    assert project.servers().specs[0].cwd is None
    project.project_file.write_text("network = true\n")
    assert project.servers().specs[0].cwd == project.home
    project.project_file.unlink()
    os.mkfifo(project.project_file)
    assert project.settings().project_settings.trust is TrustState.CHANGED
    assert project.servers().specs[0].cwd == project.home
