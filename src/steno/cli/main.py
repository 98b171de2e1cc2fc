"""Read the command line, run one command, turn errors into words and an exit status.

0  done
1  it could not be done: the message on stderr says why
2  the command line makes no sense
3  done, but not without loss (where that was forbidden)
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from steno import StenoError, __version__
from steno.cli import wires

FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except StenoError as exc:
        print(f"steno: {exc}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has gone: say nothing, and keep Python from trying again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as exc:
        print(f"steno: {exc.filename or 'input'}: {exc.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steno",
        description="Keep, translate and replay what a person, a model and tools say to each other.",
        epilog="'steno COMMAND --help' tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"steno {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wires.add_commands(commands)
    return parser
