"""What a command gets to see of our environment: what it needs, and nothing that is secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

PASSED: Final = (
    # The user and the machine.
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    # Where tools of a language are, or which of them are in use.
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NVM_DIR", "NVM_BIN", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR"),
    *("GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME"),
    *("NIX_PATH", "NIX_PROFILES", "LOCALE_ARCHIVE"),
)
"""Names of variables that are handed on; `*` stands for any ending."""

SET: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    # Nobody is there to turn pages or to type a password.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}

_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|(^|_)(PAT|PWD?|DSN|JWT)$"
    r"|^(AWS|AZURE|GOOGLE|GCP|OPENAI|ANTHROPIC|HF)_|DATABASE_URL|PROXY",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Tell whether a variable of this name may hold a secret."""
    return _SECRET.search(name) is not None


def build_environment(environ: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables a command is run with.

    `extra` are more names to hand on. A name that looks like a secret is handed on only if it is
    written out in full there: no pattern covers it.
    """
    patterns = (*PASSED, *extra)
    passed = {
        name: value
        for name, value in environ.items()
        if name in patterns
        or (not is_secret_name(name) and any(fnmatchcase(name, each) for each in patterns))
    }
    return {"PATH": os.defpath, **passed, **SET}
