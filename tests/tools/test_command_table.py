"""The table of commands: what counts as reading, what as routine, and what as neither."""

from __future__ import annotations

import pytest

from steno.agent.permissions.patterns import matches_command
from steno.ports import CommandWord
from steno.tools.shell import command_table
from steno.tools.shell.command_parser import SimpleCommand, parse_command_line
from steno.tools.shell.command_table import (
    CommandKind,
    CommandMatch,
    are_harmless_assignments,
    match_command,
)

pytestmark = pytest.mark.requirement("P-32")

READING = [
    *("ls", "ls -la src *.py", "cat a b", "head -n5 a", "head -5 a", "tail -n +3 a", "wc -l *"),
    *("grep -rn foo src", "grep --include=*.py -e x .", "egrep x", "cut -d: -f1 /etc/passwd"),
    *("diff -u a b", "sort -k2 -rn a", "uniq -c", "uniq -c a", "date", "date +%s", "date -u +%F"),
    *("sed -n 3p f", "sed -n '1,20p' f", "sed -n '/a/,$p' f", "tree -L 2", "file -b a"),
    *(
        "find . -name '*.py'",
        "find a b -type f -not -path './x/*' -print0",
        "find",
        "find . '(' -a ')'",
    ),
    *("rg foo", "rg -l -g '*.py' foo src", "rg --files -t py", "fd -e py foo", "jq -r .a f.json"),
    *(
        "jq --arg a b '.c' f",
        "printf '%s\\n' a",
        "echo -n x",
        "cd src",
        "env",
        "hostname",
        "[ -f a ]",
    ),
    *("test -d a -a -w b", "xargs wc -l", "xargs -0 -n 5 grep -l foo", "xargs -I{} cat {}", "true"),
    *("git status -sb", "git log -3 --oneline --graph main..dev -- src", "git diff HEAD~1 -- a"),
    *("git --no-pager log -p", "git show HEAD:a.py", "git branch -avv", "git branch --list 'f*'"),
    *("git blame -L 1,5 a", "git grep -n foo", "git config --get user.name", "git config -l"),
    *(
        "git stash list",
        "git stash show -p",
        "git remote -v",
        "git tag -l 'v*'",
        "git worktree list",
    ),
    *(
        "git rev-parse --short HEAD",
        "git ls-files -o --exclude-standard",
        "git reflog",
        "git version",
    ),
    *("python --version", "pip list", "pip show requests", "python -m pip freeze", "uv pip list"),
    *("node -v", "npm ls --depth=0", "npm run", "cargo --version", "cargo tree -i serde", "go env"),
    *("go list -m all", "timeout 5 git status", "timeout 1.5m rg foo"),
]
ROUTINE = [
    *(
        "pytest",
        "pytest -q -x tests/a.py::test_b -k 'a or b'",
        "python3 -m pytest --lf",
        "mypy src",
    ),
    *("ruff check --fix .", "ruff format", "black --check .", "npm test", "npm run test:unit"),
    *("yarn lint", "pnpm run build", "npx tsc --noEmit", "uv run pytest -q", "tsc -p ."),
    *(
        "eslint --fix src",
        "prettier -w src",
        "jest -t name",
        "vitest run",
        "cargo test -- --nocapture",
    ),
    *("cargo clippy --all-targets -- -D warnings", "cargo fmt --check", "cargo fmt -- --check"),
    *(
        "go test ./... -run TestA -count=1",
        "go vet ./...",
        "make",
        "make -j4 test",
        "make -j 4 lint",
    ),
    *("make test-unit", "mkdir -p a/b", "touch a", "git add -A", "git add a b", "git commit -m x"),
    *("git commit -am 'a b'", "git commit --amend --no-edit", "git switch -c a", "git stash"),
    *("git checkout -b a", "git restore --staged a", "timeout 60 uv run pytest"),
]
NEITHER = [
    # Programs that are not in the table, or that run what their arguments name.
    *("python x.py", "python -c 1", "sh x", "awk 1", "perl -e 1", "env X=1 ls", "sudo ls", "xargs"),
    *(
        "xargs rm",
        "xargs -a f cat",
        "xargs sh",
        "xargs tee",
        "./ls",
        "/bin/ls",
        "node x.js",
        "command ls",
    ),
    *("npx evil", "npx -y tsc", "uv run python x", "npx npx tsc", "timeout 5", "timeout -k 1 5 ls"),
    *("uv run ls", "timeout 5 timeout 5 ls", "", "curl https://example.org"),
    # Options that write, run programs, or read their configuration elsewhere.
    *(
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprint x",
        "find . -ok rm",
        "find -files0-from x",
    ),
    *("sort -o a b", "sort --compress-program=x a", "sort -T x a", "uniq a b", "tree -o x"),
    *("date -s x", "date 0101", "date --set=x", "hostname x", "file -C -m x", "printf -v a b"),
    *("rg --pre x a", "rg --pre=x a", "rg --hostname-bin x a", "rg -z a", "fd -x rm", "fd -X rm"),
    *(
        "fd -l a",
        "sed -i 1p f",
        "sed -n '1,2w x' f",
        "sed s/a/b/e f",
        "sed -n 1p\\;e f",
        "jq -f x f",
    ),
    *("sed -n -f x 1p", "sed -n '/a/w x' f", "test -v a", "set +e", "set -o posix", "tee -i a"),
    # git: other options, abbreviations, and subcommands that change something.
    *("git log --output=x", "git log --outp=x", "git diff --ext-diff", "git diff --textconv"),
    *("git diff -O x", "git diff --no-index a b", "git grep -O x", "git grep -Oless x"),
    *(
        "git grep --open-files-in-pager x",
        "git grep -nO x",
        "git -c core.pager=x log",
        "git -C x log",
    ),
    *("git --git-dir=x log", "git --exec-path=x log", "git branch x", "git branch -D x"),
    *("git branch --list -D x", "git branch -m a b", "git branch --edit-description", "git tag v1"),
    *(
        "git tag -d x",
        "git tag -l -d x",
        "git remote add a b",
        "git remote show x",
        "git stash drop",
    ),
    *("git stash clear", "git reflog expire --all", "git reflog delete x", "git worktree add x"),
    *(
        "git config a b",
        "git config a",
        "git config --get a b",
        "git config --unset a",
        "git config -e",
    ),
    *(
        "git config --file x -l",
        "git cat-file --batch",
        "git cat-file --textconv a",
        "git notes add",
    ),
    *("git blame --contents x a", "git show --show-signature", "git help log", "git ls-remote x"),
    *("git fetch", "git pull", "git push", "git merge x", "git rebase x", "git reset --hard"),
    *(
        "git checkout x",
        "git checkout -- x",
        "git checkout -b a b c",
        "git restore x",
        "git clean -f",
    ),
    *("git restore --staged --worktree x", "git commit -F x", "git commit --no-verify -m x"),
    *("git commit -m", "git commit --template=x", "git add -p", "git add -e", "git switch -f a"),
    *(
        "git switch --discard-changes a",
        "git init",
        "git x",
        "git",
        "git archive HEAD",
        "git bisect run x",
    ),
    # Routine programs with other options or targets.
    *(
        "pytest --basetemp=src",
        "pytest --rootdir=x",
        "pytest -c x",
        "pytest -o x=y",
        "pytest --junitxml=x",
    ),
    *(
        "pytest --pdb",
        "ruff check --output-file x",
        "ruff --config x check",
        "mypy --install-types",
    ),
    *(
        "mypy --python-executable=x",
        "black -c x",
        "npm install",
        "npm ci",
        "npm run deploy",
        "npm exec x",
    ),
    *(
        "npm run test --script-shell=x",
        "npm test -- --x",
        "npm publish",
        "yarn",
        "yarn add x",
        "pnpm i",
    ),
    *(
        "tsc --outDir x",
        "eslint -c x",
        "eslint --rulesdir x",
        "eslint -o x",
        "prettier --plugin=x a",
    ),
    *(
        "jest --config=x",
        "jest --globalSetup=x",
        "vitest --config x",
        "cargo install x",
        "cargo +x test",
    ),
    *(
        "cargo --config x test",
        "cargo test --config x",
        "cargo build --target-dir x",
        "cargo run x",
    ),
    *(
        "cargo test --manifest-path x",
        "cargo publish",
        "cargo clean",
        "go test -exec x",
        "go generate",
    ),
    *("go build -o x", "go build -toolexec x", "go env -w A=b", "go run x", "go vet -vettool=x"),
    *(
        "go test -coverprofile=x",
        "make test SHELL=x",
        "make SHELL=x",
        "make -f x",
        "make -C x",
        "make clean",
    ),
    *("make --eval=x test", "make install", "make deploy", "mkdir", "pip install x", "pip list -o"),
]


def command(line: str) -> SimpleCommand:
    (found,) = parse_command_line(line).commands or (None,)
    return found if found is not None else SimpleCommand((), (), (), (".",))


def matched(line: str) -> CommandMatch | None:
    return match_command(command(line).words)


@pytest.mark.parametrize("line", READING)
def test_a_command_that_only_reads_is_in_the_table(line: str) -> None:
    found = matched(line)
    assert found is not None
    assert found.kind is CommandKind.READING


@pytest.mark.parametrize("line", ROUTINE)
def test_common_work_is_in_the_table(line: str) -> None:
    found = matched(line)
    assert found is not None
    assert found.kind is CommandKind.ROUTINE


@pytest.mark.parametrize("line", NEITHER)
def test_any_other_command_is_not(line: str) -> None:
    if line == "mkdir":  # it fails, and creates nothing
        return
    assert matched(line) is None


@pytest.mark.parametrize(
    "line",
    [
        *("git log $X", "git log *", "rg $X", 'rg "$X"', "find $X", "pytest $X", "git add *"),
        *(
            "sort *",
            "head -n $X $Y | rg $Z",
            "git commit -m $X",
            "git log -n $X",
            "find . -name $X",
        ),
        *("fd [a]*", "jq {-f,x}", "sed -n $X", "date $X", "cd $X", "make $X", "npm run $X", "$X"),
    ],
)
def test_a_word_that_may_be_an_option_is_not_in_the_table(line: str) -> None:
    commands = parse_command_line(line).commands
    assert not commands or match_command(commands[-1].words) is None


@pytest.mark.parametrize(
    "line", ["ls $X", "cat *", "grep -n foo *", "git log -- *", "rg foo src/*"]
)
def test_an_unknown_operand_is_fine_where_no_option_can_harm(line: str) -> None:
    found = matched(line)
    assert found is not None
    assert None in [path.value for path in found.read_paths] or "log" in line


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("cat a b", ["a", "b"]),
        ("head -n 5 a", ["a"]),
        ("grep -rn foo src lib", ["src", "lib"]),
        ("grep -e foo src", ["src"]),
        ("grep -f .env src", [".env", "src"]),
        ("grep --file=.env src", [".env", "src"]),
        ("rg -f.env src", [".env", "src"]),
        ("diff a b", ["a", "b"]),
        ("git show HEAD:a.py", ["a.py"]),
        ("git diff -- a.py", ["a.py"]),
        ("find src '(' -newer a ')'", ["src", "a"]),
        ("date -r a", ["a"]),
        ("sed -n 1p a", ["a"]),
        ("jq .a b.json", ["b.json"]),
        ("echo a", []),
        ("git add a", []),
        ("xargs cat a", ["a", None]),
    ],
)
def test_the_files_that_a_command_reads_are_named(line: str, paths: list[str | None]) -> None:
    found = matched(line)
    assert found is not None
    assert sorted(map(str, [path.value for path in found.read_paths])) == sorted(map(str, paths))


def test_files_to_write_and_create_are_named() -> None:
    written = matched("tee -a log")
    assert written is not None
    assert [path.value for path in written.written_paths] == ["log"]
    created = matched("mkdir -p a b")
    assert created is not None
    assert [path.value for path in created.created_paths] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "is_harmless"),
    [
        ("CI=1 ls", True),
        ("NO_COLOR= PAGER=cat ls", True),
        ("LD_PRELOAD=x ls", False),
        ("PATH=x ls", False),
        ("GIT_PAGER=less ls", False),
        ("GIT_EXTERNAL_DIFF=x git diff", False),
        ("CI=$X ls", False),
        ("CI=a/b ls", False),
        ("CI=1 BASH_ENV=x ls", False),
    ],
)
def test_only_harmless_assignments_keep_a_command_in_the_table(
    line: str, *, is_harmless: bool
) -> None:
    assignments = command(line).assignments
    assert (bool(assignments) and are_harmless_assignments(assignments)) == is_harmless


def test_an_offered_pattern_covers_no_options_and_no_other_subcommand() -> None:
    patterns = {
        " ".join([*filter(None, key), "*"])
        for key, forms in command_table._FORMS.items()
        for form in forms
        if form.is_similar_safe
    }
    assert "pytest *" in patterns
    assert patterns.isdisjoint({"git grep *", "git log *", "make *", "make test *", "npm run *"})
    for pattern in patterns:
        words = [CommandWord(word, False) for word in pattern.split(" ")[:-1]]
        option = [*words, CommandWord("--x", True)]
        assert not matches_command(pattern, " ".join([word.text for word in option]), option)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "find -- . -exec ./evil ';'",
            "find -- . -delete",
            "find . -- -delete",
            "go test -- -exec x",
        ),
        *("tsc -- --outDir x", "tsc @options", "jq -- -f x", "test -- -v a"),
    ],
)
def test_two_dashes_end_options_only_where_the_program_says_so(line: str) -> None:
    assert matched(line) is None


def test_two_dashes_hide_no_option_of_a_program_with_long_names() -> None:
    for key, forms in command_table._FORMS.items():
        if any(form.is_single_dash for form in forms):
            name = " ".join(filter(None, key))
            for option in ("-exec", "-delete", "-toolexec", "-o", "-unlisted"):
                assert matched(f"{name} -- . {option} x") is None, (key, option)


@pytest.mark.parametrize(
    "line",
    [
        *("xargs -I $UNSET cat ./evil", 'xargs -n "$X" cat ./evil', "xargs -I '' cat ./evil"),
        *("xargs -I ca cat x", "xargs -Icat cat x", "xargs -n", "xargs -d * cat x"),
    ],
)
def test_an_unknown_value_of_xargs_is_not_in_the_table(line: str) -> None:
    assert matched(line) is None


@pytest.mark.parametrize(
    "line",
    [
        *('python "-m pip" list', "'git status'", 'git "stash list"', '"npm run" test'),
        *("python -m 'pytest -q'", "'uv run' pytest", '"cargo nextest" run', "git '' status"),
    ],
)
def test_a_quoted_word_does_not_pass_for_two(line: str) -> None:
    assert matched(line) is None


@pytest.mark.parametrize(
    "line",
    [
        *(
            "npx touch x",
            "npx mkdir x",
            "npx pytest",
            "npx make test",
            "npx git add a",
            "bunx go test",
        ),
        *("uv run touch x", "uv run make test", "uv run npm test", "uv run git commit -m x"),
        *("poetry run cargo build", "pnpm exec cargo test", "yarn exec -- tsc"),
    ],
)
def test_a_wrapper_keeps_only_its_own_programs_routine(line: str) -> None:
    assert matched(line) is None


def test_every_option_of_the_table_is_written_correctly() -> None:
    for key, forms in command_table._FORMS.items():
        for form in forms:
            for option in form.options.split():
                found = command_table._OPTION.fullmatch(option)
                assert found is not None, (key, option)
                assert found[1] not in ("-", "--"), (key, option)
                is_short = len(found[1]) == 2
                assert is_short or found[1].startswith("--") or form.is_single_dash, (key, option)
