"""A server of the older protocol without the SDK: it writes what no SDK would let it write.

Modes: `hang` reads nothing and says nothing, `exit` says why on stderr and ends, `loop` lists the
same page for ever, `long` one of many megabytes, `strict` ends unless it is initialized first.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import count
from typing import Any

ODD_TOOLS = [
    {"name": "good", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "listed", "inputSchema": ["not", "an", "object"], "description": 7},
    {"name": "", "inputSchema": {"type": "object"}},
    "no tool at all",
]


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(id: Any, result: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}))


def read() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)


def call(id: Any, tool: str, arguments: dict[str, Any]) -> None:
    match tool:
        case "deep":
            write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"x":{"[" * 300 + "]" * 300}}}}}')
        case "halves":
            text = '[{"type":"text","text":"a\\ud800b"}]'
            write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":{text}}}}}')
        case "long":
            write(
                f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"x":"{"y" * (40 << 20)}"}}}}'
            )
        case "new":
            answer(id, {"content": [{"type": "hologram", "data": [1]}, 3], "isError": True})
        case "number":
            write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":{{"n":NaN}}}}}}')
        case "pester":
            for number in count():
                write(json.dumps({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"}))
        case "sample":
            write(
                '{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{'
                '"maxTokens":1,"messages":[]}}'
            )
            answer(id, {"content": [], "structuredContent": read()})
        case "spawn":
            program = (
                "import sys, time; f = open(sys.argv[1], 'w'); print(flush=True); time.sleep(600)"
            )
            command = [sys.executable, "-c", program, arguments["fifo"]]
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
            answer(id, {"content": []})
        case "stray":
            write("Debugger attached.")
            write('{"level": "info"}')
            answer(9999, {"content": [{"type": "text", "text": "nobody asked"}]})
            answer(id, {"content": [{"type": "text", "text": "fine"}]})
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            answer(id, {"content": []})
            signal.pause()
        case _:
            raise ValueError(tool)


def serve(mode: str) -> None:
    for number in count():
        message = read()
        if mode == "strict" and number == 0 and message["method"] != "initialize":
            sys.exit("expected initialize")
        id = message.get("id")
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "plain", "version": "1"}
                capabilities: dict[str, Any] = {"tools": {}}
                answer(
                    id,
                    {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
                )
            case "tools/list" if mode == "loop":
                answer(id, {"tools": ODD_TOOLS[:1], "nextCursor": "again"})
            case "tools/list" if mode == "long":
                tool = {"name": "long", "inputSchema": {}, "description": "x" * (10 << 20)}
                answer(id, {"tools": [tool], "nextCursor": "again"})
            case "tools/list":
                answer(id, {"tools": ODD_TOOLS})
            case "tools/call":
                call(id, message["params"]["name"], message["params"].get("arguments", {}))
            case _ if id is not None:
                error = {"code": -32601, "message": "no such method"}
                write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))
            case _:
                pass


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hang"]:
            signal.pause()
        case ["exit"]:
            sys.stderr.write("I need a \x1b[31mlicence\x1b[0m with key hunter2hunter2\n")
            sys.exit(3)
        case [*mode]:
            serve(mode[0] if mode else "")
