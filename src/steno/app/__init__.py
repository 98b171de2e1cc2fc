"""The application without an interface: settings, a session, its commands and reports."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.app.settings import Settings
    from steno.app.settings_loader import LoadedSettings, load_settings

__all__ = [
    "LoadedSettings",
    "Settings",
    "load_settings",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.app.settings": ("Settings",),
        "steno.app.settings_loader": ("LoadedSettings", "load_settings"),
    },
)
