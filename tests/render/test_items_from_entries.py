"""Items of recorded entries."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Entry
from steno.log.queries import SHELL_AUDIT_KEY, SHELL_STATUS_AUDIT_KEY
from steno.render.items import CallState, ItemKind
from steno.render.items_from_entries import item_from_prompt


@pytest.mark.parametrize("command", ["ls", "for name in *; do\n  echo $name\ndone"])
def test_body_of_a_shell_command_is_its_output(command: str) -> None:
    message = ChatMessage.user(f"$ {command}\none\ntwo\n")
    audit = {SHELL_AUDIT_KEY: command, SHELL_STATUS_AUDIT_KEY: 0}
    item = item_from_prompt(Entry(id="e1", payload=message, audit=audit), message)
    assert (item.kind, item.state, item.body) == (ItemKind.SHELL, CallState.DONE, "one\ntwo\n")
