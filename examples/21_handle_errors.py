"""Tell errors, changes and results apart by their codes; the sentences are for people."""

import asyncio

from steno import ChatMessage, Conversation, Request, StenoError, Thinking, ToolCall, open_store
from steno.agent import Agent, Gate, Permissions, ResultCode
from steno.log import result_code
from steno.messages import AssistantMessage, ToolResultMessage
from steno.render import describe_change
from steno.testing import ScriptedProvider, ScriptedTool
from steno.wire import openai_chat


def show_errors() -> None:
    """Errors have a code and a place, which stay the same in every version."""
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
    """What a provider does not get as it is on record has a code and a reason."""
    thought = AssistantMessage(content=(Thinking("Hm."),))
    request = Request(
        model="m", messages=(ChatMessage.user("Why?"), thought, ChatMessage.user("So?"))
    )
    for change in openai_chat.encode_request(request).losses:
        print(f"  {change.place}: {change.code}, {change.reason}")
        print(f"    for people: {describe_change(change)}")


async def show_results() -> None:
    """A result that the agent wrote itself, for a call that did not run, has a code."""
    call = ToolCall.create("deploy", {}, id="c1")
    provider = ScriptedProvider([ChatMessage.assistant(None, [call]), "Then not."])
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
