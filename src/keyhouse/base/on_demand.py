"""Packages that import what they offer when it is first used: importing them takes no time."""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def on_demand(
    package: str, modules: "Mapping[str, str]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.

    ``modules``: each module with the names that it gives, between spaces; ``a:b`` offers its ``b``
    as ``a``. The same imports under ``if TYPE_CHECKING`` tell type checkers and editors of them.
    """
    places = {
        name: (module, own or name)
        for module, names in modules.items()
        for name, _, own in (each.partition(":") for each in names.split())
    }

    def found(name: str) -> "Any":
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = places[name]
        value = getattr(import_module(module), own)
        setattr(sys.modules[package], name, value)  # from now on it is found at once
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return found, listed, sorted(places)
