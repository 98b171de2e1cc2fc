"""Items of recorded entries."""

from __future__ import annotations

import pytest

from steno import Entry
from steno.log.queries import as_version_2
from steno.records.entry import ShellCommand
from steno.render.items import CallState, ItemKind
from steno.render.items_from_entries import item_from_prompt


@pytest.mark.parametrize("command", ["ls", "for name in *; do\n  echo $name\ndone"])
def test_body_of_a_shell_command_is_its_output(command: str) -> None:
    recorded = ShellCommand(command=command, output="one\ntwo\n", status=0)
    entry = Entry(id="e1", payload=recorded)
    for found in (entry, as_version_2(entry)):
        item = item_from_prompt(found, recorded.message)
        assert (item.kind, item.state, item.body) == (ItemKind.SHELL, CallState.DONE, "one\ntwo\n")
