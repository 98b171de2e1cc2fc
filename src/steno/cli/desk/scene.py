"""What a command of a person may look at: the session at hand, and everything it works with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from steno.cli.compose import Equipment
from steno.cli.configuration import Loaded
from steno.conversation import Conversation
from steno.store import Store


class Scene(NamedTuple):
    """Everything around a session, as it is now."""

    loaded_settings: Loaded
    folder: Path
    store: Store
    is_persistent: bool
    """Whether the store lasts; else everything is gone in the end."""
    environment: Equipment
    conversation: Conversation
    actor: str
