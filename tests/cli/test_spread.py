"""`steno decode` of answers that somebody made readable."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ANSWER = {"message": {"role": "assistant", "content": "Hi"}, "done": True, "done_reason": "stop"}


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_a_whole_answer_of_ollama_may_be_spread_over_many_lines(options: list[str]) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "steno", "decode", "--wire", "ollama_chat", *options],
        input=json.dumps(ANSWER, indent=2).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(told.stdout)["content"] == [{"type": "text", "text": "Hi"}]
