"""Newer revocation lists that came with one kind of platform, for what is kept for another.

A list is of an authority, not of a kind of platform: the root's is the same for all, that of a PCK
CA for all whose PCK certificates it issues. A newer one that is known need not be fetched again.
"""

from datetime import datetime

import msgspec

from keyhouse.attestation.collateral.cache import Kept
from keyhouse.attestation.collateral.facts import require_sound
from keyhouse.attestation.errors import CollateralUnusableError


def with_newer_lists(kept: Kept, newest: Kept, root_ca: bytes, now: datetime) -> Kept | None:
    """Return ``kept`` with those lists of ``newest`` that are newer than its own.

    None if there are none, or if it would not be sound with them: at ``now``, under ``root_ca``
    (DER). When its documents were seen at the PCCS stays as it was.
    """
    mine, theirs, lists = kept.facts, newest.facts, {}
    if _is_newer(
        (theirs.root_crl_number, theirs.root_crl_issued),
        (mine.root_crl_number, mine.root_crl_issued),
    ):
        lists["root_ca_crl"] = newest.collateral.root_ca_crl
    if theirs.kind.ca is mine.kind.ca and _is_newer(
        (theirs.pck_crl_number, theirs.pck_crl_issued), (mine.pck_crl_number, mine.pck_crl_issued)
    ):
        lists["pck_crl"] = newest.collateral.pck_crl  # under its own chain, or it is not sound
    if not lists:
        return None
    collateral = msgspec.structs.replace(kept.collateral, **lists)
    try:
        return Kept(collateral, require_sound(collateral, root_ca, now), kept.seen)
    except CollateralUnusableError:
        return None


def _is_newer(one: tuple[int, datetime], other: tuple[int, datetime]) -> bool:
    """Tell whether number and date of one list are those of the other or later, and not both."""
    return one != other and one[0] >= other[0] and one[1] >= other[1]
