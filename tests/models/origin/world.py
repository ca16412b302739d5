"""The world: copies of states, seals, quotes, processes, and keys known to the host."""

from typing import Final, NamedTuple

INVENTED: Final = "invented"
"""The root made by the host."""

INVENTED_KEY: Final = 0
"""A data key made by the host."""

OF_HOST: Final = frozenset("CO")  # users work for the host
HOST_HOLDS: Final = frozenset("OR")  # a share for the host is the data key
ADMITS_H: Final = frozenset("EC")

Line = tuple[str, ...]
"""The manifests that were in force under a root, in order."""


class Copy(NamedTuple):
    """A journal as the host may show it."""

    root: str
    line: Line
    key: int
    adopted: bool = False  # the first entry states that nothing proves its origin

    def __str__(self) -> str:
        adopted = "adopted " if self.adopted else ""
        return f"{self.root}({adopted}{'>'.join(self.line)}, key {self.key})"


class Process(NamedTuple):
    """A serving coordinator; ``claim`` and ``adopts`` are measured settings."""

    copy: Copy
    claim: str = ""
    adopts: bool = False  # with --adopt-root of this root
    votes: bool = False  # the host forged votes of a pending update in its journal


class Settings(NamedTuple):
    """Measured settings of a coordinator."""

    claim: str = ""
    adopts: bool = False  # --adopt-root for the served root


class Seal(NamedTuple):
    """A data key sealed by genuine code on a machine; an empty ``root``: bound to no line."""

    machine: int
    root: str
    line: Line
    key: int
    adopted: bool = False


class World(NamedTuple):
    """All facts for the next actions."""

    processes: tuple[Process | None, Process | None] = (None, None)
    written: frozenset[Copy] = frozenset()  # by genuine code
    seals: frozenset[Seal] = frozenset()
    quoted: frozenset[tuple[str, Line, bool]] = frozenset()  # root, line at that time, adopted
    known: frozenset[int] = frozenset({INVENTED_KEY})  # data keys known to the host
    roots: int = 0  # made by genuine code
    next_key: int = 1
    cosigned: frozenset[tuple[str, Line]] = frozenset()  # the newest cosigned line of each root


def known_roots(world: World) -> frozenset[str]:
    """Return the roots with a known key: the host reads journals under its known data keys."""
    read = {copy.root for copy in world.written if copy.key in world.known}
    return frozenset({INVENTED, *read})


def cosigned_line(world: World, root: str) -> Line:
    """Return the newest cosigned line of ``root``, or an empty line."""
    return next((line for each, line in world.cosigned if each == root), ())
