"""Changes: the parts of their place."""

from __future__ import annotations

import pytest

from steno.messages.change import Change, ChangeCode, PlaceParts


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("messages[3].content[1]", ("messages", 3, "content[1]")),
        ("messages[12]", ("messages", 12, "")),
        ("tools[0].parameters.a[2]", ("tools", 0, "parameters.a[2]")),
        ("max_tokens", ("max_tokens", None, "")),
        ("request.max_tokens", ("max_tokens", None, "")),
        ("extras.user", ("extras", None, "user")),
        ("", ("", None, "")),
    ],
)
def test_a_place_has_a_member_a_position_and_a_rest(
    place: str, parts: tuple[str, int | None, str]
) -> None:
    change = Change(ChangeCode.EXTRAS, "unknown", place)
    assert change.place_parts == PlaceParts(*parts)
