"""Referenced resources are read with permission, and cached while they are fresh."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from steno import ChatMessage
from steno.codec import decode_entry, encode_entry
from steno.context import ContextBuilder, ModelTarget
from steno.errors import InvalidValue, ServerFailed
from steno.inputs.mcp.protocol import McpServer, ReadResourceResult, ResourceContents
from steno.inputs.mcp.resources import ResourceLimits, ResourceResolver
from steno.messages.content import Image, ImageData, Resource, Text
from steno.ports import Capability, ResolvedReference
from steno.records.entry import Entry, Resolution, ResolutionStatus
from tests.inputs.mcp.resource_doubles import (
    ManualClock,
    ResourceServer,
    ScriptedPermission,
    bytes_resource,
    make_context,
    recorded_resolution,
    resource_reference,
    text_resource,
)
from tests.inputs.mcp.tool_doubles import run


def resources(library: ResourceServer, **settings: Any) -> ResourceResolver:
    def server_of(name: str) -> McpServer:
        if name != library.name:
            raise ServerFailed("unknown server", code="server_not_found")
        return library

    settings.setdefault("now", ManualClock())
    return ResourceResolver(server_of, **settings)


def resolve(library: ResourceServer, uri: str = "lib://a", **settings: Any) -> ResolvedReference:
    return run(resources(library, **settings).resolve(resource_reference(uri), make_context()))


def details(finding: ResolvedReference) -> dict[str, Any]:
    assert finding.error is None
    assert finding.details is not None
    return dict(finding.details)


def only_text(finding: ResolvedReference) -> str:
    (part,) = finding.content
    assert isinstance(part, Resource)
    assert part.text is not None
    return part.text


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-30", "S2-07")
def test_a_resource_is_read_with_permission_and_recorded_with_where_and_when_it_is_from() -> None:
    library, keeper, clock = (
        ResourceServer(holds={"lib://a": text_resource("words")}),
        ScriptedPermission(),
        ManualClock(),
    )
    found = run(resources(library, now=clock).resolve(resource_reference(), make_context(keeper)))
    assert keeper.asked == [("mcp__lib", Capability.READ, "lib://a")]
    assert found.content == (
        Resource(
            server="lib",
            uri="lib://a",
            mime_type="text/plain",
            text="words",
            retrieved_at=clock.time,
        ),
    )
    assert details(found) == {
        "kind": "resource",
        "server": "lib",
        "uri": "lib://a",
        "mime_type": "text/plain",
        "sha256": hashlib.sha256(b"words").hexdigest(),
        "bytes": 5,
        "retrieved_at": clock.time.isoformat(),
        "ttl_s": 3_600,
        "from_cache": False,
        "shortened": 0,
        "parts": 1,
        "allowed_by": "test",
    }
    assert found.notice == ""


@pytest.mark.requirement("S2-30", "S2-31")
def test_a_resolved_resource_is_recorded_and_sent_without_metadata() -> None:
    found = resolve(ResourceServer(holds={"lib://a": text_resource("CREATE TABLE t;")}))
    asked = Entry(id="e1", payload=ChatMessage.user([Text("Explain."), resource_reference()]))
    payload = recorded_resolution(found)
    resolution = Resolution(
        target="e1",
        block=1,
        status=payload.status,
        content=payload.content,
        details=payload.details,
    )
    log = (asked, Entry(id="e2", parent="e1", payload=resolution))
    stored = tuple(decode_entry(encode_entry(entry)) for entry in log)
    assert stored == log
    said = ContextBuilder().build(stored, ModelTarget()).request.messages[0].text or ""
    assert "\nCREATE TABLE t;\n" in said
    assert "The system provides it" in said
    assert str(details(found)["sha256"]) not in said


def test_a_denied_resource_is_not_read() -> None:
    library = ResourceServer(holds={"lib://a": text_resource("secret")})
    found = run(
        resources(library).resolve(
            resource_reference(), make_context(ScriptedPermission("lib://a"))
        )
    )
    assert (found.error_code, found.content) == ("denied", ())
    assert (found.error or "").startswith("lib://a: ")
    assert library.reads == []


def test_a_rule_means_a_server_by_the_name_that_its_tools_begin_with() -> None:
    library, keeper = (
        ResourceServer("web-search", holds={"lib://a": text_resource("words")}),
        ScriptedPermission(),
    )
    pointed = Resource(server="web-search", uri="lib://a")
    assert run(resources(library).resolve(pointed, make_context(keeper))).error is None
    assert keeper.asked == [("mcp__web_search", Capability.READ, "lib://a")]


@pytest.mark.parametrize(
    ("uri", "subject"),
    [
        ("lib://private/%61", "lib://private/a"),
        ("LIB://%70rivate/a", "lib://private/a"),
        ("lib://me:hunter2@private/a", "lib://private/a"),
        ("lib://Private/A%20b%c3%a4", "lib://Private/A%20b%C3%A4"),
        ("https://ME:Pass@Private.example/A?b=%2f..", "https://private.example/A?b=%2F.."),
    ],
)
def test_rules_match_one_spelling_and_it_is_requested_once(uri: str, subject: str) -> None:
    library, keeper = ResourceServer(), ScriptedPermission(subject)
    found = run(resources(library).resolve(resource_reference(uri), make_context(keeper)))
    assert found.error_code == "denied"
    assert (found.error or "").startswith(f"{subject}: ")
    assert keeper.asked == [("mcp__lib", Capability.READ, subject)]
    assert library.reads == []


def test_a_server_is_sent_the_spelling_that_was_allowed() -> None:
    library = ResourceServer(holds={"lib://notes/a": text_resource("words")})
    known = resources(library)
    for uri in ("lib://notes/%61", "lib://notes/a"):
        assert only_text(run(known.resolve(resource_reference(uri), make_context()))) == "words"
    assert library.reads == ["lib://notes/a"]


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("lib://private%2Fa", "uri_has_encoded_slashes"),
        ("lib://private%5ca", "uri_has_encoded_slashes"),
        ("lib://private\\a", "uri_has_encoded_slashes"),
        ("lib://public/../private/a", "uri_has_dot_steps"),
        ("lib://public/%2e%2E/private/a", "uri_has_dot_steps"),
        ("lib://public%2F..", "uri_has_dot_steps"),
        ("lib://private/./a", "uri_has_dot_steps"),
    ],
)
def test_a_uri_without_a_canonical_spelling_is_refused_before_a_request(
    uri: str, code: str
) -> None:
    library, keeper = ResourceServer(holds={uri: text_resource("secret")}), ScriptedPermission()
    found = run(resources(library).resolve(resource_reference(uri), make_context(keeper)))
    assert found.error_code == code
    assert (found.error or "").startswith(f"{uri}: ")
    assert (found.error or "").count(uri) == 1
    assert keeper.asked == []
    assert library.reads == []


def test_permission_is_required_each_time_even_for_cached_resources() -> None:
    library = ResourceServer(holds={"lib://a": text_resource("secret")})
    known = resources(library)
    run(known.resolve(resource_reference(), make_context()))
    found = run(known.resolve(resource_reference(), make_context(ScriptedPermission("lib://a"))))
    assert found.error_code == "denied"
    assert found.content == ()


def test_a_missing_resource_is_an_error_with_the_text_of_the_server() -> None:
    error = "lib://a: mcp lib: there is no such resource"  # the text of the server
    assert resolve(ResourceServer()).error == error


@pytest.mark.requirement("P-24")
@pytest.mark.parametrize("message", ["see lib://about", "lib://a is not there", "lib://a: gone"])
def test_an_error_begins_with_the_resource_whatever_the_server_writes(message: str) -> None:
    failure = ServerFailed(message, code="server_refused", place="mcp lib")
    found = resolve(ResourceServer(failure=failure))
    assert (found.error_code, found.error) == ("server_refused", f"lib://a: {failure}")


def test_an_unknown_server_is_an_error() -> None:
    library = ResourceServer()
    found = run(resources(library).resolve(resource_reference(server="other"), make_context()))
    assert found.error_code == "server_not_found"


@pytest.mark.parametrize("contents", [(), (ResourceContents(uri="lib://a"),)])
def test_a_resource_without_content_is_an_error(contents: tuple[ResourceContents, ...]) -> None:
    found = resolve(ResourceServer(holds={"lib://a": ReadResourceResult(contents)}))
    assert found.error_code == "resource_empty"


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("lib://text/{id}", "id"),
        ("lib://{+path}/x{?lang,depth}", "path, lang, depth"),
        ("lib://{name*}/{code:3}", "name, code"),
    ],
)
def test_a_template_is_an_error_that_names_its_variables(uri: str, names: str) -> None:
    library = ResourceServer()
    found = resolve(library, uri)
    assert found.error_code == "uri_is_template"
    assert (found.error or "").endswith(f": {names}")
    assert library.reads == []


HIDDEN = ("a\x1b[2J", "a\nb", "\u202ea", "\u3164a")


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        *[(f"lib://{hidden}", "uri_has_hidden_characters") for hidden in HIDDEN],
        ("x" * 2_001, "uri_too_long"),
    ],
)
def test_a_uri_with_hidden_characters_or_too_long_is_refused_before_a_request(
    uri: str, code: str
) -> None:
    library, keeper = ResourceServer(), ScriptedPermission()
    found = run(resources(library).resolve(resource_reference(uri), make_context(keeper)))
    assert found.error_code == code
    assert keeper.asked == []
    assert library.reads == []


def test_a_password_in_a_uri_goes_only_to_the_server() -> None:
    uri = "postgres://me:hunter2@host/db"
    part = ResourceContents(uri=uri, text="schema")
    library = ResourceServer(holds={uri: ReadResourceResult((part,))})
    found = resolve(library, uri)
    assert library.reads == [uri]
    assert details(found)["uri"] == "postgres://host/db"
    assert "hunter2" not in str([*found.content, found.details, found.notice])
    (block,) = found.content
    assert isinstance(block, Resource)
    assert block.uri == "postgres://host/db"


def test_content_of_a_message_needs_no_server() -> None:
    library = ResourceServer()
    inside = Resource(server="gone", uri="lib://a", text="here")
    known = resources(library, now=(clock := ManualClock()))
    found = run(known.resolve(inside, make_context()))
    assert only_text(found) == "here"
    assert library.reads == []
    clock.turn(10**6)
    assert known.is_current(inside, recorded_resolution(found), make_context())


# -- what is shown ---------------------------------------------------------------------------------


@pytest.mark.requirement("S2-31")
def test_a_text_of_ten_megabytes_is_shown_by_its_beginning_and_end() -> None:
    long = "begin" + "x" * 10_000_000 + "end"
    found = resolve(ResourceServer(holds={"lib://a": text_resource(long)}))
    shown = only_text(found)
    assert len(shown) < 66_000
    assert shown.startswith("beginx")
    assert shown.endswith("xend")
    left = len(long) - 64 * 1024
    assert (
        f"[… {left:,} characters left out here: the MCP server lib has the complete resource lib://a …]"
        in shown
    )
    assert details(found)["shortened"] == left
    assert details(found)["bytes"] == len(long)
    assert details(found)["sha256"] == hashlib.sha256(long.encode()).hexdigest()
    assert found.notice == "lib://a: only its beginning and its end are shown"


@pytest.mark.requirement("S2-31")
def test_a_thousand_parts_share_the_room_of_one() -> None:
    parts = tuple(ResourceContents(uri=f"lib://a/{n}", text=f"{n} " * 300) for n in range(1_000))
    found = resolve(ResourceServer(holds={"lib://a": ReadResourceResult(parts)}))
    texts = [part.text or "" for part in found.content if isinstance(part, Resource)]
    assert 60_000 < len("".join(texts)) < 66_000
    assert len(found.content) <= 101
    assert isinstance(found.content[-1], Text)
    assert (
        "more parts left out here: the MCP server lib has the complete resource"
        in found.content[-1].text
    )
    assert details(found)["parts"] == 1_000
    tiny = tuple(ResourceContents(uri=f"lib://a/{n}", text=str(n)) for n in range(1_000))
    found = resolve(ResourceServer(holds={"lib://a": ReadResourceResult(tiny)}))
    assert len(found.content) == 101


def prepare_image(content: bytes) -> Image:
    """Replace image preparation: accept all bytes that begin like an image."""
    if not content.startswith(b"PNG"):
        raise OSError("no image")
    return Image(source=ImageData(content), mime_type="image/png")


def test_images_are_made_to_fit() -> None:
    found = resolve(
        ResourceServer(holds={"lib://a": bytes_resource(b"PNG!", "image/x-odd")}),
        prepare_image=prepare_image,
    )
    assert found.content == (Image(source=ImageData(b"PNG!"), mime_type="image/png"),)


def test_an_image_that_is_none_or_cannot_be_made_to_fit_is_kept_as_bytes() -> None:
    library = ResourceServer(holds={"lib://a": bytes_resource(b"MZ\x90", "image/png")})
    for found, reason in (
        (
            resolve(library, prepare_image=prepare_image),
            "one of its images cannot be shown: no image",
        ),
        (
            resolve(library),
            "an image of the resource is not shown: pip install 'steno-agent[images]'",
        ),
    ):
        (part,) = found.content
        assert isinstance(part, Resource)
        assert part.data == b"MZ\x90"
        assert found.notice == f"lib://a: {reason}"


def test_text_that_came_as_bytes_is_shown_and_what_only_says_that_it_is_text_is_not() -> None:
    library = ResourceServer(
        holds={"lib://a": bytes_resource("grün".encode(), "text/plain; charset=utf-8")}
    )
    assert only_text(resolve(library)) == "grün"
    library = ResourceServer(holds={"lib://a": bytes_resource(b"\xff\xfe\x00", "text/plain")})
    (part,) = resolve(library).content
    assert isinstance(part, Resource)
    assert part.data == b"\xff\xfe\x00"


def test_bytes_are_recorded_up_to_a_megabyte_and_noted_beyond() -> None:
    small, large = b"\0" * 1024 * 1024, b"\0" * (1024 * 1024 + 1)
    (part,) = resolve(ResourceServer(holds={"lib://a": bytes_resource(small)})).content
    assert isinstance(part, Resource)
    assert part.data == small
    found = resolve(ResourceServer(holds={"lib://a": bytes_resource(large, "application/zip")}))
    assert found.content == (
        Text(
            "[application/zip, 1,048,577 bytes, not shown and not stored: "
            "the MCP server lib has the complete resource lib://a]"
        ),
    )
    assert details(found)["sha256"] == hashlib.sha256(large).hexdigest()


def test_odd_names_and_types_of_a_server_are_made_harmless() -> None:
    part = ResourceContents(
        uri="lib://\x1b[31mred\u202e", mime_type="text/\x1b]0;t\x07x\ud800", text="a\ud800"
    )
    found = resolve(ResourceServer(holds={"lib://a": ReadResourceResult((part,))}))
    (block,) = found.content
    assert isinstance(block, Resource)
    assert block.uri == "lib://red"
    assert block.mime_type == "text/x\ufffd"
    assert block.text == "a\ufffd"
    encode_entry(Entry(id="e", payload=recorded_resolution(found)))


# -- freshness -------------------------------------------------------------------------------------


def reads_after(library: ResourceServer, seconds: float, **settings: Any) -> int:
    """Return the number of reads if the same reference is resolved after so many seconds."""
    library.reads.clear()
    clock = ManualClock()
    known = resources(library, now=clock, **settings)
    first = run(known.resolve(resource_reference(), make_context()))
    clock.turn(seconds)
    again = run(known.resolve(resource_reference(), make_context()))
    reads = len(library.reads)
    assert details(again)["from_cache"] is (reads == 1)
    same = details(again)["retrieved_at"] == details(first)["retrieved_at"]
    assert same is (reads == 1)
    recorded = recorded_resolution(first)
    assert known.is_fresh(recorded) is (reads == 1)
    assert known.is_current(resource_reference(), recorded, make_context())
    return reads


@pytest.mark.requirement("S2-32")
def test_a_resource_is_used_again_for_an_hour() -> None:
    library = ResourceServer(holds={"lib://a": text_resource("words")})
    assert reads_after(library, 3_599) == 1
    assert reads_after(library, 3_600) == 2
    assert reads_after(library, 10, default_ttl_s=10) == 2


@pytest.mark.requirement("S2-32")
def test_the_server_states_how_long_a_resource_is_fresh_up_to_a_day() -> None:
    assert reads_after(ResourceServer(holds={"lib://a": text_resource("w", ttl_s=5)}), 4) == 1
    assert reads_after(ResourceServer(holds={"lib://a": text_resource("w", ttl_s=5)}), 5) == 2
    forever = ResourceServer(holds={"lib://a": text_resource("w", ttl_s=float("inf"))})
    assert reads_after(forever, 24 * 3_600 - 1) == 1
    assert reads_after(forever, 24 * 3_600) == 2
    nonsense = ResourceServer(holds={"lib://a": text_resource("w", ttl_s=float("nan"))})
    assert reads_after(nonsense, 3_599) == 1


@pytest.mark.requirement("S2-32")
def test_the_user_sets_how_long_a_resource_is_fresh_by_server_and_type() -> None:
    library = ResourceServer(holds={"lib://a": text_resource("w", "Text/CSV; header=present")})
    by_type = {"lib": {"*": 10.0, "text/*": 20.0, "text/csv": 30.0}}
    assert reads_after(library, 29, ttl_s=by_type) == 1
    assert reads_after(library, 30, ttl_s=by_type) == 2
    library = ResourceServer(holds={"lib://a": text_resource("w", "text/html")})
    assert reads_after(library, 19, ttl_s=by_type) == 1
    assert reads_after(library, 20, ttl_s=by_type) == 2
    library = ResourceServer(holds={"lib://a": text_resource("w", None)})
    assert reads_after(library, 10, ttl_s=by_type) == 2
    assert reads_after(library, 10, ttl_s={"other": {"*": 1.0}}) == 1
    library = ResourceServer(holds={"lib://a": text_resource("w", "text/csv", ttl_s=5)})
    assert reads_after(library, 29, ttl_s=by_type) == 1
    assert reads_after(library, 30, ttl_s=by_type) == 2
    never = {"lib": {"*": 0.0}}
    assert reads_after(library, 1, ttl_s=never) == 2


@pytest.mark.requirement("S2-32")
def test_a_server_that_sets_no_time_sends_0_and_gets_the_default() -> None:
    """SDKs of the protocol 2026-07-28 send `ttlMs: 0` for a server that sets no time."""
    library = ResourceServer(holds={"lib://a": text_resource("w", ttl_s=0)})
    assert reads_after(library, 3_599) == 1
    assert reads_after(library, 3_600) == 2


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidValue):
        resources(ResourceServer(), ttl_s={"lib": {"*": seconds}})
    with pytest.raises(InvalidValue):
        resources(ResourceServer(), default_ttl_s=seconds)


@pytest.mark.requirement("S2-32")
def test_a_resumed_conversation_uses_the_resources_in_its_log() -> None:
    library, clock = ResourceServer(holds={"lib://a": text_resource("words")}), ManualClock()
    before = run(resources(library, now=clock).resolve(resource_reference(), make_context()))
    entry = decode_entry(encode_entry(Entry(id="e", payload=recorded_resolution(before))))
    assert isinstance(entry.payload, Resolution)
    later = resources(library, now=clock)
    later.add_to_cache(resource_reference(), entry.payload)
    clock.turn(3_000)
    again = run(later.resolve(resource_reference(), make_context()))
    assert again.content == before.content
    assert details(again)["from_cache"] is True
    clock.turn(601)
    assert details(run(later.resolve(resource_reference(), make_context())))["from_cache"] is False
    assert library.reads == ["lib://a"] * 2


def test_a_logged_resource_does_not_replace_a_newer_one() -> None:
    library, clock = ResourceServer(holds={"lib://a": text_resource("old")}), ManualClock()
    known = resources(library, now=clock)
    old = recorded_resolution(
        run(resources(library, now=clock).resolve(resource_reference(), make_context()))
    )
    clock.turn(1)
    library.holds["lib://a"] = text_resource("new")
    run(known.resolve(resource_reference(), make_context()))
    known.add_to_cache(resource_reference(), old)
    assert only_text(run(known.resolve(resource_reference(), make_context()))) == "new"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"kind": "file", "ttl_s": 9, "retrieved_at": "2026-05-06T12:00:00+00:00"},
        {"kind": "resource", "ttl_s": "9", "retrieved_at": "2026-05-06T12:00:00+00:00"},
        {"kind": "resource", "ttl_s": 9, "retrieved_at": "yesterday"},
        {"kind": "resource", "ttl_s": 9, "retrieved_at": "2027-05-06T12:00:00"},
    ],
)
def test_a_record_that_does_not_say_when_and_how_long_is_not_fresh(odd: Any) -> None:
    resolution = Resolution(
        target="e",
        block=0,
        status=ResolutionStatus.RESOLVED,
        content=(Resource(server="lib", uri="lib://a", text="forged"),),
        details=odd,
    )
    library = ResourceServer(holds={"lib://a": text_resource("words")})
    known = resources(library)
    assert not known.is_fresh(resolution)
    known.add_to_cache(resource_reference(), resolution)
    assert only_text(run(known.resolve(resource_reference(), make_context()))) == "words"


@pytest.mark.parametrize("server", [{}, {"server": None}, {"server": 1}])
def test_a_setting_does_not_apply_to_a_record_without_a_server(server: dict[str, Any]) -> None:
    clock = ManualClock()
    long = {name: {"*": 100.0} for name in ("None", "1", "")}
    known = resources(ResourceServer(), ttl_s=long, now=clock)
    details = {"kind": "resource", "ttl_s": 9, "retrieved_at": clock().isoformat()} | server
    content = (Resource(server="lib", uri="lib://a", text="words"),)
    resolution = recorded_resolution(ResolvedReference(content=content, details=details))
    assert known.is_fresh(resolution)
    clock.turn(10)
    assert not known.is_fresh(resolution)


def test_a_failed_reference_is_not_current_and_has_no_changes() -> None:
    known = resources(ResourceServer())
    failed = Resolution(target="e", block=0, status=ResolutionStatus.FAILED, error="gone")
    assert not known.is_current(resource_reference(), failed, make_context())
    assert run(known.changes(resource_reference(), failed)) == ()


@pytest.mark.requirement("S2-32")
def test_the_cache_is_bounded_and_drops_the_least_recently_used() -> None:
    holds = {f"lib://{n}": text_resource("x" * 400) for n in "abc"}
    library = ResourceServer(holds={**holds, "lib://huge": text_resource("y" * 2_000)})
    known = resources(library, limits=ResourceLimits(max_bytes=1_000))
    for uri in ("lib://a", "lib://b", "lib://a", "lib://c", "lib://a", "lib://b"):
        run(known.resolve(resource_reference(uri), make_context()))
    assert library.reads == ["lib://a", "lib://b", "lib://c", "lib://b"]
    run(known.resolve(resource_reference("lib://huge"), make_context()))
    run(known.resolve(resource_reference("lib://huge"), make_context()))
    assert library.reads[4:] == ["lib://huge"] * 2


@pytest.mark.requirement("S2-32")
@pytest.mark.parametrize("ttl_s", [0, 3_600])
def test_a_run_keeps_what_it_has_read_even_if_the_cache_is_too_small(ttl_s: float) -> None:
    names = [f"lib://{name}" for name in "abc"]
    library = ResourceServer(holds={name: text_resource("x" * 400) for name in names})
    known = resources(library, limits=ResourceLimits(max_bytes=100), default_ttl_s=ttl_s)
    for _ in range(2):
        context = make_context()._replace(run_cache={})
        for uri in names * 2:
            run(known.resolve(resource_reference(uri), context))
    assert library.reads == names * 2


@pytest.mark.requirement("S2-32")
def test_a_run_keeps_what_it_received_from_the_cache() -> None:
    holds = {uri: text_resource("x" * 400) for uri in ("lib://a", "lib://b")}
    library, clock = ResourceServer(holds=holds), ManualClock()
    known = resources(library, limits=ResourceLimits(max_bytes=500), now=clock)
    first, second = [make_context()._replace(run_cache={}) for _ in range(2)]
    before = run(known.resolve(resource_reference(), first))
    clock.turn(3_599)
    assert details(run(known.resolve(resource_reference(), second)))["from_cache"] is True
    run(known.resolve(resource_reference("lib://b"), first))  # the cache has no room for both
    clock.turn(1)
    library.holds["lib://a"] = text_resource("new")
    for context in (first, second):
        assert run(known.resolve(resource_reference(), context)).content == before.content
    assert library.reads == ["lib://a", "lib://b"]


@pytest.mark.requirement("S2-32")
def test_two_resolvers_do_not_share_what_a_run_keeps() -> None:
    context = make_context()._replace(run_cache={})
    for text in ("one", "two"):
        library = ResourceServer(holds={"lib://a": text_resource(text)})
        assert only_text(run(resources(library).resolve(resource_reference(), context))) == text


@pytest.mark.requirement("S2-32")
def test_resources_from_the_log_do_not_replace_those_that_the_run_has_read() -> None:
    library = ResourceServer(
        holds={uri: text_resource("x" * 400) for uri in ("lib://a", "lib://b")}
    )
    logged = recorded_resolution(
        run(resources(library).resolve(resource_reference("lib://b"), make_context()))
    )
    known = resources(library, limits=ResourceLimits(max_bytes=500))
    context = make_context()._replace(run_cache={})
    run(known.resolve(resource_reference("lib://a"), context))
    known.add_to_cache(resource_reference("lib://b"), logged)
    run(known.resolve(resource_reference("lib://a"), context))
    assert library.reads == ["lib://b", "lib://a"]


@pytest.mark.requirement("S2-32")
def test_servers_do_not_share_the_cache() -> None:
    libraries = {
        name: ResourceServer(name, holds={"lib://a": text_resource(name)})
        for name in ("one", "two")
    }
    known = ResourceResolver(lambda name: libraries[name], now=ManualClock())
    for name in ("one", "two", "one"):
        assert (
            only_text(run(known.resolve(resource_reference(server=name), make_context()))) == name
        )


def test_a_stale_one_that_cannot_be_read_again_is_an_error() -> None:
    library, clock = ResourceServer(holds={"lib://a": text_resource("words")}), ManualClock()
    known = resources(library, now=clock)
    run(known.resolve(resource_reference(), make_context()))
    clock.turn(3_600)
    library.failure = ServerFailed("it is gone", code="server_gone", place="mcp lib")
    found = run(known.resolve(resource_reference(), make_context()))
    assert (found.error_code, found.content) == ("server_gone", ())
