"""Rules: what they cover, what they never cover, and what is suggested."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import InvalidValue
from steno.agent.permissions.rules import (
    PermissionRule,
    find_covering_rules,
    suggest_rule,
)
from steno.ports import Capability, Subject
from tests.agent.permissions.stub_tools import confined, subjects_of, unknown

EXECUTE, WRITE, READ, NETWORK = (
    Capability.EXECUTE,
    Capability.WRITE,
    Capability.READ,
    Capability.NETWORK,
)
ATTACKS = [
    ("git log", "rm -rf /"),
    ("rm -rf /", "git log"),
    ("git log", "> ~/.bashrc"),
    ("git log", "\ngit log $(rm -rf /)"),
    ("\ngit log --oneline",),
    ("gіt log -1",),  # a Cyrillic letter
    ("ｇｉｔ log -1",),
    ("git\u00a0log -1",),
    ("git\u200b log -1",),
    ("git logs",),
    ("git log\n-1",),
    ("git log\trm",),
    ("GIT LOG -1",),
    (" git log -1",),
    ("LD_PRELOAD=x git log",),
    ("/tmp/git log -1",),
    ("",),
    (),
]


def covers(rule: str, subject: str, capability: Capability) -> bool:
    return covers_all(PermissionRule.parse(rule), rule.partition("(")[0], capability, (subject,))


def covers_all(
    rule: PermissionRule, tool: str, capability: Capability, subjects: Sequence[str]
) -> bool:
    found = find_covering_rules((rule,), tool, subjects_of(capability, *subjects))
    return found is not None


def denies(
    rule: PermissionRule, tool: str, capability: Capability, subjects: Sequence[str]
) -> bool:
    return rule.denies((tool,), subjects_of(capability, *subjects))


def covers_one(rule: PermissionRule, subject: str, capability: Capability) -> bool:
    return rule.covers("t", subjects_of(capability, subject)[0])


# -- how they are written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "bash",
        "bash(*)",
        "mcp__*",
        "*",
        "*(src/**)",
        r"bash(echo \(a\) \* \\)",
        r"read(a\ )",
        "a(.)",
    ],
)
def test_a_rule_is_written_as_it_was_read(text: str) -> None:
    assert str(PermissionRule.parse(text)) == text
    assert PermissionRule.parse(str(PermissionRule.parse(text))) == PermissionRule.parse(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "rule_tool_name"),
        (" bash", "rule_tool_name"),
        ("bash (git)", "rule_tool_name"),
        ("bäsh", "rule_tool_name"),
        ("bash\n", "rule_tool_name"),
        ("b" * 65, "rule_tool_name"),
        ("(git)", "rule_tool_name"),
        (")", "rule_brackets"),
        ("bash(git", "rule_brackets"),
        ("bash)git(", "rule_brackets"),
        ("bash(git) ", "rule_brackets"),
        ("bash()", "rule_pattern_empty"),
        ("bash())", "rule_pattern_escape"),
        ("bash(git (log))", "rule_pattern_escape"),
        ("bash(a\\)", "rule_pattern_escape"),
        (r"bash(\d)", "rule_pattern_escape"),
        ("bash( git)", "rule_pattern_blank"),
        ("bash(git )", "rule_pattern_blank"),
        ("bash( )", "rule_pattern_blank"),
        ("bash(git\nlog)", "rule_pattern_unprintable"),
        ("bash(git\u202elog)", "rule_pattern_unprintable"),
        ("bash(git\u200b log)", "rule_pattern_unprintable"),
        ("bash(\x1b[2K)", "rule_pattern_unprintable"),
    ],
)
def test_an_invalid_rule_is_refused_with_a_code(text: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        PermissionRule.parse(text)
    assert (refused.value.place, refused.value.code) == ("rule", code)


def test_a_rule_cannot_be_made_that_reads_like_another() -> None:
    with pytest.raises(InvalidValue) as refused:
        PermissionRule(tool="bash(git log *)")
    assert refused.value.code == "rule_tool_name"


@given(st.text())
def test_any_text_is_a_rule_that_reads_the_same_or_is_refused(text: str) -> None:
    try:
        rule = PermissionRule.parse(text)
    except InvalidValue:
        return
    assert str(rule) == text
    denies(rule, "bash", EXECUTE, ("git log",))
    covers_all(rule, "write", WRITE, ("src/a",))


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "tool", "is_about"),
    [
        ("bash", "bash", True),
        ("bash", "bash_output", False),
        ("bash", "Bash", False),
        ("mcp__*", "mcp__files__read", True),
        ("mcp__*", "mcp__", True),
        ("mcp__*", "mcp_files", False),
        ("mcp__*__read", "mcp__files__read", True),
        ("mcp__*__read", "mcp__files__reader", False),
        ("*", "anything", True),
    ],
)
def test_a_rule_names_a_tool_or_many(rule: str, tool: str, *, is_about: bool) -> None:
    assert PermissionRule.parse(rule).names_tool(tool) == is_about
    assert covers_all(PermissionRule.parse(rule), tool, WRITE, ("a",)) == is_about
    assert denies(PermissionRule.parse(rule), tool, WRITE, ("a",)) == is_about


@pytest.mark.parametrize("rule", ["bash", "bash(*)"])
@pytest.mark.parametrize("subjects", ATTACKS)
def test_without_a_pattern_everything_is_covered(rule: str, subjects: tuple[str, ...]) -> None:
    assert covers_all(PermissionRule.parse(rule), "bash", EXECUTE, subjects)
    assert denies(PermissionRule.parse(rule), "bash", EXECUTE, subjects)


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "command", "is_covered"),
    [
        ("bash(git log *)", "git log", True),
        ("bash(git log *)", "git log main 'a  b'", True),
        ("bash(git log *)", "git log -1", False),
        ("bash(git log *)", "git log main --output=x", False),
        ("bash(git log *)", "git log '-1'", False),
        ("bash(git log *)", "git log $X", False),
        ("bash(git log *)", "git log *", False),
        ("bash(git log *)", "git log src/*", True),
        ("bash(git log -*)", "git log", True),
        ("bash(git log -*)", "git log -1 main --stat $X", True),
        ("bash(git -* log)", "git -p log", True),
        ("bash(git -* log)", "git log", False),
        ("bash(git -* log)", "git p log", False),
        ("bash(git log --format=*)", "git log --format=%h", True),
        ("bash(git log --format=*)", "git log --format=%h -1", False),
        ("bash(* make)", "CC=x make", False),
        ("bash(CC=* make)", "CC=x make", False),
        ("bash(CC=x make *)", "CC=x make all", True),
        ("bash(make *)", "make CC=x", True),
        ("bash(git log *)", "git logs", False),
        ("bash(git log*)", "git logs", True),
        ("bash(git log)", "git log -1", False),
        ("bash(git * --stat)", "git log main --stat", True),
        ("bash(git * --stat)", "git log -1 --stat", False),
        ("bash(git * --stat)", "git --stat", True),
        ("bash(npm run test:*)", "npm run test:unit", True),
        ("bash(npm run test:*)", "npm run test:unit now", False),
        ("bash(*.sh)", "./b.sh", True),
        ("bash(*.sh)", "./a b.sh", False),
        ("bash(echo 'a *')", "echo 'a b'", True),
        ("bash(echo 'a *')", "echo 'a' 'b'", False),
        ("bash(* --help)", "rm --help", True),
        ("bash(a*b*b *)", "ab", False),
        ("bash(a*b*b *)", "abb c", True),
        (r"bash(echo \*)", "echo *", True),
        (r"bash(echo \*)", "echo a", False),
        (r"bash(echo \(a\) \\)", "echo (a) \\", True),
        ("bash(echo [ab]? .*)", "echo [ab]? .*", True),
        ("bash(echo [ab]? .*)", "echo ax .", False),
        ("bash(git commit -m *)", "git commit -m 'a\nb'", True),
    ],
)
def test_a_star_in_a_command_stands_for_words_that_are_no_options(
    rule: str, command: str, *, is_covered: bool
) -> None:
    assert covers(rule, command, EXECUTE) == is_covered


@pytest.mark.parametrize("subjects", ATTACKS)
def test_a_rule_for_a_command_does_not_let_anything_else_pass(subjects: tuple[str, ...]) -> None:
    assert not covers_all(PermissionRule.parse("bash(git log *)"), "bash", EXECUTE, subjects)


def test_a_rule_denies_what_it_covers_anywhere_in_a_call() -> None:
    rule = PermissionRule.parse("bash(rm *)")
    assert denies(rule, "bash", EXECUTE, ("git log", "rm -rf /"))
    assert not denies(rule, "bash", EXECUTE, ("git log", "rmdir a"))
    assert not denies(rule, "bash", EXECUTE, ())


def test_rules_cover_together_what_none_covers_alone() -> None:
    rules = [
        PermissionRule.parse(text) for text in ("ls", "bash(ls *)", "bash(git log *)", "bash(l*)")
    ]
    subjects = ("git log", "ls", "git log main")
    found = find_covering_rules(rules, "bash", subjects_of(EXECUTE, *subjects))
    assert found == (rules[2], rules[1])
    assert find_covering_rules(rules, "bash", subjects_of(EXECUTE, *(*subjects, "rm x"))) is None
    assert find_covering_rules(rules, "bash", subjects_of(EXECUTE, *())) is None


# -- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "path", "is_covered"),
    [
        ("write(src/**)", "src/a.py", True),
        ("write(src/**)", "src/a/b/c.py", True),
        ("write(src/**)", "src", True),
        ("write(src/**)", "srcs/a", False),
        ("write(src/**)", "lib/src/a", False),
        ("write(src/**)", "/src/a", False),
        ("write(./src/**)", "src/a.py", True),
        ("write(src/)", "src/a/b", True),
        ("write(src/*)", "src/a.py", True),
        ("write(src/*)", "src/a/b.py", False),
        ("write(src/*.py)", "src/.py", True),
        ("write(src/*.py)", "src/a.pyc", False),
        ("write(*.md)", "README.md", True),
        ("write(*.md)", "docs/README.md", False),
        ("write(**/*.md)", "README.md", True),
        ("write(**/*.md)", "docs/a/README.md", True),
        ("write(**/test/**/*.py)", "a/test/b/c.py", True),
        ("write(**/test/**/*.py)", "test/c.py", True),
        ("write(**/test/**/*.py)", "a/tests/c.py", False),
        ("write(a/**/b/**/b)", "a/b/b", True),
        ("write(a/**/b/**/b)", "a/b", False),
        ("write(**)", "a/b", True),
        ("write(**)", ".", True),
        ("write(.)", ".", True),
        ("write(*/a)", "/a", False),
        ("write(/srv/**)", "/srv/a", True),
        ("write(a?.py)", "ab.py", False),
        ("write([ab].py)", "[ab].py", True),
        (r"write(\*.py)", "a.py", False),
        ("write(src/**)", "src/a\nb", True),
        ("write(src/**)", "\nsrc/a", False),
        ("write(src/**)", "src/../../etc/passwd", False),
        ("write(src/**)", "src/./a", False),
        ("write(**)", "../a", False),
        ("write(*)", "../a", True),
        ("write(src/**)", "ѕrc/a", False),  # a Cyrillic letter
        ("write(caf\u00e9/**)", "cafe\u0301/a", False),
    ],
)
def test_a_star_in_a_path_stays_in_its_folder_and_two_do_not(
    rule: str, path: str, *, is_covered: bool
) -> None:
    assert covers(rule, path, WRITE) == is_covered


@pytest.mark.parametrize(
    ("address", "is_covered"),
    [
        ("https://example.org/a/b", True),
        ("https://example.org", True),
        ("https://example.org.evil.net/a", False),
        ("https://example.org@evil.net/a", False),
        ("http://example.org/a", False),
        ("https://example.org/../a", False),
    ],
)
def test_addresses_are_read_like_paths(address: str, *, is_covered: bool) -> None:
    assert covers("fetch(https://example.org/**)", address, NETWORK) == is_covered


# -- laws ----------------------------------------------------------------------------------------

SUBJECTS = st.text(alphabet="ab*/. \n", min_size=0, max_size=8)
CAPABILITIES = st.sampled_from(Capability)


@st.composite
def rules(draw: st.DrawFn) -> PermissionRule:
    try:
        return PermissionRule.parse(f"t({draw(SUBJECTS)})")
    except InvalidValue:
        return PermissionRule.parse(
            draw(st.sampled_from(["t", "t(*)", "t(a *)", "t(a/**)", "t(**/b)"]))
        )


@given(rules(), st.lists(SUBJECTS, min_size=1, max_size=4), CAPABILITIES)
def test_a_rule_never_covers_a_call_of_which_it_does_not_cover_a_part(
    rule: PermissionRule, subjects: list[str], capability: Capability
) -> None:
    alone = [covers_one(rule, subject, capability) for subject in subjects]
    assert covers_all(rule, "t", capability, subjects) == all(alone)
    # A deny rule covers more than an allow rule, and never less.
    assert denies(rule, "t", capability, subjects) >= any(alone)


@given(rules(), SUBJECTS, CAPABILITIES)
def test_unknown_subjects_are_covered_only_by_a_star(
    rule: PermissionRule, text: str, capability: Capability
) -> None:
    assert rule.covers("t", unknown(text, capability)) == rule.covers_everything


def fits(pattern: str, text: str) -> bool:
    """Match the slow and obvious way."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(fits(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return text[:1] == pattern[0] and fits(pattern[1:], text[1:])


@given(st.text(alphabet="ab*", min_size=1, max_size=7), st.text(alphabet="ab", max_size=9))
def test_deny_rules_match_commands_as_the_reference_matcher_does(pattern: str, text: str) -> None:
    assert denies(PermissionRule(tool="t", pattern=pattern), "t", EXECUTE, (text,)) == fits(
        pattern, text
    )


def leads(pattern: list[str], names: list[str]) -> bool:
    """Match the slow and obvious way, name by name."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(leads(pattern[1:], names[skipped:]) for skipped in range(len(names) + 1))
    return bool(names) and fits(pattern[0], names[0]) and leads(pattern[1:], names[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "a*", "*b", "**"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=7),
)
def test_paths_match_as_the_reference_matcher_does(pattern: list[str], names: list[str]) -> None:
    assume(pattern != ["*"])  # it covers everything
    rule = PermissionRule(tool="t", pattern="/".join(pattern))
    assert covers_one(rule, "/".join(names), READ) == leads(pattern, names)


def test_a_long_text_of_a_model_is_matched_at_once() -> None:
    """With backtracking this would never end."""
    rule = PermissionRule(tool="t", pattern="*a" * 30 + "*b")
    assert not denies(rule, "t", EXECUTE, ("a" * 100_000,))
    rule = PermissionRule(tool="t", pattern="**/*a*a*/" * 10 + "b")
    assert not covers_one(rule, "aaa/" * 5_000 + "c", WRITE)


# -- suggestions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "rule"),
    [
        (["git log --oneline"], "bash(git log --oneline)"),
        (["git log -1", "git log -2"], ""),
        (["npm test"], "bash(npm test)"),
        (["ls -la src"], "bash(ls -la src)"),
        (["grep 'a*(b)' x"], r"bash(grep 'a\*\(b\)' x)"),
        (["python setup.py"], "bash(python setup.py)"),
        (["rm -rf build"], "bash(rm -rf build)"),
        (["X=1 git log -1"], "bash(X=1 git log -1)"),
        (["\ngit log"], ""),
        (["git log -1", "\n$(x)"], ""),
        (["echo 'a\nb'"], ""),
        (["echo " + "x" * 300], ""),
        ([""], ""),
    ],
)
def test_a_command_suggests_exactly_this_command(commands: list[str], rule: str) -> None:
    assert suggest_rule("bash", subjects_of(EXECUTE, *commands)) == rule


def test_a_pattern_of_the_tool_is_suggested_only_in_a_sandbox() -> None:
    command = confined("npm install left-pad", pattern="npm install *")
    assert suggest_rule("bash", [command]) == "bash(npm install *)"
    assert suggest_rule("bash", [replace(command, is_confined=False)]) == (
        "bash(npm install left-pad)"
    )
    other = replace(command, text="npm install x", words=())
    assert suggest_rule("bash", [command, other]) == ""


def test_a_redirection_suggests_a_rule_for_files() -> None:
    log = Subject(text="log", capability=WRITE, rule_tool="write")
    assert suggest_rule("bash", [log]) == "write(log)"
    assert suggest_rule("bash", [log, confined("make")]) == ""
    assert suggest_rule("bash", [replace(log, is_protected=True)]) == ""


@pytest.mark.parametrize(
    "command",
    [
        *("python", "python3 -", "/usr/bin/python3.11 -i", "bash -s x", "sh", "./sh", "node"),
        *("Python", "ruby - x", "sudo sh", "env sh", "xargs rm", "timeout 5 sh", ". x", "ssh host"),
    ],
)
def test_nothing_is_suggested_for_programs_that_read_what_to_run(command: str) -> None:
    assert suggest_rule("bash", subjects_of(EXECUTE, command)) == ""


@pytest.mark.parametrize(
    ("paths", "rule"),
    [
        (["src/a.py"], "write(src/**)"),
        (["src/a/b.py"], "write(src/a/**)"),
        (["src/a", "src/b"], "write(src/**)"),
        (["src/a", "lib/b"], ""),
        (["README.md"], "write(README.md)"),
        (["a", "b"], ""),
        (["/srv/a"], "write(/srv/**)"),
        (["/a"], "write(/a)"),
        ([".git/hooks/pre-commit"], "write(.git/hooks/pre-commit)"),
        (["src/.env"], "write(src/.env)"),
        (["src/../a"], ""),
        (["src/\u202ea"], "write(src/**)"),
        (["s\u202erc/a"], ""),
        (["a*(b)/c"], r"write(a\*\(b\)/**)"),
        ([], "write"),
    ],
)
def test_a_path_suggests_its_folder(paths: list[str], rule: str) -> None:
    assert suggest_rule("write", subjects_of(WRITE, *paths)) == rule


def test_an_address_suggests_its_host() -> None:
    assert (
        suggest_rule("fetch", subjects_of(NETWORK, *["https://a.org/b/c?d"]))
        == "fetch(https://a.org/**)"
    )
    assert (
        suggest_rule("fetch", subjects_of(NETWORK, *["https://a.org"])) == "fetch(https://a.org/**)"
    )
    assert suggest_rule("fetch", subjects_of(NETWORK, *["https://a.org@b.net/c"])) == ""
    assert suggest_rule("fetch", subjects_of(NETWORK, *["https://a.org/", "https://b.net/"])) == ""


@given(st.lists(st.text(max_size=20) | SUBJECTS, max_size=3), CAPABILITIES)
def test_a_suggested_rule_covers_the_call(subjects: list[str], capability: Capability) -> None:
    text = suggest_rule("t", subjects_of(capability, *subjects))
    assert not text or covers_all(PermissionRule.parse(text), "t", capability, subjects)
    if any(subject.is_unknown for subject in subjects_of(capability, *subjects)):
        assert not text


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("mcp__everything__get-sum", "mcp__everything__get_sum_28e23965"),
        ("mcp__everything__get-*", "mcp__everything__get_sum_28e23965"),
        ("mcp__time__*", "mcp__time__convert_time"),
    ],
)
def test_a_tool_of_a_server_may_be_written_as_the_server_does(text: str, tool: str) -> None:
    assert PermissionRule.parse(text).names_tool(tool)
    assert PermissionRule.parse(str(PermissionRule.parse(text))) == PermissionRule.parse(text)


def test_only_names_of_servers_are_spelled_anew() -> None:
    with pytest.raises(InvalidValue):
        PermissionRule.parse("get-sum")
