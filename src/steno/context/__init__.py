"""Build the request for a model from a log, and report every change to the messages.

    builder = ContextBuilder()
    built = builder.build(conversation.entries(), ModelTarget(model="…", context_tokens=200_000))
    built.request, built.changes

The package uses no clock, no files and no network. A builder caches the state of one conversation,
so that each turn processes only the new entries.
"""

from steno.context.branch_state import embed_references
from steno.context.builder import BuiltRequest, ContextBuilder, ModelTarget
from steno.context.notes import MODE_NOTES, explain_over_budget, summary_message
from steno.context.tokens import CountTokens, estimate_tokens, message_tokens, token_counter_for
from steno.context.window import RECENT_GROUPS, compaction_point, shorten_result
from steno.messages.change import Change, ChangeCode

__all__ = [
    "MODE_NOTES",
    "RECENT_GROUPS",
    "BuiltRequest",
    "Change",
    "ChangeCode",
    "ContextBuilder",
    "CountTokens",
    "ModelTarget",
    "compaction_point",
    "embed_references",
    "estimate_tokens",
    "explain_over_budget",
    "message_tokens",
    "shorten_result",
    "summary_message",
    "token_counter_for",
]
