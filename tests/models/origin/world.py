"""What there is: copies of states, seals, quotes, keys that the host knows, processes."""

from typing import Final, NamedTuple

INVENTED: Final = "invented"
"""The root that the host made itself."""

INVENTED_KEY: Final = 0
"""A data key that the host made itself."""

OF_HOST: Final = frozenset("CO")  # users are the host's
HOST_HOLDS: Final = frozenset("OR")  # a share for the host is the data key
ADMITS_H: Final = frozenset("EC")

Line = tuple[str, ...]
"""The manifests that were in force under a root, in order."""


class Copy(NamedTuple):
    """A journal as somebody may show it."""

    root: str
    line: Line
    key: int
    adopted: bool = False  # its first entry says that nothing proves its origin

    def __str__(self) -> str:
        adopted = "adopted " if self.adopted else ""
        return f"{self.root}({adopted}{'>'.join(self.line)}, key {self.key})"


class Process(NamedTuple):
    """A coordinator that serves; ``claim`` and ``adopts`` are measured settings."""

    copy: Copy
    claim: str = ""
    adopts: bool = False  # with --adopt-root of this root
    votes: bool = False  # the host forged votes of a pending update in its journal


class Settings(NamedTuple):
    """Measured settings of a coordinator."""

    claim: str = ""
    adopts: bool = False  # --adopt-root, of the root that it serves


class Seal(NamedTuple):
    """A data key that genuine code sealed on a machine; ``root`` is empty if it binds no line."""

    machine: int
    root: str
    line: Line
    key: int
    adopted: bool = False


class World(NamedTuple):
    """Everything that decides what can happen next."""

    processes: tuple[Process | None, Process | None] = (None, None)
    written: frozenset[Copy] = frozenset()  # by genuine code
    seals: frozenset[Seal] = frozenset()
    quoted: frozenset[tuple[str, Line, bool]] = frozenset()  # root, line till then, adopted
    known: frozenset[int] = frozenset({INVENTED_KEY})  # data keys that the host knows
    roots: int = 0  # made by genuine code
    next_key: int = 1
    cosigned: frozenset[tuple[str, Line]] = frozenset()  # newest that witnesses saw of each root


def known_roots(world: World) -> frozenset[str]:
    """Return the roots whose key the host knows: it can read a journal under each of them."""
    read = {copy.root for copy in world.written if copy.key in world.known}
    return frozenset({INVENTED, *read})


def cosigned_line(world: World, root: str) -> Line:
    """Return the newest line of ``root`` that witnesses cosigned; empty: none."""
    return next((line for each, line in world.cosigned if each == root), ())
