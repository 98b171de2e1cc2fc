"""Replay of a recorded session, and a rerun of it on another model."""
