"""Give every test of the application an empty home folder."""

from tests.cli.conftest import home

__all__ = ["home"]
