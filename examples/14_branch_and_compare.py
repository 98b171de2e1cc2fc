"""Ask two models the same question, each in a branch of its own, and compare what came of it.

The past is shared; what one branch says, the other never sees.
"""

import asyncio
from difflib import unified_diff

from steno import ChatMessage, Conversation, Usage
from steno.agent import Agent
from steno.log import total_usage
from steno.ports import Provider
from steno.testing import ScriptedProvider

QUESTION = "How do I sort a list without changing it?"


def answer(text: str, tokens: int) -> Provider:
    """Stand in for a model; `steno.providers.connect` has real ones."""
    usage = Usage(input_tokens=20, output_tokens=tokens)
    return ScriptedProvider([ChatMessage.assistant(text, usage=usage)])


models = {
    "small": answer("Use list.sort().\nIt is fast.\n", 9),
    "large": answer("Use sorted(list).\nIt is fast.\nThe list stays as it was.\n", 18),
}


async def ask_both(conversation: Conversation) -> None:
    fork = conversation.append(ChatMessage.user(QUESTION))
    for name, provider in models.items():
        conversation.fork(name, at=fork.id)
        conversation.switch(name)
        await Agent(provider, conversation, model=f"example/{name}").run()


conversation = Conversation([ChatMessage.system("Answer in a line or two.")])
asyncio.run(ask_both(conversation))

said: dict[str, list[str]] = {}
for branch in models:
    entries = conversation.entries(branch)
    said[branch] = (conversation.messages(branch)[-1].text or "").splitlines()
    print(f"{branch}: {len(entries)} entries, {total_usage(entries).output_tokens} tokens written")
print(*unified_diff(said["small"], said["large"], "small", "large", lineterm=""), sep="\n")

conversation.switch("large")
conversation.append(ChatMessage.user("And backwards?"))
print("\ngone on in", conversation.branch, "of", list(conversation.branches))
print("small still has", len(conversation.messages("small")), "messages")
