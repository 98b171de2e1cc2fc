"""Public names of a package that are loaded when they are first used.

A package lists its names in `__all__`, imports them under `TYPE_CHECKING` for type checkers and
import-linter, and sets `__getattr__ = lazy_exports(...)` with the same names. Importing the package
then stays cheap, even if its modules are slow to load.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, names_by_module: Mapping[str, Sequence[str]]
) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: each name comes from a module below `steno`.

    The package also gets a `__dir__` that lists the names that are not loaded yet.
    """
    modules = {name: module for module, names in names_by_module.items() for name in names}
    members = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        members[name] = value  # from now on Python finds it without `__getattr__`
        return value

    members["__dir__"] = lambda: sorted({*members, *modules})
    return load
