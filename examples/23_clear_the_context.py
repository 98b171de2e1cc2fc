"""Empty the context of a conversation; the log keeps every entry.

Export the conversation to a file, and read the file again.
"""

from steno import ChatMessage, Conversation
from steno.context import ContextBuilder, ModelTarget
from steno.formats import FORMATS, detect_format
from steno.records import Header


def sent_texts(conversation: Conversation) -> list[str]:
    """Return the texts of the messages that a model would receive."""
    built = ContextBuilder().build(conversation.entries(), ModelTarget(model="some-model"))
    return [message.text or "" for message in built.request.messages]


conversation = Conversation([ChatMessage.system("Be brief."), ChatMessage.user("My name is Ada.")])
conversation.append(ChatMessage.assistant("Hello, Ada."))
cleared = conversation.clear()
conversation.append(ChatMessage.user("What is my name?"))

print("sent:", sent_texts(conversation))
print("in the log:", [type(entry.payload).__name__ for entry in conversation.entries()])

exported = FORMATS["rows"].encode(Header(id="names"), conversation.entries())
imported = FORMATS[detect_format(exported.data)].decode(exported.data)
print("in the file:", [type(entry.payload).__name__ for entry in imported.entries])

assert cleared.parent is not None
conversation.rewind(cleared.parent)
print("after a rewind:", sent_texts(conversation))
