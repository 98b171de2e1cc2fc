"""What a command of a person may look at: the session at hand, and everything it works with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from steno.app.compose import AgentEnvironment
from steno.app.settings_loader import LoadedSettings
from steno.log.conversation import Conversation
from steno.store import Store


class CommandContext(NamedTuple):
    """Everything around a session, as it is now."""

    loaded_settings: LoadedSettings
    folder: Path
    store: Store
    is_persistent: bool
    """Whether the store lasts; else everything is gone in the end."""
    environment: AgentEnvironment
    conversation: Conversation
    actor: str
