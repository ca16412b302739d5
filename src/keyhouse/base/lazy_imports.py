"""Packages that import a public name at its first use, so importing the package is cheap."""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def on_demand(
    package: str, modules: "Mapping[str, str]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__`` of ``package``.

    With these three, the first use of a public name imports the module that defines the name.
    ``modules`` maps each module to its public names, separated by spaces. ``a:b`` in place of a
    name exports the name ``b`` of the module as ``a``. Type checkers cannot read this table, so
    ``package`` repeats the imports under ``if TYPE_CHECKING``.
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
        setattr(sys.modules[package], name, value)  # Python finds it there the next time
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return found, listed, sorted(places)
