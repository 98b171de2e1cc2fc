"""The configuration of servers in `.mcp.json` and in our own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steno.errors import InvalidValue
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from tests.raised_errors import raises_code

BASE = Path("/project")


def read(members: Any, *, is_strict: bool = False, **environ: str) -> McpServerSpec:
    table = {"it": members}
    specs = read_server_specs(table, place="file", environ=environ, base=BASE, is_strict=is_strict)
    return specs["it"]


def test_program_is_read() -> None:
    spec = read({"command": "npx", "args": ["-y", "pkg"], "env": {"A": "b"}, "cwd": "sub"})
    assert (spec.name, spec.command, spec.args) == ("it", "npx", ("-y", "pkg"))
    assert spec.env == {"A": "b"}
    assert spec.cwd == BASE / "sub"
    assert spec.origin == "file"
    assert spec.is_usable


@pytest.mark.parametrize("kind", ["http", "streamable-http"])
def test_address_is_read(kind: str) -> None:
    spec = read({"type": kind, "url": "https://example.com/mcp", "headers": {"X-Team": "red"}})
    assert (spec.url, spec.headers) == ("https://example.com/mcp", {"X-Team": "red"})


def test_our_own_settings_say_more() -> None:
    members = {
        "command": "x",
        "reads": ["list_*"],
        "ttl_s": {"text/*": 60, "*": 0},
        "start_timeout_s": 5,
        "call_timeout_s": 7.5,
        "disabled": True,
    }
    spec = read(members, is_strict=True)
    assert spec.reads == ("list_*",)
    assert dict(spec.ttl_s) == {"text/*": 60, "*": 0}
    assert (spec.start_timeout_s, spec.call_timeout_s) == (5, 7.5)
    assert not spec.is_usable


def test_keys_of_other_programs_are_passed_over_only_in_their_own_file() -> None:
    members = {"command": "x", "autoApprove": ["*"]}
    assert read(members).command == "x"
    with raises_code(InvalidValue, "field_unknown", place="file.it.autoApprove"):
        read(members, is_strict=True)


def test_variables_are_filled_in() -> None:
    spec = read(
        {
            "command": "${BIN:-/usr/bin}/server",
            "args": ["--user=${NAME}", "$NAME"],
            "env": {"TOKEN": "${SECRET}"},
        },
        NAME="ann",
        SECRET="s3cret",
    )
    assert (spec.command, spec.args) == ("/usr/bin/server", ("--user=ann", "$NAME"))
    assert spec.env == {"TOKEN": "s3cret"}
    address = read(
        {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        HOST="example.com",
        KEY="k",
    )
    assert address.url == "https://example.com/mcp"
    assert address.headers == {"Authorization": "Bearer k"}


def test_value_of_a_variable_is_not_looked_at_again() -> None:
    assert read({"command": "x", "args": ["${A}"]}, A="${B}").args == ("${B}",)


@pytest.mark.parametrize("environ", [{}, {"GITHUB_TOKEN": ""}])
def test_variable_that_is_not_set_makes_a_server_unusable(environ: Any) -> None:
    spec = read(
        {"command": "x", "env": {"T": "${GITHUB_TOKEN}", "U": "${GITHUB_TOKEN}"}}, **environ
    )
    assert spec.problem == "needs the variable GITHUB_TOKEN: set it in the environment"
    assert not spec.is_usable
    assert not read({"url": "${WHERE}"}).is_usable


@pytest.mark.parametrize(
    ("members", "place", "code"),
    [
        ([], "file.it", "not_a_table"),
        ({}, "file.it", "no_transport"),
        ({"command": "x", "url": "http://h"}, "file.it", "no_transport"),
        ({"command": ""}, "file.it.command", "empty_command"),
        ({"command": 7}, "file.it.command", "not_a_string"),
        ({"command": "a\0b"}, "file.it.command", "not_a_string"),
        ({"command": "x", "args": "y"}, "file.it.args", "not_a_list"),
        ({"command": "x", "args": [1]}, "file.it.args", "not_a_string"),
        ({"command": "x", "env": ["A=b"]}, "file.it.env", "not_a_table"),
        ({"command": "x", "env": {"A": 1}}, "file.it.env.A", "not_a_string"),
        ({"command": "x", "type": "http"}, "file.it.type", "transport_mismatch"),
        ({"url": "http://h", "type": "stdio"}, "file.it.type", "transport_mismatch"),
        ({"url": "http://h", "type": "sse"}, "file.it.type", "sse_unsupported"),
        ({"url": "http://h", "type": "ws"}, "file.it.type", "unknown_transport"),
        ({"url": "http://h", "type": ["http"]}, "file.it.type", "unknown_transport"),
        ({"url": "http://h", "type": {}}, "file.it.type", "unknown_transport"),
        ({"url": "ftp://h"}, "file.it.url", "invalid_url"),
        ({"url": "http://h:x"}, "file.it.url", "invalid_url"),
        ({"url": "http://h", "headers": {"A": "b\nc"}}, "file.it.headers", "invalid_headers"),
        ({"command": "x", "disabled": "no"}, "file.it.disabled", "not_a_boolean"),
        ({"command": "x", "call_timeout_s": 0}, "file.it.call_timeout_s", "duration_out_of_range"),
        ({"command": "x", "call_timeout_s": True}, "file.it.call_timeout_s", "not_a_number"),
        (
            {"command": "x", "ttl_s": {"*": float("nan")}},
            "file.it.ttl_s.*",
            "duration_out_of_range",
        ),
    ],
)
def test_an_invalid_setting_is_refused_with_its_place(members: Any, place: str, code: str) -> None:
    with raises_code(InvalidValue, code, place=place):
        read(members)


@pytest.mark.parametrize(
    ("members", "hint"),
    [
        ({"comand": "x"}, "; comand: did you mean command?"),
        ({"URL": "http://h"}, "; URL: did you mean url?"),
        ({"\x1bcommand": "x"}, "a url"),
    ],
)
def test_key_that_is_nearly_the_right_one_is_suggested(members: Any, hint: str) -> None:
    with raises_code(InvalidValue, "no_transport", place="file.it") as refused:
        read(members)
    assert refused.value.message.endswith(hint)


def test_key_that_is_nearly_another_is_noted_where_keys_of_others_are_passed_over() -> None:
    members = {"command": "x", "arg": ["y"], "envFile": ".env", "timeout": 5}
    assert read(members).notice == "arg: did you mean args?"
    with raises_code(InvalidValue, "field_unknown", place="file.it.arg") as refused:
        read(members, is_strict=True)
    assert refused.value.message.endswith("; did you mean args?")


def test_server_can_be_switched_off_by_its_name_alone() -> None:
    spec = read({"disabled": True}, is_strict=True)
    assert spec.disabled
    assert not spec.is_usable
    with raises_code(InvalidValue, "no_transport"):
        read({"disabled": False})


@pytest.mark.parametrize("name", ["", "a b", "x" * 33, "naïve", "a\n", "../x", "steno", "Steno"])
def test_name_that_cannot_be_used_is_refused(name: str) -> None:
    code = "reserved_server_name" if name.lower() == "steno" else "invalid_server_name"
    with raises_code(InvalidValue, code, place="file"):
        read_server_specs({name: {"command": "x"}}, place="file", environ={}, base=None)
    with raises_code(InvalidValue, code, place="mcp server"):
        McpServerSpec(name=name, command="x")


@pytest.mark.parametrize("table", [[], "x", None])
def test_table_has_to_be_one(table: Any) -> None:
    with raises_code(InvalidValue, "not_a_table", place="file"):
        read_server_specs(table, place="file", environ={}, base=None)


def test_secret_in_a_file_is_used_with_a_notice() -> None:
    spec = read({"command": "x", "env": {"API_TOKEN": "abc", "LEVEL": "3", "MY_KEY": "${K:-}"}})
    assert spec.env["API_TOKEN"] == "abc"
    assert spec.notice == "env.API_TOKEN: use a variable such as ${NAME} instead of the secret"
    web = read({"url": "http://h", "headers": {"authorization": "Bearer abc", "X-Level": "3"}})
    assert web.notice.startswith("headers.authorization: use a variable")


def test_no_secret_is_in_the_repr() -> None:
    spec = McpServerSpec(
        name="it",
        url="http://u:urlsecret@h/mcp",
        env={"TOKEN": "envsecret"},
        headers={"Authorization": "headersecret"},
    )
    assert "name='it'" in repr(spec)
    assert "secret" not in repr(spec)


def test_secrets_are_taken_out_of_texts() -> None:
    spec = McpServerSpec(
        name="it",
        url="http://u:urlsecret@h/mcp",
        env={"TOKEN": "envsecret", "DATABASE_URL": "db://ada:p%40ssword@h/x", "KEY": "ab"},
        headers={"Authorization": "Bearer headersecret"},
    )
    text = "headersecret, envsecret, urlsecret, Timbuktu, ab"
    assert spec.redact_secrets(text) == "***, ***, ***, Timbuktu, ab"
    assert spec.redact_secrets("no db://ada:p%40ssword@h/x: p@ssword is wrong") == (
        "no ***: *** is wrong"
    )


def test_each_line_of_a_secret_is_one() -> None:
    spec = McpServerSpec(name="it", command="x", env={"PEM": "first line\nsecond line"})
    assert spec.redact_secrets("cannot read 'second line'") == "cannot read '***'"


def test_secret_in_an_address_is_taken_out_of_texts() -> None:
    spec = McpServerSpec(
        name="it", url="http://usertoken@h/mcp?api_key=querysecret&x=%24paced%20one"
    )
    text = "usertoken asked for /mcp?api_key=querysecret, $paced one"
    assert spec.redact_secrets(text) == "*** asked for /mcp?api_key=***, ***"


@pytest.mark.parametrize(
    "members",
    [
        {"command": "x", "args": ["--auth=${PLAIN}"]},
        {"command": "x", "env": {"LEVEL": "${PLAIN}"}},
        {"command": "x", "env": {"LEVEL": "a ${PLAIN}"}},
        {"command": "x", "cwd": "/srv/${PLAIN}"},
        {"command": "/opt/${PLAIN}/x"},
        {"url": "http://h/${PLAIN}/mcp"},
        {"url": "http://h/mcp", "headers": {"X-Team": "of-${PLAIN}"}},
    ],
)
def test_the_value_of_a_variable_is_redacted_wherever_it_was_used(members: Any) -> None:
    spec = read(members, PLAIN="Timbuktu")
    assert spec.redact_secrets("no way to Timbuktu") == "no way to ***"


def test_the_value_of_a_variable_is_not_in_the_repr() -> None:
    spec = read({"command": "x", "args": ["--auth=${PLAIN}"]}, PLAIN="Timbuktu")
    assert spec.args == ("--auth=Timbuktu",)
    assert "Timbuktu" not in repr(spec)


def test_the_default_of_a_variable_may_be_shown() -> None:
    spec = read({"command": "x", "args": ["${DOCS:-/srv/docs}", "${API_TOKEN:-hushhush}"]})
    assert spec.redact_secrets("/srv/docs, hushhush") == "/srv/docs, ***"
