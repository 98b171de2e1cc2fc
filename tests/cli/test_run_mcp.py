"""`steno -p` with MCP servers: their tools, prompts and resources, and what happens if one dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from steno.app.trust import TRUST_COMMAND
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.messages.message import ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.store import open_store
from tests.app.project_setup import make_project, result_of, scripted_model
from tests.app.scripted_vendor import Call, ScriptedVendor
from tests.cli.program import run_steno
from tests.cli.reference_setup import (
    WITH_VISION,
    check_last_log,
    input_rows,
    last_text,
    trust_settings,
    write_servers,
)
from tests.cli.running_program import start_program
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.real_servers import everything_spec, own_spec, time_spec

FEATURES = "demo://resource/static/document/features.md"
TIME = "mcp__time__get_current_time"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def offered(model: ScriptedVendor) -> set[str]:
    """Return the MCP tools of the last request."""
    names = {tool["function"]["name"] for tool in model.seen[-1]["tools"]}
    return {name for name in names if name.startswith("mcp__")}


def results() -> list[ToolResultMessage]:
    """Return what came of the calls of the last session."""
    with open_store() as store:
        [*_, last] = store.headers()
        messages = store.open(last.id).messages()
    return [message for message in messages if isinstance(message, ToolResultMessage)]


# -- tools ---------------------------------------------------------------------------------------


def test_a_model_calls_a_tool_of_a_server_that_a_trusted_project_names(
    home: Path, project: Path
) -> None:
    write_servers(project / ".mcp.json", time_spec())
    call = Call(TIME, {"timezone": "UTC"})
    with scripted_model(home, [call], "Noon.", settings=trust_settings(project)) as model:
        output = run_steno("-p", "How late is it?", "--allow", TIME)
    assert (output.status, output.out) == (0, "Noon.\n")
    assert offered(model) == {TIME, "mcp__time__convert_time"}
    [result] = results()
    assert (result.outcome, result.tool_name) == (Outcome.OK, TIME)
    assert result.details is not None
    assert result.details["structured"]["timezone"] == "UTC"
    assert model.seen[-1]["messages"][-1]["content"] == result.text
    check_last_log()


def test_a_call_that_no_rule_allows_is_denied_and_no_server_need_be_started(
    home: Path, project: Path, tmp_path: Path
) -> None:
    write_servers(tmp_path / "servers.json", time_spec())
    call = Call(TIME, {"timezone": "UTC"})
    with scripted_model(home, [call], "I may not.", "There are none.") as model:
        output = run_steno("-p", "How late is it?", "--mcp-config", tmp_path / "servers.json")
        assert output.status == 0
        assert [result.outcome for result in results()] == [Outcome.DENIED]
        assert run_steno("-p", "How late is it?", "--no-mcp").status == 0
        assert offered(model) == set()


def test_servers_of_an_untrusted_project_are_reported_and_not_started(
    home: Path, project: Path
) -> None:
    marker = project / "started"
    evil = McpServerSpec(name="evil", command="touch", args=(str(marker),))
    write_servers(project / ".mcp.json", evil)
    with scripted_model(home, "There are none.") as model:
        output = run_steno("-p", "Which tools?")
    assert output.status == 0
    assert offered(model) == set()
    [note] = [line for line in output.err.splitlines() if "evil" in line]
    assert note.startswith(f"steno: {project}/.mcp.json: ")
    assert TRUST_COMMAND in note
    assert not marker.exists()


def test_a_server_that_cannot_be_started_does_not_stop_a_run(
    home: Path, project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"absent": {"command": "./no-such-program"}}}')
    with scripted_model(home, "Fine."):
        output = run_steno("-p", "How is it?", "--mcp-config", file)
    assert (output.status, output.out) == (0, "Fine.\n")
    assert "steno: mcp absent: " in output.err


def test_a_server_killed_during_a_call_is_an_error_and_the_session_continues(
    home: Path, project: Path, tmp_path: Path
) -> None:
    write_servers(project / ".mcp.json", own_spec())
    turns: list[list[Call]] = [
        [Call("mcp__own__pid", {}, id="c1")],
        [Call("mcp__own__wait", {"file": str(tmp_path / "end")}, id="c2")],
        [Call("mcp__own__add", {"a": 40, "b": 2}, id="c3")],
    ]
    with (
        scripted_model(home, *turns, "It is back.", settings=trust_settings(project)) as model,
        start_program("-p", "Go.", "--allow", "mcp__own__*") as process,
    ):
        process.until("output")  # it reports that it waits
        [number] = [result.text for result in results()]
        os.kill(int(number), signal.SIGKILL)
        output = process.end()
    assert output.status == 0
    assert [result.outcome for result in results()] == [Outcome.OK, Outcome.ERROR, Outcome.OK]
    assert "mcp own: the connection to the server was lost during a call" in results()[1].text
    assert model.seen[-1]["messages"][-1]["content"] == "42"
    check_last_log()


# -- prompts and resources -----------------------------------------------------------------------


@pytest.mark.requirement("S2-30", "S2-31")
def test_prompts_and_resources_of_a_server_reach_the_model(home: Path, project: Path) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    with scripted_model(home, "Rain.", "A list.", settings=trust_settings(project)) as model:
        output = run_steno("-p", "/everything:args-prompt city=Berlin", data=b"In one word.\n")
        assert (output.status, output.out) == (0, "Rain.\n")
        assert last_text(model).startswith("What's weather in Berlin?")
        assert last_text(model).endswith("In one word.\n")
        output = run_steno(
            "-c", "-p", f"Sum up @everything:{FEATURES}", "--output-format", "stream-json"
        )
        assert output.status == 0
    text = last_text(model)
    assert text.startswith(f"Sum up @everything:{FEATURES}\n\n[resource {FEATURES} of the MCP")
    assert "# Everything Server - Features" in text
    [row] = input_rows()
    assert (row["kind"], row["name"]) == ("resource", f"everything:{FEATURES}")
    assert (row["how"], row["since"]) == ("read", "fresh")
    assert row["details"]["mime_type"] == "text/markdown"
    check_last_log()


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("/everything:no-such-prompt", "no-such-prompt"),
        ("/everything:args-prompt", "city"),
        ("See @everything:demo://no/such/thing", "mcp everything: "),
        ("See @unknown:demo://x", "unknown"),
    ],
)
def test_an_unknown_resource_is_reported_and_nothing_is_sent(
    home: Path, project: Path, prompt: str, why: str
) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    with scripted_model(home, settings=trust_settings(project)) as model:
        output = run_steno("-p", prompt, "-q")
    assert (output.status, output.out, model.seen) == (1, "", [])
    assert why in output.err


def test_a_resource_that_a_rule_denies_is_not_read(home: Path, project: Path) -> None:
    write_servers(project / ".mcp.json", own_spec())
    with scripted_model(home, settings=trust_settings(project)) as model:
        output = run_steno("-p", "See @own:demo://x/y", "--deny", "mcp__own(demo://x/**)", "-q")
    assert (output.status, model.seen) == (1, [])
    assert "(deny mcp__own(demo://x/**))" in output.err


def test_a_prompt_of_a_server_is_recorded_with_the_command_that_stands_for_it(
    home: Path, project: Path
) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    with scripted_model(home, "Fine.", settings=trust_settings(project)):
        run_steno("-p", "/everything:args-prompt city=Rome", "-q")
    assert "from /everything:args-prompt city=Rome" in run_steno("sessions", "show", "last").out
    assert run_steno("replay", "last").status == 0


@pytest.mark.requirement("S2-28")
def test_a_prompt_of_a_server_that_is_tried_again_is_recorded_with_its_command(
    home: Path, project: Path
) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    image = project / "shapes.png"
    image.write_bytes(b"no image at all")
    command = "/everything:args-prompt city=Paris"
    with scripted_model(home, "Rain.", settings=f"{trust_settings(project)}{WITH_VISION}"):
        assert run_steno("-p", command, "--image", "shapes.png").status == 1
        image.write_bytes(encode_image(red_image()))
        # Settings changed in between do not make the prompt count as sent.
        output = run_steno("-c", "--retry", "--mode", "plan")
        assert (output.status, output.out) == (0, "Rain.\n")
    with open_store() as store:
        [header] = store.headers()
        entries = store.open(header.id).entries()
    [entry_of_prompt] = [entry for entry in entries if isinstance(entry.payload, UserMessage)]
    assert (entry_of_prompt.audit or {})["origin"] == command
    check_last_log()


def test_a_command_of_no_server_is_sent_as_text_and_reported(home: Path) -> None:
    with scripted_model(home, "Fine.") as model:
        output = run_steno("-p", "/unknown:greet name=Ada")
    assert output.status == 0
    assert last_text(model).endswith("/unknown:greet name=Ada")
    assert "/unknown:greet: " in output.err


def test_a_server_as_a_whole_can_be_denied(home: Path, project: Path) -> None:
    write_servers(project / ".mcp.json", time_spec())
    asked = Call("mcp__time__get_current_time", {"timezone": "UTC"})
    with scripted_model(home, [asked], "Well.", settings=trust_settings(project)):
        output = run_steno("-p", "When?", "--deny", "mcp__time", "--yes", "--output-format", "json")
    (denied,) = result_of(output)["denied"]
    assert "the rule mcp__time denies this call" in denied["reason"]


def test_rules_that_match_no_server_or_tool_are_reported(home: Path, project: Path) -> None:
    write_servers(project / ".mcp.json", time_spec())
    with scripted_model(home, "Well.", settings=trust_settings(project)):
        output = run_steno(
            *("-p", "When?", "--deny", "mcp__tme__get_current_time"),
            *("--deny", "mcp__time__get_time", "--allow", "mcp__time__get_*"),
        )
    lines = output.err.splitlines()
    [server] = [line for line in lines if "rule mcp__tme__get_current_time: " in line]
    assert server.endswith(" time?")
    assert any("rule mcp__time__get_time: " in line for line in lines)
    assert "mcp__time__get_*" not in output.err
