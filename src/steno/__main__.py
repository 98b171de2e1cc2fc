"""The entry point of `python -m steno`, which runs the `steno` command."""

import sys

from steno.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
