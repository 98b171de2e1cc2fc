"""The `steno` command: one file for each group of commands, loaded when it is asked for."""

from steno.cli.main import main

__all__ = ["main"]
