"""Decode recorded responses of real providers, encode recorded requests again, and count.

    STENO_CORPUS=/path/to/recordings make corpus

For each format: `<format>.jsonl` (recordings), `expected/<format>.jsonl` (reference results) and
`requests/<format>.jsonl`. An expected difference is listed in `differences.toml`, with its
reason; any other makes the run fail.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steno import Assembler, InvalidToolCall, ProviderError, StenoError, Thinking
from steno.messages.message import AssistantMessage
from steno.wire import WIRES, Wire, load_wire
from tests.corpus.formats import FORMATS, Format, counted

Record = dict[str, Any]
LISTED = Path(__file__).with_name("differences.toml")


def main() -> int:
    """Check the recordings in the folder STENO_CORPUS and print a table."""
    folder = Path(os.environ.get("STENO_CORPUS", ""))
    if not (folder / "expected").is_dir():
        print("corpus: set STENO_CORPUS to the folder with the recordings", file=sys.stderr)
        return 2
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8")) if LISTED.exists() else {}
    failures: list[str] = []
    print(
        f"{'format':18} {'answers':>8} {'equal':>6} {'explained':>10} {'requests':>9} {'equal':>6}"
    )
    for format in FORMATS:
        found = list(_compare_answers(format, folder))
        explained = [line for line in found if line.split(": ")[0] in listed]
        requests = list(_requests(format, folder))
        changed = [line for id, body in requests if (line := _send_back(format, id, body))]
        failures += [line for line in found if line not in explained] + changed
        total = len(_read(folder / f"{format.name}.jsonl"))
        differing = len({line.split(": ")[0] for line in found})
        print(
            f"{format.name:18} {total:8} {total - differing:6} {len(explained):10} "
            f"{len(requests):9} {len(requests) - len(changed):6}"
        )
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def _read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


# -- responses -----------------------------------------------------------------------------------


def _compare_answers(format: Format, folder: Path) -> Iterator[str]:
    expected = {record["id"]: record for record in _read(folder / f"expected/{format.name}.jsonl")}
    for record in _read(folder / f"{format.name}.jsonl"):
        want = _wanted(expected[record["id"]], format)
        body = record["response"].encode()
        got, error = _decode(format.wire, record, [body])
        yield from _differences(record["id"], got, error, want)
        if record["kind"] == "stream":
            for name, pieces in _cuts(body):
                if _decode(format.wire, record, pieces) != (got, error):
                    yield f"{record['id']}: another result with {name}"


def _cuts(body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    yield "single bytes", [body[at : at + 1] for at in range(len(body))]
    yield "pieces of 997 bytes", [body[at : at + 997] for at in range(0, len(body), 997)]
    lines = body.replace(b"\r\n", b"\n")
    yield "CRLF for LF", [lines.replace(b"\n", b"\r\n")]


def _decode(wire: Wire, record: Record, pieces: list[bytes]) -> tuple[Record, Record | None]:
    assembler = Assembler(new_id=lambda: "made_up")
    error: Record | None = None
    message: AssistantMessage | None = None
    try:
        if record["status"] >= 400:
            raise wire.decode_error(record["status"], b"".join(pieces))
        if record["kind"] == "stream":
            decoder = wire.StreamDecoder()
            for piece in pieces:
                for event in decoder.feed(piece):
                    assembler.feed(event)
            for event in decoder.close():
                assembler.feed(event)
        else:
            message = wire.decode_response(b"".join(pieces))
    except ProviderError as exc:
        error = {
            "status": exc.status,
            "type": exc.provider_type,
            "code": exc.provider_code,
            "message": exc.message,
        }
    except StenoError as exc:
        error = {"fault": str(exc)}
    return _told(message or assembler.message()), error


def _told(message: AssistantMessage) -> Record:
    thoughts = [block.text for block in message.content if isinstance(block, Thinking)]
    return {
        "text": message.text or "",
        "thinking": "".join(thoughts),
        "calls": [
            {
                "id": call.id,
                "name": getattr(call, "original_name", None) or call.name,
                "arguments": None if isinstance(call, InvalidToolCall) else call.parsed.to_dict(),
            }
            for call in message.tool_calls
        ],
        "stop": message.raw_stop_reason,
        "usage": counted(message.usage),
    }


def _wanted(expected: Record, format: Format) -> Record:
    calls = [
        {"id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        for call in expected["tool_calls"]
    ]
    return {
        "text": expected["text"],
        "thinking": expected["thinking"],
        "thinking_parts": expected.get("thinking_parts"),
        "calls": calls,
        "stop": None if (stop := expected["stop_reason_raw"]) is None else str(stop),
        "usage": format.expect_usage(expected["usage"]),
        "error": expected["error"],
    }


def _differences(id: str, got: Record, error: Record | None, want: Record) -> Iterator[str]:
    if want["thinking_parts"] is not None:
        want["thinking"] = "".join(want["thinking_parts"])
    if want["error"] is not None and error is not None:
        for name in ("message", "type", "code"):
            if str(error.get(name)) != str(want["error"].get(name)):
                yield f"{id}: error {name} is {error.get(name)!r}, not {want['error'].get(name)!r}"
    elif (want["error"] is None) != (error is None):
        yield f"{id}: error {error}, not {want['error']}"
    for call, wanted in zip(got["calls"], want["calls"], strict=False):
        wanted["id"] = wanted["id"] or call["id"]  # a decoder may generate an id
    for name in ("text", "thinking", "calls", "stop", "usage"):
        if got[name] != want[name]:
            yield f"{id}: {name} is {str(got[name])[:200]!r}, not {str(want[name])[:200]!r}"


# -- requests ------------------------------------------------------------------------------------


def _requests(format: Format, folder: Path) -> Iterator[tuple[str, Record]]:
    for record in _read(folder / f"requests/{format.name}.jsonl"):
        yield record["id"], record["request"]
    for record in _read(folder / f"{format.name}.jsonl"):
        if record["request"]:
            yield record["id"], record["request"]


def _send_back(format: Format, id: str, body: Record) -> str | None:
    text = json.dumps(body)
    try:
        request = format.wire.decode_request(text)
        back = format.wire.encode_request(request).json
        for name in WIRES:
            load_wire(name).encode_request(request)
    except StenoError as exc:
        return f"{id}: {exc}"
    place = _first_difference(body, back, "")
    return None if place is None else f"{id}: came back with another {place}"


def _first_difference(was: Any, now: Any, place: str) -> str | None:
    if isinstance(was, dict) and isinstance(now, dict):
        for name in was.keys() | now.keys():
            if name not in was or name not in now:
                return f"{place}.{name} (there only once)"
            found = _first_difference(was[name], now[name], f"{place}.{name}")
            if found is not None:
                return found
        return None
    if isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            return f"{place} (of {len(now)} elements, not {len(was)})"
        pairs = enumerate(zip(was, now, strict=True))
        found_in = (_first_difference(a, b, f"{place}[{number}]") for number, (a, b) in pairs)
        return next((found for found in found_in if found is not None), None)
    is_same = type(was) is type(now) or {type(was), type(now)} == {int, float}
    return None if is_same and was == now else place


if __name__ == "__main__":
    sys.exit(main())
