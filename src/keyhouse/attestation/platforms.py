"""Finds the platform that was asked for by name.

Only the name that the caller passes counts: no environment variable, file or quote chooses a
platform, and none is ever taken in place of another.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from keyhouse.attestation.platform import Platform
from keyhouse.wire.errors import NotYet, Refused

__all__ = ["PLATFORMS", "PlatformMissing", "open_platform"]

PLATFORMS = ("gramine", "tdx", "simulation")
"""The names that can be asked for."""

_GROUP = "keyhouse.platforms"
_SIMULATION = "keyhouse_simulation:open_platform"


class PlatformMissing(Refused):
    """No such platform, or the distribution that has it is not installed."""

    code = "platform-missing"


def open_platform(name: str, state_dir: Path) -> Platform:
    """Return the platform ``name``; it may keep a folder of its own name under ``state_dir``.

    Raises ``PlatformMissing`` for names that are unknown or not installed, ``NotYet`` for those
    to come, and whatever refusals the platform itself has.
    """
    if name == "simulation":
        return _simulation()(state_dir / "simulation")
    if name in PLATFORMS:
        raise NotYet(
            f"the platform {name} cannot be used in this version",
            hint="only simulation can, which protects nothing: try out with --platform simulation",
        )
    raise PlatformMissing(
        "there is no platform of that name", hint=f"known are {', '.join(PLATFORMS)}"
    )


def _simulation() -> Callable[[Path], Platform]:
    found = list(entry_points(group=_GROUP, name="simulation"))
    if not found:
        raise PlatformMissing(
            "the simulated platform is not installed",
            hint="install the distribution keyhouse-simulation; production images leave it out",
        )
    return _load(found)


def _load(found: list[EntryPoint]) -> Callable[[Path], Platform]:
    # An editable and a wheel installation may both be seen; any other provider is an impostor.
    if {entry.value for entry in found} != {_SIMULATION}:
        raise PlatformMissing(
            "another distribution claims to be the simulated platform",
            hint="uninstall all but keyhouse-simulation",
        )
    return cast(Callable[[Path], Platform], found[0].load())
