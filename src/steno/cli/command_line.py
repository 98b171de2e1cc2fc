"""Read options in our words: what is wrong stands in one line, the last, and it is ours.

Argparse prints all of a usage before it, and that of another command for an option that there is
not. Here the command that is meant answers, with what may be meant; its help has the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, final

from steno.cli.nearest import advice, meant
from steno.printable import cut, on_one_line

WRONG: Final = 2
"""The exit status where a command line makes no sense."""
_LONGEST: Final = 40


@final
class CommandLine(argparse.ArgumentParser):
    """The options of a command; those of its subcommands are of the same kind."""

    def __init__(self, **settings: Any) -> None:
        """Take what argparse takes. Options are written in full: `--all` is no `--allow`."""
        super().__init__(allow_abbrev=False, **settings)

    # What is given and returned is what argparse says; only its overloads are not repeated here.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and exit if anything is not known: nothing is left over."""
        given = sys.argv[1:] if args is None else list(args)
        self._check_options(given)
        parsed, left = super().parse_known_args(given, namespace)
        if left:
            self._refuse(next((text for text in left if text.startswith("-")), left[0]))
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit."""
        rule = message.removeprefix("argument ")
        self.exit(WRONG, f"usage: {self.prog} ... (see '{self.prog} --help')\nsteno: {rule}\n")

    def _check_options(self, given: Sequence[str]) -> None:
        """Refuse long options that there are not, before argparse misses something else."""
        commands = [name for action in self._actions for name in _commands_of(action)]
        for text in given:
            if text == "--" or text in commands:  # what follows is for somebody else
                return
            name = text.partition("=")[0]
            is_option = text.startswith("--") and " " not in name
            if is_option and name not in self._option_string_actions:
                self._refuse(name)

    def _refuse(self, text: str) -> NoReturn:
        shown = _shown(text)
        if not text.startswith("-"):
            self.error(
                f"{shown}: nothing is expected there; what has blanks in it has to be in quotes"
            )
        near = meant(text, [name for name in self._option_string_actions if name[:2] == "--"])
        self.error(f"there is no option {shown}" + (f"; do you mean {near}?" if near else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices; argparse would quote Python at people."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if _commands_of(action):
            raise argparse.ArgumentError(
                None, f"there is no command {_shown(value)}; {advice(value, names)}"
            )
        rule = f"must be {' or '.join(names)}, not {_shown(value)}"
        raise argparse.ArgumentError(action, rule)


def _commands_of(action: argparse.Action) -> Sequence[str]:
    choices: object = action.choices
    return list(choices) if isinstance(choices, Mapping) else ()  # what `add_subparsers` makes


def _shown(text: object) -> str:
    return cut(on_one_line(str(text)), _LONGEST)
