"""What holds for the program whatever the command: no command, a wrong one, help."""

from __future__ import annotations

import pytest

from steno.agent import EndReason
from steno.cli.arguments import exit_status_for
from tests.cli.program import run_steno


def test_without_a_terminal_and_a_prompt_the_usage_is_printed() -> None:
    output = run_steno()
    assert (output.status, output.out) == (2, "")
    assert "steno -p" in output.err
    assert "steno run --help" in output.err


def test_help_begins_with_the_ways_to_work_with_a_model() -> None:
    output = run_steno("--help")
    assert (output.status, output.err) == (0, "")
    for way in ('steno -p "PROMPT"', "steno -c", "steno --plain", "--model NAME"):
        assert way in output.out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sesions", " sessions?"),
        ("aprovals", " approvals?"),
        ("help", " steno --help?"),
        ("export", " steno sessions export?"),
        ("mend", "steno run PROMPT"),
        ("\x1b[2J\nx", " \\x1b[2J x; to send"),
    ],
)
def test_an_unknown_command_is_answered_with_what_may_be_meant(name: str, hint: str) -> None:
    output = run_steno(name, "--json")
    assert (output.status, output.out) == (2, "")
    assert hint in output.err


def test_a_prompt_in_a_script_without_blanks_is_no_command() -> None:
    output = run_steno("日本語でテストを直して。", "--zzz")
    assert "unknown option --zzz" in output.err


@pytest.mark.parametrize("name", ["doctor", "sessions"])
def test_a_command_after_an_option_is_not_sent_as_a_prompt(name: str) -> None:
    output = run_steno("--model", "offline", name)
    assert (output.status, output.out) == (2, "")
    assert f" steno {name} ...; " in output.err


def test_a_value_that_is_too_long_is_shortened_in_an_error() -> None:
    for arguments in (["audit", "x" * 100_000], ["-p", "x", "--max-cost", "y" * 100_000]):
        output = run_steno(*arguments)
        assert output.status in (1, 2)
        assert len(output.err) < 3_000


@pytest.mark.parametrize(
    ("arguments", "command", "facts"),
    [
        (["-p", "hi", "--modle", "x"], "run", [" --modle", " --model?"]),
        (["--zzz"], "run", [" --zzz"]),
        (["-p", "x", "--al", "bash"], "run", [" --al"]),
        (["-p", "x", "-z"], "run", [" -z"]),
        (["-p", "x", "--\x1b[2J"], "run", [" --\\x1b[2J"]),
        (["-p", "hi", "extra"], "run", ["steno: extra: "]),
        (["-p", "x", "--mode", "dream"], "run", ["steno: --mode: ", " plan, act, ", " dream"]),
        (["-p", "x", "--max-cost", "much"], "run", ["steno: --max-cost: ", " much"]),
        (["-p", "x", "--max-turns", "0"], "run", ["steno: --max-turns: ", " 1 or more"]),
        (["sessions", "lst"], "sessions", [" lst", " list?"]),
        (["sessions", "--stroe", "x", "list"], "sessions", [" --stroe", " --store?"]),
        (["sessions", "list", "--jsno"], "sessions list", [" --jsno", " --json?"]),
        (
            ["permissions", "allow", "bash", "--projct"],
            "permissions allow",
            [" --projct", " --project?"],
        ),
    ],
)
def test_a_usage_error_is_the_last_line_after_the_command(
    arguments: list[str], command: str, facts: list[str]
) -> None:
    output = run_steno(*arguments)
    assert (output.status, output.out) == (2, "")
    usage, rule = output.err.splitlines()
    assert usage == f"usage: steno {command} ... (see 'steno {command} --help')"
    assert [fact for fact in facts if fact not in rule] == []


def test_a_value_may_look_like_an_option() -> None:
    output = run_steno("-p", "--not an option", "--model", "offline", "--no-session", "-q")
    assert output.status == 0


@pytest.mark.parametrize(
    ("flag", "place", "code"),
    [
        (["--max-seconds", "-1"], "--max-seconds", "out_of_range"),
        (["--temperature", "9"], "--temperature", "out_of_range"),
        (["--allow", "bash("], "--allow[0]", "rule_brackets"),
        (["--allow", "bsh(git *)"], "--allow[0]", "tool_unknown"),
        (["--deny", "Bash(git *)"], "--deny[0]", "tool_unknown"),
        (["--store", "foo"], "--store", "store_kind_missing"),
        (["--prompt", "\udcff"], "--prompt", "not_utf8"),
    ],
)
def test_a_value_that_the_settings_refuse_is_a_mistake_on_the_command_line(
    flag: list[str], place: str, code: str
) -> None:
    output = run_steno("-p", "x", "--model", "offline", *flag)
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == (code, place)
    assert output.err.startswith(f"steno: {place}: ")
    assert output.err.count("\n") == 1


def test_rules_about_tools_that_servers_bring_or_wildcards_stand_for_are_free() -> None:
    rules = ("--allow", "mcp__files__*", "--allow", "mcp__x", "--deny", "*", "--deny", "web*")
    assert run_steno("-p", "x", "--model", "offline", "--no-session", *rules).status == 0


def test_each_end_of_a_run_has_an_exit_status() -> None:
    statuses = {reason: exit_status_for(reason) for reason in EndReason}
    assert statuses == {"done": 0, "failed": 1, "limit": 4, "interrupted": 130}
