"""Distinguish errors, changes and results by their codes.

Codes stay the same in every version; the sentences are for people and may change.
"""

import asyncio

from steno import ChatMessage, Conversation, Request, StenoError, Thinking, ToolCall, open_store
from steno.agent import Agent, Gate, Permissions, ResultCode
from steno.log import result_code
from steno.messages import AssistantMessage, ToolResultMessage
from steno.render import describe_change
from steno.testing import ScriptedProvider, ScriptedTool
from steno.wire import openai_chat


def show_errors() -> None:
    """Print the code and the place of three errors."""
    with open_store("memory:") as store:
        for action in (
            lambda: store.open("monday"),
            lambda: open_store("cloud:"),
            lambda: ToolCall(id="", name="read"),
        ):
            try:
                action()
            except StenoError as error:
                print(f"  {type(error).__name__}: code {error.code}, place {error.place or '-'}")


def show_changes() -> None:
    """Print the code and the reason of each difference between a request and its history."""
    thinking = AssistantMessage(content=(Thinking("It depends."),))
    request = Request(
        model="m",
        messages=(ChatMessage.user("Why?"), thinking, ChatMessage.user("Please continue.")),
    )
    for change in openai_chat.encode_request(request).losses:
        print(f"  {change.place}: {change.code}, {change.reason}")
        print(f"    as a sentence: {describe_change(change)}")


async def show_results() -> None:
    """Print the code of a result that the agent wrote because the call did not run."""
    call = ToolCall.create("deploy", {}, id="c1")
    provider = ScriptedProvider([ChatMessage.assistant(None, [call]), "I did not deploy it."])
    conversation = Conversation()
    gate = Gate(Permissions.of(deny=["deploy"]))
    agent = Agent(provider, conversation, tools=[ScriptedTool("deploy", [])], gate=gate)
    await agent.run("Deploy it.")
    for entry in conversation.entries():
        if isinstance(entry.payload, ToolResultMessage):
            code = result_code(entry.payload)
            print(f"  {entry.payload.tool_call_id}: {code}", code == ResultCode.DENIED_BY_RULE)


print("errors")
show_errors()
print("changes")
show_changes()
print("results")
asyncio.run(show_results())
