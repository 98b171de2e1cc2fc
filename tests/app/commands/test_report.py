"""Reports: every interface shows every part."""

from __future__ import annotations

import pytest

from steno.app.commands.report import (
    FormattedText,
    Lines,
    Paragraph,
    Report,
    ReportLine,
    ReportPart,
    Table,
    bold,
    code,
    text_report,
)
from steno.cli.report_command import print_report
from steno.render.items import TextForm
from steno.render.table_output import Column

PARTS: list[ReportPart] = [
    Paragraph("The *record* is ", bold("whole"), ": ", code("a_b")),
    Paragraph("one\ttwo\x1b[2J", marker="-"),
    Paragraph("three", marker="-"),
    Lines([ReportLine([("* ", "green"), "first"]), ReportLine(["| second"])]),
    Table([Column("name", "cyan"), Column("size", is_number=True)], [["a_b", "12"]], "All of *it*"),
    FormattedText('{"a": 1}', TextForm.CODE, "json"),
]
REPORT = Report(PARTS, "Title", notices=("mind *this*",))


def test_markdown_has_every_part_with_the_notices_below_the_last_table() -> None:
    assert REPORT.form is TextForm.MARKDOWN
    assert REPORT.body.split("\n\n") == [
        "The \\*record\\* is **whole**\\: `a_b`",
        "- one two\\\\x1b\\[2J\n- three",
        "```\n* first\n| second\n```",
        "**All of \\*it\\***",
        "| name | size |\n| --- | ---: |\n| `a_b` | 12 |",
        "mind \\*this\\*",
        '```json\n{"a": 1}\n```',
    ]


def test_plain_text_has_every_part_and_no_markdown() -> None:
    assert REPORT.plain_text.split("\n\n") == [
        "The *record* is whole: `a_b`",
        "- one two\\x1b[2J\n- three",
        "* first\n| second",
        "All of *it*",
        "name  size\na_b     12",
        "mind *this*",
        '{"a": 1}',
    ]


def test_the_command_line_prints_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(REPORT)
    printed = capsys.readouterr()
    assert printed.out.split("\n\n") == [
        "The *record* is whole: a_b",
        "- one two\\x1b[2J\n- three",
        "* first\n| second",
        "All of *it*",
        "name  size\na_b     12",
        '{"a": 1}\n',
    ]
    assert printed.err == "steno: mind *this*\n"


@pytest.mark.parametrize("form", list(TextForm))
def test_a_text_alone_keeps_its_form(form: TextForm) -> None:
    report = text_report("- old\n+ *new*", form=form)
    assert (report.form, report.body, report.plain_text) == (form, *["- old\n+ *new*"] * 2)


def test_a_remark_takes_the_place_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(when_empty="there is none")
    assert (report.body, report.plain_text) == ("there is none", "there is none")
    print_report(report)
    assert capsys.readouterr() == ("", "steno: there is none\n")
    assert "there is none" not in report._replace(parts=PARTS).plain_text
