"""The same workspace as for tools, beside a folder that nobody may touch."""

from tests.tools.conftest import folder, outside, workspace

__all__ = ["folder", "outside", "workspace"]
