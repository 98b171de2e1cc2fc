"""The same workspace as for tools, and a folder next to it that no test may change."""

from tests.tools.conftest import folder, outside, workspace

__all__ = ["folder", "outside", "workspace"]
