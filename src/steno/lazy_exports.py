"""Lazy loading of the public names of a package.

A package lists its names in `__all__`, imports them under `TYPE_CHECKING` for type checkers and
import-linter, and sets `__getattr__ = lazy_exports(...)` with the same names. Importing the package
is then fast, even if its modules are slow to load.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, names_by_module: Mapping[str, Sequence[str]]
) -> Callable[[str], object]:
    """Return a package's `__getattr__`, which imports each name from its module on first use.

    Also set a `__dir__` on the package that includes the names that are not loaded yet.
    """
    modules = {name: module for module, names in names_by_module.items() for name in names}
    members = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        members[name] = value  # later lookups do not call `__getattr__`
        return value

    members["__dir__"] = lambda: sorted({*members, *modules})
    return load
