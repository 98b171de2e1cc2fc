"""Error codes are stable: every code in the source is listed in `tests/data/error_codes.txt`.

Programs compare these codes, so a code that disappears or changes its name is a change for users.
Before you add a code, look in the list for one with the same meaning. To update the list after a
change on purpose, run `python -m tests.test_error_codes` in the root of the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import steno

SOURCE = Path(steno.__file__).parent
SNAPSHOT = Path(__file__).parent / "data" / "error_codes.txt"
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def literals(value: ast.expr) -> Iterator[str]:
    """Yield the strings that an expression may be: a literal, or both sides of a condition."""
    match value:
        case ast.Constant(value=str(text)) if text:  # without a text there is no error
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from literals(body)
            yield from literals(orelse)
        case _:
            return


def is_text(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation) in {"str", "str | None"}


def positions(tree: ast.Module) -> dict[str, int]:
    """Return where functions and tuples of a module take a code by its position."""
    # The event of `steno.agent` and the value of `steno.ports`, which other modules make, too.
    found = {"Notice": 2, "SetupNotice": 0}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, args=ast.arguments(args=arguments)):
                names = [one.arg for one in arguments if one.arg not in {"self", "cls"}]
                texts = [one.arg for one in arguments if is_text(one.annotation)]
                if "code" in texts:
                    found[name] = names.index("code")
            case ast.ClassDef(name=name, bases=[ast.Name(id="NamedTuple")], body=body):
                fields = [one for one in body if isinstance(one, ast.AnnAssign)]
                for position, field in enumerate(fields):
                    if ast.unparse(field.target) == "code" and is_text(field.annotation):
                        found[name] = position
            case _:
                pass
    return found


def codes_in(source: str) -> Iterator[str]:
    """Yield the codes that a module passes to a call, or gives to a class or a variable `code`."""
    tree = ast.parse(source)
    position_by_name = positions(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=arguments, keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "code":
                        yield from literals(keyword.value)
                name = ast.unparse(function).rpartition(".")[2]
                if (position := position_by_name.get(name, len(arguments))) < len(arguments):
                    yield from literals(arguments[position])
            case (
                ast.Assign(targets=[ast.Name(id="code")], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id="code"), value=ast.expr() as value)
            ):
                yield from literals(value)
            case ast.ClassDef(name=name, body=body) if name.endswith("Code"):
                for each in body:
                    if isinstance(each, ast.Assign):
                        yield from literals(each.value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values)) if (
                name.endswith("_CODES")
            ):
                for value in values:
                    yield from literals(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Tuple(elts=rows)) if (
                name.endswith("_CODES")
            ):
                for row in rows:
                    if isinstance(row, ast.Tuple):
                        yield from literals(row.elts[0])
            case _:
                pass


@cache
def codes_of_steno() -> list[str]:
    """Return every code; `steno.testing` also writes codes of providers, which are not those of steno."""
    files = [path for path in SOURCE.rglob("*.py") if "testing" not in path.parts]
    return sorted({code for path in files for code in codes_in(path.read_text("utf-8"))})


def test_the_codes_are_those_of_the_snapshot() -> None:
    """A code that is removed or renamed is a change for users."""
    codes, frozen = set(codes_of_steno()), set(SNAPSHOT.read_text("utf-8").split())
    assert (sorted(codes - frozen), sorted(frozen - codes)) == ([], [])


def test_the_snapshot_is_sorted_and_has_one_code_on_each_line() -> None:
    lines = SNAPSHOT.read_text("utf-8").splitlines()
    assert lines == sorted(set(lines))


def test_every_code_is_snake_case() -> None:
    assert [code for code in codes_of_steno() if not SNAKE_CASE.fullmatch(code)] == []


def test_codes_are_found_wherever_they_are_written() -> None:
    source = """
class Failed(Exception):
    code = "of_class"
class Annotated(Exception):
    code: str = "of_annotated_class"
class Problem(NamedTuple):
    place: str
    code: str
class ResultCode(StrEnum):
    DENIED = "in_enum"
_TEXT_CODES: Final = {"a": "in_table"}
_ROW_CODES: Final = (("in_row", 1),)
class Reader:
    def fail(self, code: str, rule: str) -> None:
        raise Failed(rule, code=code)
    def read(self) -> None:
        self.fail("by_position", "no_code")
        code = "in_variable"
        raise Failed("no_code", code="by_keyword" if self else "otherwise")
def damage() -> Problem:
    return Problem("no_code", "in_tuple")
def notices() -> None:
    emit(Notice(INPUT, "no_code", "in_notice"))
    notify(SetupNotice("in_setup_notice", "no_code"))
"""
    assert sorted(codes_in(source)) == [
        *("by_keyword", "by_position", "in_enum", "in_notice", "in_row", "in_setup_notice"),
        *("in_table", "in_tuple", "in_variable"),
        *("of_annotated_class", "of_class", "otherwise"),
    ]


if __name__ == "__main__":
    SNAPSHOT.write_text("".join([f"{code}\n" for code in codes_of_steno()]), "utf-8")
