"""Store a conversation, and load files of older and newer versions.

Fields and blocks of newer versions are kept and written again.
"""

import logging
import sys

from steno import ChatMessage, ConversationHistory
from steno.codec import Document, decode_document, encode_document

logging.basicConfig(format="warning: %(message)s", stream=sys.stdout)

history = ConversationHistory([ChatMessage.system("Be kind."), ChatMessage.user("Hello!")])
print(encode_document(Document.of(history, id="first")).decode())

flat = '[{"role": "user", "content": "From a flat list"}, {"role": "assistant", "content": "Hi"}]'
print([message.text for message in decode_document(flat).messages])

session = """{"version": 1, "id": "s", "system_prompt": "Be kind.", "messages": [
  {"type": "user", "content": [{"type": "text", "text": "From a session file"}],
   "timestamp": "2026-02-18T12:00:00Z"}]}"""
for entry in decode_document(session).entries:
    print(entry.time, entry.message.text if entry.message else None)

newer = """{"version":2,"entries":[{"v":2,"id":"m1","payload":{"type":"user",
  "content":[{"type":"text","text":"Hi","mood":1.50},{"type":"scent","of":"rain"}]}}]}"""
document = decode_document(newer)
print("text:", document.messages[0].text)
print("unknown field kept:", '"mood":1.50' in (written := encode_document(document).decode()))
print("unknown block kept:", '{"type":"scent","of":"rain"}' in written)
