"""A chat file that is read is written as the same JSON, whatever it contains."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from steno.formats import FORMATS, build_records, detect_format
from steno.ids import new_id
from steno.store import open_store

FILES = r"""
[{"role":"user","content":"hi","name":"ada","x":{"a":[1,2.50,1e3]}}]
[{"role":"USER","content":"hi"},{"role":"developer","content":"hi"}]
[{"role":"user","content":null},{"role":"user"},{"role":"user","content":"  "}]
[{"role":"assistant"},{"role":"assistant","content":""},{"role":"user","content":"x"}]
[{"role":"assistant","tool_calls":[]},{"role":"assistant","tool_calls":null,"content":"x"}]
[{"role":"assistant","content":"","tool_calls":[{"id":"c1","name":"fs.read","arguments":{"path":"a"}}]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"fs.read","arguments":{}},{"id":"c2","type":"function","function":{"name":"get-sum","arguments":"{\"a\":1}"}}]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get-sum","arguments":"not json"}}]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"","arguments":"{}"}}]}]
[{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"x"}},5,null]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"x","arguments":null},{"id":"c2","name":"x","arguments":[1]}]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"x","arguments":{"n":1.0,"big":123456789012345678901234567890,"e":1E5}}]}]
[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"x","arguments":{},"index":0,"extra":true}]}]
[{"role":"assistant","content":null,"function_call":{"name":"x","arguments":"{}"}}]
[{"role":"assistant","content":"t","refusal":null,"audio":null,"reasoning_content":"hm"}]
[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]
[{"role":"user","content":["a","b"]},{"role":"user","content":{"a":1}},{"role":"user","content":5}]
[{"role":"tool","tool_call_id":"c1","content":""},{"role":"tool","tool_call_id":"c1","content":null},{"role":"tool","content":"a"}]
[{"role":"tool","tool_call_id":"c1","name":"fs.read","content":"a","is_error":false}]
[{"role":"system","content":"a"},{"role":"system","content":"b"},{"role":"weird","content":"c"}]
["text",{"role":"user","content":"x"},5,null,[1],{"content":"a"}]
[{"role":"user","content":"a","usage":{"input_tokens":1},"outcome":"ok","extras":{"a":1},"type":"x"}]
[{"role":"tool","tool_call_id":"c1","content":"a","outcome":"denied","duration_s":3,"tool_name":"q"}]
[ { "role" : "user" ,   "content" : "a\/b é \ud83d\ude00 \u0000" } ]
{"messages":[],"model":"x","temperature":0.70}
{"version":0,"id":"abc","created_at":"2026-02-10T15:30:06Z","title":"T","messages":[{"role":"user","content":"x"}]}
{"id":5,"created_at":"yesterday","messages":[{"role":"user","content":"x"}]}
{"system_prompt":"Be brief.","messages":[{"role":"system","content":"also"},{"role":"user","content":"x"}]}
{"system_prompt":["a"],"messages":[{"role":"user","content":"x"}]}
{"role":"user","content":"x","messages":[{"role":"user","content":"y"}]}
{"role":"user","content":"x","id":"m1","version":0}
{"role":"assistant","tool_calls":[{"id":"c1","name":"a","arguments":{}}]}
""".strip().splitlines()


def parse(data: bytes | str) -> Any:
    """Parse JSON with the numbers as they are written."""
    return json.loads(data, parse_float=str, parse_int=str)


@pytest.mark.requirement("FR-004a-23", "FR-004a-24")
@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_a_chat_file_comes_back_from_a_store(text: str) -> None:
    assert detect_format(text.encode()) == "chat"
    imported = FORMATS["chat"].decode(text.encode())
    header = replace(imported.header, id=new_id())
    with open_store("memory:") as store:
        store.add_session(header, build_records(imported.entries))
        entries = store.open(header.id).entries()
    assert parse(FORMATS["chat"].encode(header, entries).data) == parse(text)
