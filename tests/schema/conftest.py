"""Collect the tests that need a newer Python only on that Python."""

import sys

collect_ignore = [] if sys.version_info >= (3, 12) else ["test_type_parameters.py"]
