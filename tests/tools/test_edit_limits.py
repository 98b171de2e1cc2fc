"""What a model writes cannot make `edit` take for ever, or all of the memory."""

from __future__ import annotations

import re
from random import Random

import pytest

from steno.errors import ToolFailed
from steno.tools.edit import replace_text
from steno.tools.text_file import TextFile

MILLION = 1_000_000


def text(content: str) -> TextFile:
    return TextFile(content, "utf-8")


def by_regular_expression(file: TextFile, old: str, new: str) -> str:
    """Return what `replace_text` promises, in a way that is short and slow."""
    pattern = re.compile(re.escape(old).replace("\\\n", "\r?\n"))

    def put(found: re.Match[str]) -> str:
        end = "\r\n" if "\r\n" in found[0] else "\n" if "\n" in found[0] else file.line_end
        return new.replace("\n", end)

    return pattern.sub(put, file.text)


@pytest.mark.parametrize("seed", range(20))
def test_every_mixture_of_line_ends_is_kept(seed: int) -> None:
    chance = Random(seed)
    compared = 0
    for _ in range(100):
        file = text("".join(chance.choices(["a", "b", "\n", "\r\n"], k=12)))
        old = "".join(chance.choices(["a", "b", "\n"], k=chance.randint(1, 3)))
        if re.search(re.escape(old).replace("\\\n", "\r?\n"), file.text) is None:
            continue
        compared += 1
        assert replace_text(file, old, "x\ny", every=True) == by_regular_expression(
            file, old, "x\ny"
        )
    assert compared


def test_a_text_that_stands_everywhere_is_refused_with_the_first_lines() -> None:
    with pytest.raises(ToolFailed, match=r"1,?000,?000 times \(lines 1, 2, 3, .*10, \.\.\.\)"):
        replace_text(text("a\n" * MILLION), "\n", "x")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_text_that_stands_everywhere_is_replaced_everywhere(line_end: str) -> None:
    file = text(f"a{line_end}" * MILLION)
    assert replace_text(file, "a", "b", every=True) == f"b{line_end}" * MILLION


def test_a_text_that_nearly_stands_everywhere_is_not_found() -> None:
    """A search that begins anew behind every line would take hours."""
    with pytest.raises(ToolFailed, match="is not in the file; read it again"):
        replace_text(text("a\n" * MILLION), "\n" + "a\n" * 50_000 + "b", "x")


def test_a_file_does_not_grow_beyond_what_can_be_read() -> None:
    with pytest.raises(ToolFailed, match="would have more than"):
        replace_text(text("a" * MILLION), "a", "b" * MILLION, every=True)
