"""What needs a newer Python than the oldest we support is collected there only."""

import sys

collect_ignore = [] if sys.version_info >= (3, 12) else ["test_type_parameters.py"]
