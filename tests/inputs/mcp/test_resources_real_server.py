"""Resources of real servers."""

from __future__ import annotations

import pytest

from steno.inputs.mcp.resources import ResourceResolver
from steno.messages.content import Resource
from tests.inputs.mcp.real_servers import LiveConnection
from tests.inputs.mcp.resource_doubles import (
    ManualClock,
    make_context,
    resource_reference,
)

FEATURES = "demo://resource/static/document/features.md"


def resources(live: LiveConnection, clock: ManualClock | None = None) -> ResourceResolver:
    return ResourceResolver(lambda _: live.server, now=ManualClock() if clock is None else clock)


@pytest.mark.requirement("S2-30", "S2-07")
def test_a_document_is_fetched_from_its_server(everything: LiveConnection) -> None:
    listed = {resource.uri for resource in everything.run(everything.server.resources())}
    assert FEATURES in listed
    clock = ManualClock()
    asked = resource_reference(FEATURES, server="everything")
    found = everything.run(resources(everything, clock).resolve(asked, make_context()))
    (part,) = found.content
    assert isinstance(part, Resource)
    assert (part.server, part.uri, part.mime_type) == ("everything", FEATURES, "text/markdown")
    assert part.retrieved_at == clock.time
    assert (part.text or "").startswith("# Everything Server")


def test_a_template_is_read_once_its_names_are_filled_in(everything: LiveConnection) -> None:
    known = resources(everything)
    listed = everything.run(everything.server.resources())
    template = next(r.uri for r in listed if r.is_template and "/text/" in r.uri)
    found = everything.run(
        known.resolve(resource_reference(template, server="everything"), make_context())
    )
    assert found.error_code == "uri_is_template"
    assert (found.error or "").endswith(": resourceId")
    filled = template.replace("{resourceId}", "7")
    found = everything.run(
        known.resolve(resource_reference(filled, server="everything"), make_context())
    )
    (part,) = found.content
    assert isinstance(part, Resource)
    assert (part.text or "").startswith("Resource 7: ")


def test_bytes_that_are_text_are_read_as_such(everything: LiveConnection) -> None:
    asked = resource_reference("demo://resource/dynamic/blob/7", server="everything")
    found = everything.run(resources(everything).resolve(asked, make_context()))
    (part,) = found.content
    assert isinstance(part, Resource)
    assert (part.text or "").startswith("Resource 7: ")


def test_an_unknown_resource_is_an_error_of_the_server(everything: LiveConnection) -> None:
    asked = resource_reference("demo://nothing", server="everything")
    found = everything.run(resources(everything).resolve(asked, make_context()))
    assert found.content == ()
    assert found.error_code == "server_refused"


@pytest.mark.requirement("S2-32")
def test_the_time_that_a_server_gives_is_kept_to(own_server: LiveConnection) -> None:
    clock = ManualClock()
    known = resources(own_server, clock)
    asked = resource_reference("own://note", server="own")
    found = own_server.run(known.resolve(asked, make_context()))
    assert found.details is not None
    assert found.details["ttl_s"] == 90
    clock.turn(89)
    again = own_server.run(known.resolve(asked, make_context()))
    clock.turn(1)
    later = own_server.run(known.resolve(asked, make_context()))
    assert again.details is not None
    assert later.details is not None
    assert [again.details["from_cache"], later.details["from_cache"]] == [True, False]
