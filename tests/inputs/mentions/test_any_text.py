"""Whatever a person types, it is read, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steno.errors import InvalidValue
from steno.inputs.mentions import Mentions, parse_mentions
from steno.tools.workspace import Workspace

PIECES = st.sampled_from(
    [
        *"@@@\\\"'` \n/.:-1*[]{}()?\0…é\ud800",
        *("```", "~~~", "..", ":10-2", "a.py", "src", "alice", ".png", "docs:", "https://", "x://"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)
# One workspace serves all texts: nothing is written to it.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@shared
@given(text=TEXTS)
def test_any_text_has_mentions_or_is_refused(workspace: Workspace, text: str) -> None:
    try:
        found = parse_mentions(text, workspace=workspace, servers={"docs"})
    except InvalidValue:
        return
    assert found.text.replace("\\@", "@") == text.replace("\\@", "@")
    assert len(set(found.blocks)) == len(found.blocks) <= text.count("@")
    assert parse_mentions(text, workspace=workspace, servers={"docs"}) == found


@shared
@given(text=TEXTS)
def test_a_text_without_the_sign_stays_as_it_is(workspace: Workspace, text: str) -> None:
    text = text.replace("@", "")
    assert parse_mentions(text, workspace=workspace) == Mentions(text, (), ())


@pytest.mark.parametrize(
    "piece",
    [
        "@a ",
        "@a) ",
        "@a",
        "@'",
        "`@`` ",
        "\\@x ",
        "@" + "(" * 50,
        "@a:1 ",
        "\\@",
        "~~~\n@",
        ":@a",
        "*@a*",
        "@a,",
    ],
)
def test_a_text_full_of_signs_is_read(tmp_path: Path, piece: str) -> None:
    text = piece * 20_000
    assert "@" in parse_mentions(text, workspace=Workspace(tmp_path)).text
    assert parse_mentions("@a" + ")" * 100_000, workspace=Workspace(tmp_path)).blocks == ()
