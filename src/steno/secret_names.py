"""The names of environment variables that hold secrets, such as API keys."""

from __future__ import annotations

import re
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|(^|_)(PAT|PWD?|DSN|JWT)$"
    r"|^(AWS|AZURE|GOOGLE|GCP|OPENAI|ANTHROPIC|HF)_|DATABASE_URL|PROXY",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable looks like that of a secret.

    The rule also matches some harmless names; a caller that needs them lists them.
    """
    return _SECRET_NAME.search(name) is not None
