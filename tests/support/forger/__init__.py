"""Builds false evidence files in the role of each holder of a key: coordinator, users, witnesses.

Damaged bytes are not a forgery. A forger makes every hash, signature and quote again, so only the
rules of evidence can refuse the file. ``honest`` makes true histories, ``kinds`` changes them.
``rare`` makes true histories with a gap, a key or a pin that random histories lack.
``rare_forgeries`` makes false histories that cannot result from a change of a random history.
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
    """Return a true history without gaps, changed by a forgery of this kind."""
    for _ in range(_TRIES):
        draft = honest(maker, chance, plain=True)
        if kind.forge(draft, chance):
            return draft
    raise ValueError(f"no history fits this forgery: {kind.name}")


def file_of(maker: Maker, draft: Draft) -> bytes:
    """Return the evidence file of ``draft``."""
    raw = write_evidence(built(maker, draft))
    for rewrite in draft.rewrites:
        raw = rewrite(raw)
    return raw
