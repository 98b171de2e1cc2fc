"""A custom wire is used like a built-in one: a vendor names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steno import ChatMessage, Request, StopReason
from steno.errors import InvalidValue, NotFound, ProviderError
from steno.providers import Retries, connect, read_vendors
from steno.wire import chat, load_wire, openai_chat
from tests.providers import example_wire
from tests.providers.provider_setup import KEY, REQUEST, vendor_row
from tests.transport.http_server import (
    END,
    chunk,
    chunked_stream,
    reply,
    response_head,
    run,
    run_server,
)

SENT = [
    response_head(content_type="text/x-morse", transfer_encoding="chunked"),
    *map(chunk, (b"Hel", b"lo\nstop\n")),
    END,
]
EXAMPLES = Path(__file__).parents[2] / "examples"
WIRES = pytest.mark.parametrize(
    "wire", [example_wire, "tests.providers.example_wire"], ids=["module", "name"]
)


@WIRES
def test_a_custom_wire_is_used_over_http(wire: Any) -> None:
    async def main() -> None:
        async with run_server(SENT, [*SENT[:1], chunk(b"\n"), END], SENT) as server:
            vendor = vendor_row(server.url, wire=wire, path="/tell?loud=1")
            async with connect(vendor, key=KEY, retries=Retries(first_wait_s=0)) as provider:
                stream = provider.stream(REQUEST)
                message = await stream.collect()
                assert (message.text, message.stop_reason) == ("Hello", StopReason.END_TURN)
                assert stream.envelope == {"maker": ("lab", "m")}
                more = (*REQUEST.messages, message, ChatMessage.user("More."))
                again = await provider.stream(Request(model="m", messages=more)).collect()
                assert again.text == "Hello"
        assert [seen.path for seen in server.seen] == ["/tell?loud=1"] * 3
        assert server.seen[0].json == {"to": "m", "said": ["Speak."], "stream": True}
        assert server.seen[2].json["said"] == ["Speak.", "Hello", "More."]
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"

    run(main())


def test_a_custom_wire_decodes_errors() -> None:
    async def main() -> None:
        async with (
            run_server(reply(400, b"dot dot dash")) as server,
            connect(vendor_row(server.url, wire=example_wire, path="/tell")) as provider,
        ):
            with pytest.raises(ProviderError, match=r"^morse: dot dot dash"):
                await provider.stream(REQUEST).collect()
            with pytest.raises(NotFound) as caught:
                await provider.models()
            assert (caught.value.code, caught.value.place) == ("models_path_unknown", "lab")

    run(main())


def test_a_row_of_a_file_names_a_module_that_is_loaded_when_it_is_connected() -> None:
    rows = {"lab": {"wire": "tests.nowhere", "base_url": "http://lab.example", "path": "/tell"}}
    vendors = read_vendors(rows)
    with pytest.raises(InvalidValue, match=r"set PYTHONPATH=\.$") as caught:
        connect("lab", vendors=vendors)
    assert (caught.value.code, caught.value.place) == ("wire_not_importable", "wire")
    rows["lab"]["wire"] = "tests.providers.example_wire"
    assert connect("lab", vendors=read_vendors(rows)).vendor.path == "/tell"


def test_a_wire_of_ours_as_a_module_is_the_same_as_its_name() -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a"), chunked_stream("b")) as server:
            for wire in (openai_chat, "steno.wire.openai_chat"):
                async with connect(vendor_row(server.url, wire=wire)) as provider:
                    await provider.stream(REQUEST).collect()
        assert [seen.path for seen in server.seen] == ["/chat/completions"] * 2

    run(main())


def test_a_vendor_may_set_the_path() -> None:
    async def main() -> None:
        async with (
            run_server(chunked_stream("a")) as server,
            connect(vendor_row(server.url, path="/deployed/chat?v=1")) as provider,
        ):
            await provider.stream(REQUEST).collect()
        assert server.seen[0].path == "/deployed/chat?v=1"

    run(main())


@pytest.mark.parametrize(
    "wire", [example_wire, chat, "chat", "tests.providers.example_wire"], ids=str
)
def test_a_wire_without_a_default_path_requires_one(wire: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        connect(vendor_row("http://lab.example", wire=wire))
    assert (caught.value.code, caught.value.place) == ("field_missing", "lab.path")


@pytest.mark.parametrize("path", ["tell", "/te ll", "/tell#x", "/tell\r\nx: y", "/té"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        vendor_row("http://lab.example", path=path)
    assert (caught.value.code, caught.value.place) == ("path_malformed", "lab.path")


def test_a_module_that_lacks_a_function_is_not_a_wire() -> None:
    half = ModuleType("half")
    vars(half).update(NAME="half", StreamDecoder=example_wire.StreamDecoder)
    for wire, missing in ((half, "decode_error"), (None, "NAME")):
        with pytest.raises(InvalidValue, match=rf"\b{missing}\b") as caught:
            connect(vendor_row("http://lab.example", wire=wire, path="/tell"))
        assert (caught.value.code, caught.value.place) == ("wire_incomplete", "wire")


def test_an_import_error_inside_a_wire_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wires_of_mine").mkdir()
    (tmp_path / "wires_of_mine" / "lacking.py").write_text("import nobody_wrote_this\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nobody_wrote_this"):
        load_wire("wires_of_mine.lacking")


# -- the wire in the examples ----------------------------------------------------------------------


def ask_the_kit(*options: str) -> dict[str, str]:
    """Run the kit as a reader of the guide does; return the verdicts, or reasons, by case."""
    place = ("--only", "--wire", "lab.lines_server:LinesServer")
    done = subprocess.run(
        [sys.executable, "-m", "steno.testing.conformance", *place, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown, _, reasons = done.stdout.partition("\n\n")
    if not reasons:
        return {row.split()[0]: row.split()[-1] for row in shown.splitlines()[1:]}
    told = [line.removeprefix("lines · ").partition(": ") for line in reasons.splitlines()]
    return {case: reason for case, _, reason in told}


def test_the_wire_in_the_examples_passes_every_case_that_its_protocol_can_express() -> None:
    verdicts = ask_the_kit()
    unasked = {case for case, verdict in verdicts.items() if verdict != "ok"}
    assert unasked == {
        *("thinking", "thinking_with_seal", "redacted_thinking", "refusal_or_filter"),
        *("interleaved_calls", "shared_index", "missing_index", "late_name", "late_id"),
        *("empty_ids", "missing_ids", "many_fragments", "unknown_stop_reason"),
        *("usage", "usage_totals", "usage_after_end", "unknown_member", "unknown_block"),
        *("missing_end_marker", "reused_encoder", "seal_only_to_its_model", "seal_with_two_calls"),
    }
    reasons = ask_the_kit("--reasons")
    assert reasons.keys() == unasked
    assert reasons["late_id"] == "the protocol cannot express: a part of a call: it is one line"


def test_an_agent_can_rely_on_the_wire_in_the_examples() -> None:
    assert ask_the_kit("--streams")["partial_after_error"] == "ok"
