"""All kinds of forgeries by name, with the holders of the necessary keys.

``forge`` changes a true draft. It returns ``False`` if the history lacks a necessary leaf.
"""

from typing import Final

from support.forger.approvals import APPROVALS
from support.forger.checkpoints import CHECKPOINTS
from support.forger.files import FILES
from support.forger.hardware import HARDWARE
from support.forger.kind import Kind
from support.forger.leaves import LEAVES
from support.forger.manifests import MANIFESTS
from support.forger.omissions import OMISSIONS
from support.forger.orders import ORDERS

__all__ = ["KINDS", "Kind"]

_ALL: Final = (
    *(*LEAVES, *ORDERS, *APPROVALS, *MANIFESTS),
    *(*HARDWARE, *CHECKPOINTS, *OMISSIONS, *FILES),
)

KINDS: Final[dict[str, Kind]] = {each.name: each for each in _ALL}

if len(KINDS) != len(_ALL):
    raise ValueError("two kinds of forgeries have one name")
