"""Clients: the accepted coordinators of each client, and the broken promises."""

from enum import StrEnum

from models.origin.world import INVENTED, Process, World, cosigned_line, known_roots

_TRUE = frozenset("TN")


class Client(StrEnum):
    """The checks of a client beside a quote of genuine code."""

    MADE_INSIDE = "quote, manifest in force: the root was made by genuine code"
    IN_FORCE = "quote, manifest in force"
    CLAIM = "quote, manifest in force, claim in the measurement"
    LINE = "quote, first manifest, all manifests since"
    WITNESSES = "quote, first manifest, all manifests since, witnesses"
    ROOT = "pinned root, which began with T"


def is_broken(client: Client, world: World, process: Process, goal: str) -> bool:
    """Return whether ``client`` accepts ``process`` although the host knows its root key.

    ``goal``: the required manifest in force. If a process adopts a root, its measurement and the
    first entry of its line show the adoption.
    """
    if not _accepts(client, world, process, goal):
        return False
    if client is Client.MADE_INSIDE:
        return process.copy.root == INVENTED
    return process.copy.root in known_roots(world)


def _accepts(client: Client, world: World, process: Process, goal: str) -> bool:
    copy = process.copy
    in_force = copy.line[-1] == goal and not process.adopts
    line = in_force and not copy.adopted and copy.line[0] == "T" and set(copy.line) <= _TRUE
    match client:
        case Client.MADE_INSIDE | Client.IN_FORCE:
            return in_force
        case Client.CLAIM:
            return in_force and process.claim == "T"
        case Client.LINE:
            return line
        case Client.WITNESSES:
            return line and cosigned_line(world, copy.root) == copy.line
        case Client.ROOT:
            return (copy.root, ("T",), False) in world.quoted
