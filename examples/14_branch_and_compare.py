"""Send the same prompt to two models, each in its own branch, and compare the responses.

The branches share the entries before the fork, and no others.
"""

import asyncio
from difflib import unified_diff

from steno import ChatMessage, Conversation, Usage
from steno.agent import Agent
from steno.log import total_usage
from steno.ports import Provider
from steno.testing import ScriptedProvider

PROMPT = "How do I sort a list without changing it?"


def scripted(text: str, tokens: int) -> Provider:
    """Return a provider with one response; `steno.providers.connect` returns real ones."""
    usage = Usage(input_tokens=20, output_tokens=tokens)
    return ScriptedProvider([ChatMessage.assistant(text, usage=usage)])


models = {
    "small": scripted("Use list.sort().\nIt is fast.\n", 9),
    "large": scripted("Use sorted(list).\nIt is fast.\nThe list does not change.\n", 18),
}


async def ask_both(conversation: Conversation) -> None:
    fork = conversation.append(ChatMessage.user(PROMPT))
    for name, provider in models.items():
        conversation.fork(name, at=fork.id)
        conversation.switch(name)
        await Agent(provider, conversation, model=f"example/{name}").run()


conversation = Conversation([ChatMessage.system("Answer in a line or two.")])
asyncio.run(ask_both(conversation))

responses: dict[str, list[str]] = {}
for branch in models:
    entries = conversation.entries(branch)
    responses[branch] = (conversation.messages(branch)[-1].text or "").splitlines()
    print(f"{branch}: {len(entries)} entries, {total_usage(entries).output_tokens} output tokens")
print(
    *unified_diff(responses["small"], responses["large"], "small", "large", lineterm=""), sep="\n"
)

conversation.switch("large")
conversation.append(ChatMessage.user("And in reverse order?"))
print("\nactive branch:", conversation.branch, "of", list(conversation.branches))
print("messages in small:", len(conversation.messages("small")))
