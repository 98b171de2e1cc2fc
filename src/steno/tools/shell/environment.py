"""The environment variables that commands inherit: only harmless ones, and those that users name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from steno.secret_names import is_secret_name

PASSED_VARIABLES: Final = (
    # The user and the machine.
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    # Locations and versions of language toolchains.
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NVM_DIR", "NVM_BIN", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR"),
    *("GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME"),
    *("NIX_PATH", "NIX_PROFILES", "LOCALE_ARCHIVE"),
)
"""Names of environment variables that commands inherit; `*` matches any suffix."""
EVALUATED_VARIABLES: Final = frozenset(
    ("BASH_ENV", "BASHOPTS", "CDPATH", "ENV", "GLOBIGNORE", "POSIXLY_CORRECT", "SHELLOPTS")
)
"""Variables that change what a shell does with a command line that was decided about."""
_FUNCTION_PREFIX: Final = "BASH_FUNC_"
FIXED_VARIABLES: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    # Commands have no terminal: a pager or a password prompt would wait forever.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


def build_environment(environ: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment variables of a command.

    `extra` adds names and patterns of variables to inherit. A variable whose name looks like a
    secret is inherited only if its full name is listed; patterns do not match it. A variable that
    changes how a shell reads the command is never inherited.
    """
    patterns = (*PASSED_VARIABLES, *extra)
    passed = {
        name: value
        for name, value in environ.items()
        if not (name in EVALUATED_VARIABLES or name.startswith(_FUNCTION_PREFIX))
        and (
            name in patterns
            or (not is_secret_name(name) and any(fnmatchcase(name, each) for each in patterns))
        )
    }
    return {"PATH": os.defpath, **passed, **FIXED_VARIABLES}
