"""Test your own code with generated conversations (needs `steno-agent[testing]`).

Hypothesis searches for a conversation that breaks the function under test.
"""

from hypothesis import given, settings

from steno import Message, MessageRole
from steno.testing import conversations


def last_prompt(messages: list[Message]) -> str:
    """Return the text of the last user message: the function under test."""
    for message in reversed(messages):
        if message.role is MessageRole.USER:
            return message.text or ""
    return ""


@settings(max_examples=50, database=None, derandomize=True)
@given(conversations())
def test_last_prompt_is_from_the_user(messages: list[Message]) -> None:
    prompts = [message.text or "" for message in messages if message.role is MessageRole.USER]
    assert last_prompt(messages) == (prompts[-1] if prompts else "")


test_last_prompt_is_from_the_user()
print("50 conversations tested, no counterexample found")
