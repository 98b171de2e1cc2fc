"""Docstrings in the three styles people write."""

from __future__ import annotations

import pytest

from steno.schema.docstrings import read_docstring

GOOGLE = """Copy a file.

    Keeps the mode and
    the times.

    Note:
        Links are followed.

    Args:
        source: Where from,
            over two lines

            and a gap.
        target (str | Path, optional): Where to: a path.
        *more (Callable[[int], str]): Others.
        a, b: Two at once.

    Keyword Args:
        force: Whether to write over
            what is there.

    Returns:
        count: How many.

    Raises:
        OSError: When it fails.
    """

NUMPY = """
    Copy a file.

    Keeps the mode and
    the times.

    Note:
        Links are followed.

    Parameters
    ----------
    source : str
        Where from,
        over two lines

        and a gap.
    target : {"a", "b"}, optional
        Where to: a path.
    *more
        Others.
    a, b: int
        Two at once.

    Other Parameters
    ----------------
    force
        Whether to write over
        what is there.

    Returns
    -------
    count : int
        How many.
    """

SPHINX = """Copy a file.

    Keeps the mode and
    the times.

    Note:
        Links are followed.

    :param source: Where from,
        over two lines
        and a gap.
    :type source: str
    :param str target: Where to: a path.
    :arg more: Others.
    :param a: Two at once.
    :param b: Two at once.
    :keyword force: Whether to write over
      what is there.

    Not part of it any more.

    :returns: How many.
    :rtype: int
    :raises OSError: When it fails.
    """


@pytest.mark.requirement("FR-004a-90")
@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_gives_the_same_text_and_entries(doc: str) -> None:
    found = read_docstring(doc)
    assert found.text == (
        "Copy a file.\n\nKeeps the mode and\nthe times.\n\nNote:\n    Links are followed."
    )
    assert found.entries == {
        "source": "Where from, over two lines and a gap.",
        "target": "Where to: a path.",
        "more": "Others.",
        "a": "Two at once.",
        "b": "Two at once.",
        "force": "Whether to write over what is there.",
    }


@pytest.mark.parametrize("doc", [None, "", "   \n   "])
def test_without_a_docstring_the_text_is_empty(doc: str | None) -> None:
    found = read_docstring(doc)
    assert (found.text, found.entries) == ("", {})


def test_a_docstring_without_sections_is_all_text() -> None:
    assert read_docstring("One.\n\n    Two:\n        three\n    ").text == "One.\n\nTwo:\n    three"


@pytest.mark.parametrize(
    "doc",
    [
        "Say what the parameters\nare.",
        "One.\n\nArgs: none.",
        "One.\n\nArgs:\nnot indented",
        "One.\n\nReturns:",
        "One.\n\nParameters\nare fine",
        "One.\n\nParameters",
        "One.\n\n:mod:`x` is used.",
    ],
)
def test_text_that_only_looks_like_a_section_stays_text(doc: str) -> None:
    assert read_docstring(doc).text == doc


def test_a_section_ends_where_prose_continues() -> None:
    found = read_docstring("One.\n\nArgs:\n    x: This.\nAnd more.\ny: no")
    assert (found.text, found.entries) == ("One.", {"x": "This."})


def test_lines_before_the_first_entry_are_passed_over() -> None:
    found = read_docstring("One.\n\nArgs:\n    These are it\n    x: This.")
    assert found.entries == {"x": "This."}
    assert read_docstring("One.\n\nArgs:\n    nothing to say").entries == {}


def test_a_sphinx_field_without_a_name_is_passed_over() -> None:
    assert read_docstring("One.\n:param: This.").entries == {}


def test_the_first_description_of_a_name_wins() -> None:
    found = read_docstring("One.\n\nArgs:\n    x: First.\n\nAttributes:\n    x: Second.")
    assert found.entries == {"x": "First."}
