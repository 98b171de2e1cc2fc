"""Replay a recorded session offline, or repeat its input with another model."""

from steno.agent.replay.comparison import RecordedResults, rerun
from steno.agent.replay.verify import replay

__all__ = ["RecordedResults", "replay", "rerun"]
