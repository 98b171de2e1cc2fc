"""Benchmark: convert the arguments of a call to the types that a tool expects."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import cycle
from typing import Literal

import msgspec
import pydantic

from bench.findings import Finding, compare, fact
from bench.harness import Case, Stopwatch
from steno import ToolCall

TEXT = json.dumps(
    {
        "path": "src/http/header.py",
        "edits": [
            {"start_line": 12, "end_line": 14, "text": "    if not separator:\n        return\n"},
            {"start_line": 40, "end_line": 40, "text": "# the order matters\n"},
            {"start_line": 77, "end_line": 80, "text": ""},
        ],
        "mode": "replace",
        "options": {"encoding": "utf-8", "keep_line_endings": True},
        "timeout_s": 2.5,
        "reason": "headers without a colon are refused now",
    }
)
COUNTING = """
import json, sys
import msgspec.json

TEXT = {text!r}
reads = 0

def counting(read):
    def wrapper(data, *rest, **options):
        global reads
        reads += data in (TEXT, TEXT.encode())
        return read(data, *rest, **options)
    return wrapper

class Decoder:
    def __init__(self, *rest, **options):
        self.decode = counting(RealDecoder(*rest, **options).decode)

RealDecoder, msgspec.json.Decoder = msgspec.json.Decoder, Decoder
msgspec.json.decode, json.loads = counting(msgspec.json.decode), counting(json.loads)
import steno

class EditFile(msgspec.Struct):
    path: str
    edits: list[dict[str, int | str]]

call = steno.ToolCall(id="call_1", name="edit_file", arguments=TEXT)
for _ in range(3):
    call.arguments_as(EditFile)
    call.get("path", str)
    call.parsed.to_dict()
print(reads)
"""
Mode = Literal["replace", "insert", "delete"]


class Edit(msgspec.Struct):
    start_line: int
    end_line: int
    text: str


class Options(msgspec.Struct):
    encoding: str
    keep_line_endings: bool = False


class EditFile(msgspec.Struct):
    path: str
    edits: list[Edit]
    mode: Mode
    options: Options
    timeout_s: float = 10.0
    reason: str | None = None


class PydanticEdit(pydantic.BaseModel):
    start_line: int
    end_line: int
    text: str


class PydanticOptions(pydantic.BaseModel):
    encoding: str
    keep_line_endings: bool = False


class PydanticEditFile(pydantic.BaseModel):
    path: str
    edits: list[PydanticEdit]
    mode: Mode
    options: PydanticOptions
    timeout_s: float = 10.0
    reason: str | None = None


def run(watch: Stopwatch) -> list[Finding]:
    """Time the conversion with and without parsing, and count how often the text is parsed."""
    return [*_convert(watch), *_convert_from_text(watch), _count_parses()]


def _convert(watch: Stopwatch) -> list[Finding]:
    call, parsed = _make_call(), json.loads(TEXT)
    whole, one, from_dict, from_text = watch.measure(
        "arguments: convert",
        [
            Case("steno", lambda: call.arguments_as(EditFile)),
            Case("steno get", lambda: call.get("path", str)),
            Case("pydantic model_validate", lambda: PydanticEditFile.model_validate(parsed)),
            Case(
                "pydantic model_validate_json", lambda: PydanticEditFile.model_validate_json(TEXT)
            ),
        ],
    )
    return [
        *compare("arguments_as(Type) of a call", whole, from_dict, from_text, faster=3),
        Finding('get("path", str) of a call', one),
    ]


def _convert_from_text(watch: Stopwatch) -> list[Finding]:
    # Each call has a different text, so that no cache has parsed it before.
    texts = cycle([TEXT[:-1] + " " * count + "}" for count in range(1_000)])
    ours, theirs = watch.measure(
        "arguments: make the call and convert",
        [
            Case("steno", lambda: _make_call(next(texts)).arguments_as(EditFile)),
            Case(
                "pydantic model_validate_json",
                lambda: PydanticEditFile.model_validate_json(next(texts)),
            ),
        ],
    )
    return compare("make the call, then arguments_as(Type)", ours, theirs)


def _make_call(text: str = TEXT) -> ToolCall:
    return ToolCall(id="call_1", name="edit_file", arguments=text)


def _count_parses() -> Finding:
    """Use one call in every way, and count how often any decoder reads its JSON.

    This runs in a fresh interpreter, where every decoder can be replaced by one that counts.
    """
    code = COUNTING.format(text=TEXT)
    command = [sys.executable, "-I", "-c", code]
    count = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    work = "times one call's JSON is read in 9 uses: a scan when made, a parse when used"
    return fact(work, str(count), goal="2", met=count == 2)
