"""Test your own code against every conversation there could be (needs `steno[testing]`)."""

from hypothesis import given, settings

from steno import Message, MessageRole
from steno.testing import conversations


def last_words(messages: list[Message]) -> str:
    """Return what the user said last: the function under test."""
    for message in reversed(messages):
        if message.role is MessageRole.USER:
            return message.text or ""
    return ""


@settings(max_examples=50, database=None, derandomize=True)
@given(conversations())
def test_last_words_come_from_the_user(messages: list[Message]) -> None:
    said = [message.text or "" for message in messages if message.role is MessageRole.USER]
    assert last_words(messages) == (said[-1] if said else "")


test_last_words_come_from_the_user()
print("50 conversations, no counterexample")
