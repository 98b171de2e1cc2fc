"""What a model gets to see of a log, and a report of everything that was changed on the way.

    builder = ContextBuilder()
    built = builder.build(conversation.entries(), Target(model="…", context_tokens=200_000))
    built.request, built.changes

Pure: no clock, no files, no network. A builder remembers what it worked out for a conversation,
so that a turn costs what is new in it.
"""

from steno.context.build import ContextBuilder
from steno.context.compacting import compaction_point
from steno.context.frames import MODE_NOTES, summary_message, too_long
from steno.context.line import KEPT_GROUPS, shortened
from steno.context.report import Built, Change, ChangeCode, Target
from steno.context.tokens import Count, counter_for, estimate_tokens, message_tokens

__all__ = [
    "KEPT_GROUPS",
    "MODE_NOTES",
    "Built",
    "Change",
    "ChangeCode",
    "ContextBuilder",
    "Count",
    "Target",
    "compaction_point",
    "counter_for",
    "estimate_tokens",
    "message_tokens",
    "shortened",
    "summary_message",
    "too_long",
]
