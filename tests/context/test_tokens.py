"""How many tokens something takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import steno
from steno.context import estimate_tokens, token_counter_for

SOURCES = sorted(Path(steno.__file__).parent.glob("*.py"))


def test_nothing_takes_no_tokens() -> None:
    assert estimate_tokens("") == 0


@pytest.mark.parametrize("model", ["gpt-4", "gpt-5"])
def test_the_estimate_is_slightly_above_the_exact_count(model: str) -> None:
    count = token_counter_for(model)
    prose = "Большая часть текста на свете не написана по-английски. 日本語の文章もある。"
    code = "".join([path.read_text(encoding="utf-8") for path in SOURCES])
    assert count(code) < estimate_tokens(code) < 1.6 * count(code)
    assert count(prose) <= estimate_tokens(prose)


def test_models_of_openai_are_counted_exactly_for_every_vendor() -> None:
    assert token_counter_for("gpt-4o-mini")("日本語 hello") == 3
    assert token_counter_for("openai/gpt-4o")("hello world") == 2
    assert token_counter_for("GPT-4")("<|endoftext|>") == 7
    assert token_counter_for("gpt-4")("日本語") != token_counter_for("gpt-4.1")("日本語の文章を")


@pytest.mark.parametrize("model", ["", "claude-opus-4", "llama3", "own/o200k"])
def test_models_without_a_known_vocabulary_are_estimated(model: str) -> None:
    assert token_counter_for(model) is estimate_tokens


def test_without_the_counter_everything_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rs_bpe", None)
    assert token_counter_for("gpt-5") is estimate_tokens
