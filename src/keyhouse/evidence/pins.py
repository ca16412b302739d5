"""The auditor's trust, from sources other than the evidence file."""

from datetime import datetime, timedelta

import msgspec

from keyhouse.attestation import ExpectedIdentity
from keyhouse.evidence.gaps import Gap
from keyhouse.transparency.policy import CosignaturePolicy


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """The values that verify a file. No file contains its own pins.

    ``root`` and ``manifest`` are the hashes of the root certificate and of the first manifest; at
    least one is given. ``identity`` is the code with the quote of the last checkpoint; the code of
    a start may also be in ``accepted``. ``policy`` is None if no witness is trusted. ``now`` is the
    time of the verifier's own clock. The witnesses' time of the last checkpoint may be at most
    ``max_age`` before ``now``. ``allowed`` are the gaps that the auditor accepts.
    """

    root: str = ""
    manifest: str = ""
    vendor_root: bytes
    identity: ExpectedIdentity
    accepted: tuple[ExpectedIdentity, ...] = ()
    policy: CosignaturePolicy | None
    now: datetime
    max_age: timedelta | None = None
    allowed: frozenset[Gap] = frozenset()
