"""Which MCP servers count, and which of a stranger's are never started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steno import InvalidValue
from steno.app.mcp import ConfiguredServers, describe_server, find_servers
from steno.app.trust import TRUST_COMMAND
from tests.app.config_files import ConfigFolders

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "mcp.md"
USER = '[mcp_servers.time]\ncommand = "mine"\n'


@pytest.fixture
def places(tmp_path: Path) -> ConfigFolders:
    return ConfigFolders(tmp_path / "places")


def write(file: Path, **servers: Any) -> Path:
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def found(
    places: ConfigFolders,
    user: str = "",
    project: str = "",
    *,
    files: Sequence[Path] = (),
    environ: dict[str, str] | None = None,
) -> ConfiguredServers:
    loaded = places.load(user, project)
    everything = find_servers(loaded, environ or {}, files=files)
    return everything._replace(notices=(*loaded.notices, *everything.notices))


def test_without_any_there_are_none(places: ConfigFolders) -> None:
    assert found(places) == ((), (), {}, {})


def test_servers_come_from_settings_and_a_trusted_project_in_the_order_of_names(
    places: ConfigFolders,
) -> None:
    file = write(places.project / ".mcp.json", zoo={"command": "z", "cwd": "sub"})
    project = '[mcp_servers.git]\ncommand = "g"\ncwd = "sub"\n'
    [git, time, zoo] = found(places, places.trusting(USER), project).specs
    assert [spec.is_usable for spec in (git, time, zoo)] == [True, True, True]
    assert (git.command, git.origin) == ("g", str(places.project_file))
    assert (time.command, time.origin) == ("mine", str(places.user_file))
    assert (zoo.command, zoo.origin) == ("z", str(file))
    assert git.cwd == zoo.cwd == places.project / "sub"


def test_a_file_of_an_untrusted_project_starts_nothing_and_reads_no_variable(
    places: ConfigFolders,
) -> None:
    args = ["--token=${TOKEN}"]
    file = write(
        places.project / ".mcp.json", b={"command": "evil", "args": args}, a={"url": "http://x"}
    )
    servers = found(places, USER, environ={"TOKEN": "hush"})
    assert [(spec.name, spec.is_usable, spec.problem) for spec in servers.specs] == [
        ("a", False, "not trusted"),
        ("b", False, "not trusted"),
        ("time", True, ""),
    ]
    assert servers.specs[1].args == ("--token=",)
    [(code, note)] = servers.notices
    assert code == "not_trusted"
    assert note.startswith(f"{file}: ")
    assert ": a, b; " in note
    assert TRUST_COMMAND in note


def test_a_stranger_s_server_does_not_stand_in_the_way_of_one_s_own(places: ConfigFolders) -> None:
    write(places.project / ".mcp.json", time={"command": "evil"})
    [time] = found(places, USER).specs
    assert (time.command, time.is_usable) == ("mine", True)


def test_one_s_own_server_counts_before_that_of_a_trusted_project(places: ConfigFolders) -> None:
    file = write(places.project / ".mcp.json", time={"command": "c"})
    project = '[mcp_servers.time]\ncommand = "b"\n'
    servers = found(places, places.trusting(USER), project)
    assert [spec.command for spec in servers.specs] == ["mine"]
    overridden = f"this server is ignored; {places.user_file} has a server with the same name"
    assert servers.notices == (
        ("server_overridden", f"{places.project_file}: mcp_servers.time: {overridden}"),
        ("server_overridden", f"{file}: time: {overridden}"),
    )


def test_one_s_own_settings_can_switch_a_server_of_a_project_off(places: ConfigFolders) -> None:
    write(places.project / ".mcp.json", time={"command": "c"})
    for user in (USER + "disabled = true\n", "[mcp_servers.time]\ndisabled = true\n"):
        servers = found(places, places.trusting(user))
        assert [spec.is_usable for spec in servers.specs] == [False]
        assert servers.notices == ()


def test_only_enabled_servers_are_reported_as_not_started(places: ConfigFolders) -> None:
    off = {"command": "c", "disabled": True}
    write(places.project / ".mcp.json", time={"command": "c"}, off=off, git={"command": "g"})
    [note] = found(places, "[mcp_servers.time]\ndisabled = true\n").notices
    assert note.code == "not_trusted"
    assert ": git; " in note.text


def test_a_server_that_is_only_switched_off_is_described_without_what_it_does_not_have(
    places: ConfigFolders,
) -> None:
    [time] = found(places, "[mcp_servers.time]\ndisabled = true\n").specs
    assert describe_server(time) == {
        "kind": "",
        "state": "disabled",
        "from": str(places.user_file),
    }


def test_a_file_that_a_person_names_counts_most_and_the_last_of_them_before_all(
    places: ConfigFolders, tmp_path: Path
) -> None:
    first = write(tmp_path / "1.json", time={"command": "1"}, only={"command": "first"})
    second = write(tmp_path / "2.json", time={"command": "2"})
    servers = found(places, USER, files=[first, second])
    assert [(spec.name, spec.command) for spec in servers.specs] == [
        ("only", "first"),
        ("time", "2"),
    ]
    for note, other in zip(servers.notices, (first, places.user_file), strict=True):
        assert note.code == "server_overridden"
        assert note.text.startswith(f"{other}: time: ")
        assert str(second) in note.text


def test_a_missing_variable_disables_only_the_server_that_needs_it(places: ConfigFolders) -> None:
    user = '[mcp_servers.lab]\nurl = "https://x.example"\nheaders = { A = "${LAB_KEY}" }\n' + USER
    [lab, time] = found(places, user).specs
    assert (lab.is_usable, "LAB_KEY" in lab.problem) == (False, True)
    assert time.is_usable


def test_a_secret_in_a_file_is_reported_without_its_value(places: ConfigFolders) -> None:
    servers = found(places, USER + 'env = { API_KEY = "hushhush" }\n')
    [note] = servers.notices
    assert note.code == "server_spec_doubtful"
    assert note.text.startswith(f"{places.user_file}: time: env.API_KEY: ")
    assert "hushhush" not in note.text + repr(servers)


def test_a_server_that_only_other_programs_can_use_does_not_hide_the_rest(
    places: ConfigFolders,
) -> None:
    file = write(
        places.project / ".mcp.json",
        **{"old": {"type": "sse", "url": "http://x"}, "my server": {"command": "x"}},
        good={"command": "good", "alwaysAllow": ["x"]},
    )
    servers = found(places, places.trusting())
    assert [spec.name for spec in servers.specs] == ["good"]
    [old, odd] = servers.notices
    assert (old.code, odd.code) == ("sse_unsupported", "invalid_server_name")
    assert old.text.startswith(f"{file}: mcpServers.old.type: sse ")
    assert odd.text.startswith(f"{file}: ")
    assert "my server" in odd.text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "not_json"),
        ("[]", "not_a_table"),
        ("{}", "not_a_table"),
        ('{"mcpServers": []}', "not_a_table"),
        ('{"mcpServers": {"a": ' + "[" * 100_000, "file_too_complex"),
        (" " * 300_000, "file_too_large"),
        ("\udcff", "not_json"),
    ],
    ids=lambda value: value[:40].encode("ascii", "replace").decode(),
)
@pytest.mark.parametrize("trusts", [False, True])
def test_a_file_of_a_project_that_makes_no_sense_is_a_notice(
    places: ConfigFolders, text: str, code: str, trusts: bool
) -> None:
    file = write(places.project / ".mcp.json", a={"command": "x"})
    if trusts:
        assert len(found(places, places.trusting(USER)).specs) == 2
    file.write_bytes(text.encode(errors="surrogateescape"))
    servers = found(places, USER)
    assert [spec.name for spec in servers.specs] == ["time"]
    [note] = servers.notices
    assert (note.code, note.text.startswith(f"{file}: ")) == (code, True)


def test_a_file_that_is_a_way_out_of_the_project_or_a_pipe_is_not_read(
    places: ConfigFolders,
) -> None:
    file = places.project / ".mcp.json"
    file.symlink_to(write(places.home / "other.json", evil={"command": "x"}))
    [note] = found(places).notices
    assert (note.code, "outside" in note.text) == ("outside_workspace", True)
    file.unlink()
    os.mkfifo(file)
    servers = found(places)
    assert servers.specs == ()
    assert servers.notices[0].code == "not_a_regular_file"


def test_one_s_own_servers_are_not_started_among_the_files_of_a_stranger(
    places: ConfigFolders, tmp_path: Path
) -> None:
    user = USER + '[mcp_servers.here]\ncommand = "x"\ncwd = "."\n'
    own = write(tmp_path / "own.json", own={"command": "x"})
    theirs = write(places.project / "theirs.json", theirs={"command": "x"})
    environ = {"HOME": str(places.home)}

    def folders(user: str) -> dict[str, Path | None]:
        specs = found(places, user, files=[own, theirs], environ=environ).specs
        return {spec.name: spec.cwd for spec in specs}

    anywhere = {"here": Path(), "theirs": None}
    assert folders(user) == {"own": places.home, "time": places.home, **anywhere}
    assert folders(places.trusting() + user) == {"own": None, "time": None, **anywhere}


def test_a_stranger_cannot_fill_the_screen_with_servers_that_make_no_sense(
    places: ConfigFolders,
) -> None:
    odd = {f"no name {number}": 1 for number in range(1_000)}
    fine = {f"server{number}": {"command": "x"} for number in range(1_000)}
    write(places.project / ".mcp.json", **odd, **fine, a={"command": "x", "type": []})
    servers = found(places)
    assert not any(spec.is_usable for spec in servers.specs)
    assert len(servers.notices) == 22
    assert servers.notices[20].code == "more_servers_left_out"
    assert " 981 " in servers.notices[20].text
    assert servers.notices[21].code == "not_trusted"
    assert len(servers.notices[21].text) < 1_000


def test_a_named_file_has_to_be_there_and_to_make_sense(
    places: ConfigFolders, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue) as caught:
        found(places, files=[tmp_path / "none.json"])
    assert caught.value.code == "file_not_found"
    assert caught.value.place == str(tmp_path / "none.json")
    with pytest.raises(InvalidValue) as caught:
        found(places, files=[write(tmp_path / "1.json", a={})])
    assert caught.value.code == "no_transport"
    assert caught.value.place == f"{tmp_path / '1.json'}: mcpServers.a"


def test_an_unknown_home_in_an_untrusted_file_stops_nothing(places: ConfigFolders) -> None:
    write(places.project / ".mcp.json", a={"command": "x", "cwd": "~nobody-here-9/x"})
    assert not any(spec.is_usable for spec in found(places).specs)


def test_the_files_in_the_guide_can_be_read(places: ConfigFolders) -> None:
    blocks = re.findall(
        r"^```(toml|json)\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: set[str] = set()
    for kind, text in blocks:
        if kind == "json":
            (places.project / ".mcp.json").write_text(text)
        servers = found(places, places.trusting() if kind == "json" else text)
        names |= {spec.name for spec in servers.specs if spec.is_trusted}
    assert names == {"time", "github", "docs", "git"}
