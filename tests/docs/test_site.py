"""The pages of the documentation site: links to files become links to pages."""

from __future__ import annotations

import pytest

from scripts.docs_site import site_path, translate_links, write_commands, write_slash_commands
from steno.app.commands.table import COMMANDS
from steno.cli.command_table import COMMAND_NAMES


@pytest.mark.parametrize(
    ("source", "page"),
    [
        ("docs/guides/log.md", "guides/log.md"),
        ("docs/guides", "guides/index.md"),
        ("docs/images/tree.svg", "images/tree.svg"),
        ("examples", "examples/index.md"),
        ("examples/lab/lines.py", "examples/lab/lines.md"),
        ("CHANGELOG.md", "project/changelog.md"),
        ("README.md", "index.md"),
        ("src/steno/errors.py", None),
    ],
)
def test_a_file_of_the_repository_has_a_page_or_none(source: str, page: str | None) -> None:
    assert site_path(source) == page


def test_links_are_translated_in_prose_and_left_alone_in_code() -> None:
    markdown = (
        "[a](../../examples/05_repair_a_session.py) [b](log.md#verify) [c](../../src/steno/ids.py)\n"
        "````console\n[d](../../src/x.py)\n```\n````\n"
        "[e](https://example.org) [f](../../CHANGELOG.md)\n"
    )
    assert translate_links(markdown, "guides/order.md", "docs/guides/order.md") == (
        "[a](../examples/05_repair_a_session.md) [b](log.md#verify) c\n"
        "````console\n[d](../../src/x.py)\n```\n````\n"
        "[e](https://example.org) [f](../project/changelog.md)\n"
    )


def test_the_reference_lists_every_command() -> None:
    commands = write_commands()
    assert all(f"\n### steno {name}\n" in commands for name in COMMAND_NAMES)
    slash_commands = write_slash_commands()
    assert all(
        f"| `/{command.name}" in slash_commands for command in COMMANDS if command.description
    )
