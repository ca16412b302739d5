"""All pictures by file name."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pictures.architecture import architecture
from pictures.benchmark import benchmark_plot
from pictures.canvas import Canvas
from pictures.keys import keys
from pictures.kills import kill_plot
from pictures.parties import parties
from pictures.rollback import rollback
from pictures.rooms import rooms
from pictures.shares import shares
from pictures.terminal import terminal
from pictures.trust import trust_chain

__all__ = ["FOLDER", "pictures"]

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"

_DRAWN: Final[dict[str, Callable[[], Canvas]]] = {
    "architecture.svg": architecture,
    "benchmark.svg": benchmark_plot,
    "keys.svg": keys,
    "kills.svg": kill_plot,
    "parties.svg": parties,
    "rollback.svg": rollback,
    "rooms.svg": rooms,
    "shares.svg": shares,
    "trust-chain.svg": trust_chain,
}


def pictures() -> dict[str, str]:
    """Return the text of each picture by file name."""
    drawn = {name: draw().svg() for name, draw in _DRAWN.items()}
    return {**drawn, "terminal.svg": terminal()}
