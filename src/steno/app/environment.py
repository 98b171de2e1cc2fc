"""The environment of the user, and that of this process, which the command keeps free of keys.

`os.environ` is what every program inherits that is started without an environment of its own, and
what a library or a crash report may print. The command therefore removes the keys from it when it
starts, and everything that needs keys reads `user_environment` instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, final

from steno.secret_names import is_secret_name

_KEPT_VARIABLES: Final = (
    # Libraries read these themselves: libpq its password, the SDK of OpenTelemetry the headers of
    # its exporters, and HTTP clients, such as that of MCP servers, a proxy, perhaps with a password.
    *("PG*", "OTEL_*", "*_PROXY"),
    # The names of these only look like secrets. Programs for the clipboard need the first three.
    *("XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "SECURITYSESSIONID", "XDG_SESSION_*"),
    *("PWD", "SSLKEYLOGFILE", "TEXTUAL_*"),
)
"""Names of variables that stay in `os.environ`, in capitals; `*` matches any characters."""


@final
class _HiddenVariables:
    """The variables that were removed from `os.environ`."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.hides_keys = False
        """Whether this process is the command, which owns its environment."""


_HIDDEN: Final = _HiddenVariables()


def user_environment() -> dict[str, str]:
    """Return the environment that the user started this process with, including keys.

    Pass it to what needs keys, and to the user's own shell; never to another program.
    """
    return {**_HIDDEN.values, **os.environ}


def hide_keys() -> frozenset[str]:
    """Remove the variables that look like secrets from `os.environ`; return their names.

    Call it once, at the start of a process whose environment nobody else uses.
    """
    _HIDDEN.hides_keys = True
    names = [name for name in os.environ if is_secret_name(name) and not _is_kept(name)]
    hide_variables(names)
    return frozenset(names)


def hide_variables(names: Iterable[str]) -> None:
    """Remove more variables from `os.environ`, such as those that settings name as keys.

    It has no effect unless `hide_keys` was called: the environment of a program that uses steno as
    a library is left alone.
    """
    if not _HIDDEN.hides_keys:
        return
    for name in names:
        if name in os.environ:
            _HIDDEN.values[name] = os.environ.pop(name)


def _is_kept(name: str) -> bool:
    return any(fnmatchcase(name.upper(), kept) for kept in _KEPT_VARIABLES)
