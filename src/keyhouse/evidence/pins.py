"""What an auditor trusts, and has from elsewhere than an evidence file."""

from datetime import datetime, timedelta

import msgspec

from keyhouse.attestation import ExpectedIdentity
from keyhouse.evidence.gaps import Gap
from keyhouse.transparency.policy import Policy


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """What verifies a file, and is in none.

    ``root`` and ``manifest``: the hash of the root certificate, and of the first manifest; one of
    them is given, or both. ``identity``: of the code that vouches for the last checkpoint; starts
    may also be of ``accepted``. ``policy``: None if no witness is trusted. ``max_age``: of the last
    witness time, at ``now``, which is the time of the verifier's own clock. ``allowed``: gaps that
    the auditor accepts.
    """

    root: str = ""
    manifest: str = ""
    vendor_root: bytes
    identity: ExpectedIdentity
    accepted: tuple[ExpectedIdentity, ...] = ()
    policy: Policy | None
    now: datetime
    max_age: timedelta | None = None
    allowed: frozenset[Gap] = frozenset()
