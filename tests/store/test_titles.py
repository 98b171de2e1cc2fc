"""The title of a session that has none of its own."""

from __future__ import annotations

from steno import ChatMessage
from steno.store import MemoryStore


def test_the_title_of_a_session_is_its_first_prompt() -> None:
    store = MemoryStore()
    messages = [ChatMessage.system("Work."), ChatMessage.user("How  many\nare there?")]
    assert store.summary(store.new(messages).id).title == "How many are there?"


def test_a_rewound_prompt_is_the_title_only_if_there_is_no_other() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("Work.")])
    begin = conversation.entries()[0].id
    conversation.append(ChatMessage.user("Explain @mian.py"))
    conversation.rewind(begin)
    assert store.summary(conversation.id).title == "Explain @mian.py"
    conversation.append(ChatMessage.user("Explain @main.py"))
    conversation.append(ChatMessage.assistant("It adds."))
    assert store.summary(conversation.id).title == "Explain @main.py"
