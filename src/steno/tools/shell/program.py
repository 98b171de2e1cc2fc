"""How a small program of ours is run: by itself, and by nothing that others have set up."""

from __future__ import annotations

import sys


def run_alone(file: str) -> tuple[str, ...]:
    """Return a command line for a file that needs Python alone: no settings, no packages."""
    return (sys.executable, "-I", "-S", file)
