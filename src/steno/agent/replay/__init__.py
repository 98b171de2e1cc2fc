"""Replay of a recorded session, and a rerun of it on another model."""

from steno.agent.replay.comparison import RecordedResults, rerun
from steno.agent.replay.verify import replay

__all__ = ["RecordedResults", "replay", "rerun"]
