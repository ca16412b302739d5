"""Builds evidence files that are false, by whoever has a key: the coordinator, users, witnesses.

Damaged bytes are no forgery: here every hash, signature and quote is made again, so only the rules
of evidence can refuse a file. ``honest`` makes true histories, ``kinds`` the changes to them.
``rare`` has true histories with a gap, a key or a pin that random ones lack, ``rare_forgeries``
false ones that no change of a random history makes.
"""

from random import Random
from typing import Final

from keyhouse.evidence.bundle import write_evidence
from support.evidence import Maker
from support.forger.draft import Draft, built
from support.forger.honest import honest
from support.forger.kinds import KINDS, Kind
from support.forger.rare import RARE as _RARE
from support.forger.rare_forgeries import RARE_FORGERIES as _RARE_FORGERIES
from support.forger.trust import TRUST, TRUST_FORGERIES

__all__ = ["KINDS", "RARE", "RARE_FORGERIES", "Draft", "Kind", "file_of", "forged", "honest"]

RARE: Final = {**_RARE, **TRUST}
RARE_FORGERIES: Final = {**_RARE_FORGERIES, **TRUST_FORGERIES}

_TRIES: Final = 100


def forged(maker: Maker, kind: Kind, chance: Random) -> Draft:
    """Return a true history without gaps, after a forgery of this kind."""
    for _ in range(_TRIES):
        draft = honest(maker, chance, plain=True)
        if kind.forge(draft, chance):
            return draft
    raise ValueError(f"no history has what this forgery needs: {kind.name}")


def file_of(maker: Maker, draft: Draft) -> bytes:
    """Return the evidence file of ``draft``."""
    raw = write_evidence(built(maker, draft))
    for rewrite in draft.rewrites:
        raw = rewrite(raw)
    return raw
