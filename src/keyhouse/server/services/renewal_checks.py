"""The checks of a renewal, and the facts of evidence in the certificates of a lineage."""

import os
import secrets
from typing import Final

import msgspec

from keyhouse.attestation import IdentityRefusedError, Verdict
from keyhouse.attestation.quote.binding import require_report_data
from keyhouse.authority import ClaimedLineage, read_claimed_lineage, read_marble_certificate
from keyhouse.base.errors import ForbiddenError
from keyhouse.coordinator import Running
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.events import LineageBegun
from keyhouse.coordinator.core.lineages import (
    ActivateAgainError,
    RenewFirstError,
    lineage_of,
    require_newest,
)
from keyhouse.coordinator.core.state import Lineage
from keyhouse.manifest import Renewal
from keyhouse.wire.lineage import ID_SIZE, LineageFacts

_SECOND: Final = 1_000_000
_SPREAD: Final = 10
"""Workloads with equal certificates renew within a tenth of the lifetime, not at once."""


def end_of(renewal: Renewal, now: int) -> int:
    """Return the end of a certificate made at ``now``, in microseconds since 1970.

    ``now`` has the same unit. ``renewal`` states the validity. The end is a whole second.
    """
    return (now // _SECOND + renewal.valid_minutes * 60) * _SECOND


def new_lineage(renewal: Renewal, now: int) -> LineageBegun:
    """Return a lineage for an activation at ``now`` (microseconds since 1970).

    Its key is empty until the activation has issued a certificate. ``renewal`` states the validity.
    """
    return LineageBegun(id=os.urandom(ID_SIZE), key=b"", end=end_of(renewal, now))


def renew_at(now: int, end: int) -> int:
    """Return the time of the next renewal for a certificate from ``now`` to ``end``.

    The time is half of the lifetime after ``now``, minus a random part: less than a tenth of the
    lifetime. All times are microseconds.
    """
    lifetime = end - now
    return now + lifetime // 2 - secrets.randbelow(lifetime // _SPREAD)


def facts_of(lineage: bytes, verdict: Verdict | None, now: int) -> LineageFacts:
    """Return the facts that a certificate of the lineage with the id ``lineage`` states.

    The facts are the kind of hardware, the TCB status, and the time ``now`` (microseconds since
    1970). Without a ``verdict``, kind and status are empty.
    """
    kind = "" if verdict is None else verdict.tee.value
    status = "" if verdict is None else verdict.measured.tcb_status
    return LineageFacts(lineage, kind, status, now // _SECOND)


def require_claim(identity: bytes | None) -> ClaimedLineage:
    """Return the lineage that ``identity``, the certificate of the handshake, claims (DER).

    Raises ``ActivateAgainError`` without a certificate, or for a certificate without a lineage.
    """
    claim = None if identity is None else read_claimed_lineage(identity)
    if claim is None:
        raise ActivateAgainError(
            "this call needs a certificate of an activation of a type with Renewal",
            hint="activate the workload, and connect with its certificate and key",
        )
    return claim


def require_issued(
    state: Running, lineage: Lineage, identity: bytes, claim: ClaimedLineage
) -> None:
    """Require that this deployment issued the certificate ``identity`` (DER).

    ``claim``: the claim of the certificate, with the hash of its key. If ``lineage`` in ``state``
    has this hash, nothing else is verified. The hash may be missing after a restored backup
    (``Standing.RESTORED``). Then a marble root of ``state`` must have signed the certificate for
    the workload of ``lineage``. Raises ``ActivateAgainError``.
    """
    if claim.key in {lineage.key, lineage.before}:
        return
    roots = (state.keys.marble_root_cert, *(each.certificate for each in state.former_roots))
    for root in roots:
        read = read_marble_certificate(identity, root)
        named = read and (read.marble_type, read.uuid, read.lineage and read.lineage.id)
        if named == (lineage.marble_type, lineage.uuid, claim.id):
            return
    raise ActivateAgainError(
        "the state is from a backup, and no marble root in this state issued the certificate",
        hint="activate the workload again",
    )


class Reader(msgspec.Struct, frozen=True):
    """A workload that may read secrets, by the certificate of its handshake."""

    claim: ClaimedLineage
    lineage: Lineage
    end: int  # of the certificate: microseconds since 1970


def require_reader(state: Running, identity: bytes | None, now: int) -> Reader:
    """Return the workload with the certificate ``identity``, if it may read secrets.

    ``now``: microseconds since 1970. The marble root in force must have issued the certificate.
    Each update changes this root, so the workload has proven itself under the rules in force.

    Raises ``ActivateAgainError``, ``RevokedError``, ``LineageSupersededError``, or
    ``RenewFirstError``.
    """
    claim = require_claim(identity)
    lineage = lineage_of(state, claim.id, now)
    require_newest(lineage, claim.key)
    assert identity is not None  # noqa: S101 it has a claim
    read = read_marble_certificate(identity, state.keys.marble_root_cert)
    if read is None or not read.is_valid(moment(now)):
        raise RenewFirstError(
            "the certificate must be valid now, and issued by the marble root in force",
            hint="renew the certificate with a new quote",
        )
    named = (read.marble_type, read.uuid, read.lineage and read.lineage.id)
    if named != (lineage.marble_type, lineage.uuid, claim.id):
        raise ActivateAgainError(
            "the activation of the certificate belongs to another workload",
            hint="activate the workload again",
        )
    return Reader(claim, lineage, int(read.end.timestamp()) * _SECOND)


def require_bound(verdict: Verdict | None, wanted: bytes) -> None:
    """Require that the report data of the evidence is ``wanted`` (64 bytes).

    ``verdict``: the verdict on the evidence; None without evidence, which passes this check. Raises
    ``ForbiddenError``.
    """
    if verdict is None:
        return
    try:
        require_report_data(verdict.report_data, wanted)
    except IdentityRefusedError:
        raise ForbiddenError(
            "the evidence must bind the nonce, the request and the certificate of this call",
            hint="make new evidence for this connection",
        ) from None
