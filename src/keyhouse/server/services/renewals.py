"""Serves workloads that run: renews certificates, and returns the present parameters.

A renewal replaces the key of a lineage (``core.lineages``). The evidence is fresh: it binds a nonce
of this connection, the request of the new key, and the certificate of the handshake, in all 64
bytes. A renewal returns certificates only, which are public. The method ``Fetch`` returns secrets.
For ``Fetch``, a workload needs the newest key of its lineage, and for this key a certificate from
the marble root in force.

A renewal is durable before its answer. So at most one of two copies of a key can renew, and a
workload can request a lost answer again.
"""

import hashlib
import os
from collections import Counter
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from keyhouse.attestation import Verdict
from keyhouse.attestation.quote.binding import DIGEST, renewal_report_data
from keyhouse.attestation.quote.report import Measured
from keyhouse.authority import (
    ClaimedLineage,
    MarbleLeaf,
    SigningRequest,
    certify_marble,
    read_signing_request,
    requested_key,
)
from keyhouse.base.errors import BadRequestError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator import Engine, Operation, Running, until_current
from keyhouse.coordinator.activation import Present, present
from keyhouse.coordinator.core.commands import Renew
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.events import Renewed
from keyhouse.coordinator.core.lineages import (
    lineage_of,
    renewal_of,
    require_continuable,
    require_platform,
)
from keyhouse.coordinator.core.policy import Recipe
from keyhouse.coordinator.core.state import Lineage
from keyhouse.coordinator.engine.read_gate import require_seen
from keyhouse.manifest import Renewal
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit
from keyhouse.server.services.activation_checks import (
    require_admitted,
    require_current_root,
    require_quote,
    require_recipe,
)
from keyhouse.server.services.digests import DigestCache, Digests, Inputs
from keyhouse.server.services.events import Events, RenewalEvent
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.renewal_checks import (
    end_of,
    facts_of,
    renew_at,
    require_bound,
    require_claim,
    require_issued,
    require_reader,
)
from keyhouse.server.services.watches import Watched
from keyhouse.wire.headers import Place

if TYPE_CHECKING:
    from keyhouse.coordinator import ReadGate

NONCE_SECONDS: Final = 60
POLL_SECONDS: Final = 60
SETTLE_SECONDS: Final = 2 * POLL_SECONDS
"""After an update, others learn the new marble root before a workload presents its certificates."""

A_MINUTE: Final = 12
"""Renewals of a lineage in a minute. Each of them is a record of the journal."""

WAITING: Final = 4096
"""Largest number of calls that wait for a thread to render costly parameters."""


class NonceError(BadRequestError):
    """The nonce is not the nonce of this connection, or it is spent or too old."""

    code = "nonce"


class Session:
    """The state of a connection: its unspent nonce, between ``Challenge`` and ``Renew``."""

    __slots__ = ("_nonce", "_until")

    def __init__(self) -> None:
        self._nonce = b""
        self._until = 0

    def begin(self, now: int) -> bytes:
        """Return a new nonce of 32 random bytes. ``now``: microseconds since 1970."""
        self._nonce, self._until = os.urandom(32), now + NONCE_SECONDS * 1_000_000
        return self._nonce

    def spend(self, nonce: bytes, now: int) -> None:
        """Require that ``nonce`` is the unspent nonce. Forget the unspent nonce in any case.

        ``now``: microseconds since 1970. Raises ``NonceError``.
        """
        expected, self._nonce = self._nonce, b""
        if not expected or nonce != expected or now > self._until:
            raise NonceError(
                "the nonce must be the last nonce of this connection, unspent, and at most"
                f" {NONCE_SECONDS} seconds old",
                hint="call Challenge again on this connection",
            )


class RenewalRequest(msgspec.Struct, frozen=True):
    """The request of a renewal as received."""

    nonce: bytes
    csr: bytes  # PKCS #10, DER
    evidence: bytes


class Certificates(msgspec.Struct, frozen=True):
    """The answer to a renewal. Times are microseconds since 1970."""

    chain: tuple[bytes, ...]  # DER: leaf, intermediate
    roots: tuple[bytes, ...]  # DER: the marble root in force, then former roots
    now: int
    renew_at: int
    end: int
    settle_seconds: int


class Served(msgspec.Struct, frozen=True):
    """The present parameters of a workload, with their digests."""

    present: Present
    digests: Digests
    roots: tuple[bytes, ...]  # DER: the marble root in force, then former roots
    renewal: Renewal
    now: int  # microseconds since 1970


class _Checked(msgspec.Struct, frozen=True):
    """A checked request of a renewal. Checks against the state are repeated at the decision."""

    claim: ClaimedLineage
    identity: bytes  # DER of the certificate in the handshake
    presented_root: bytes | None  # DER, of the handshake; None without a connection
    public: bytes  # SubjectPublicKeyInfo, DER
    key: bytes  # its SHA-256
    signing: SigningRequest
    verdict: Verdict | None
    wanted: bytes  # report data


class Renewals:
    """Renews certificates and serves parameters, by the current view of ``engine``.

    ``simulated``: the platform is a simulation. ``gate`` confirms that a view is the
    newest state; None: the store is not shared. ``events`` receives each renewal.
    """

    def __init__(
        self,
        engine: Engine,
        quote_checks: QuoteChecks,
        *,
        simulated: bool,
        gate: "ReadGate | None" = None,
        events: Events | None = None,
    ) -> None:
        self._engine = engine
        self._quote_checks = quote_checks
        self._simulated = simulated
        self._gate = gate
        self._events = events
        self.renewed: Final[Counter[str]] = Counter()  # since the start, by marble type
        self._minute = 0
        self._recent: Counter[bytes] = Counter()  # in this minute, by lineage
        self._executor = BoundedExecutor(
            "fetch", ConcurrencyLimit(WAITING, "too many workloads read costly parameters")
        )
        self.digests: Final = DigestCache(self._executor)

    def close(self) -> None:
        """End the thread that renders costly parameters."""
        self._executor.close()

    async def challenge(
        self, identity: bytes | None, session: Session, seen: Place | None = None
    ) -> bytes:
        """Return a nonce for the next renewal on the connection of ``session``.

        ``identity`` and ``seen``: as in ``renew``. Raises the errors of the checks that ``renew``
        makes before the check of the nonce.
        """
        state = await self._confirmed(seen)
        now = self._engine.current.now()
        claim = require_claim(identity)
        renewal_of(state, lineage_of(state, claim.id, now).marble_type)
        # So a workload at its limit causes no work for signatures and evidence.
        self._require_below_limit(claim.id, now)
        return session.begin(now)

    async def renew(
        self,
        request: RenewalRequest,
        identity: bytes | None,
        session: Session,
        seen: Place | None = None,
        presented_root: bytes | None = None,
    ) -> Certificates:
        """Return certificates for the new key of a workload, after the renewal is durable.

        ``identity``: the DER of the leaf in the handshake. ``session``: of the connection.
        ``seen``: the newest place in the journal that the workload has seen. ``presented_root``:
        the DER of the marble root in the handshake.

        Raises:
            WrongPhaseError: no manifest is in force.
            ActivateAgainError, RevokedError, LineageSupersededError: the lineage is unknown,
                revoked, or has a newer key.
            NotEnabledError: the type has no Renewal.
            NonceError: the nonce is not the unspent nonce of this connection.
            InvalidError: the CSR is refused, or the evidence is too large.
            ForbiddenError: no evidence, evidence for another request, or not admitted.
            QuoteRefusedError: the evidence does not verify.
            ForkError: the state does not continue ``seen``.
            OutdatedConnectionError: the marble root is not ``presented_root``.
            UnavailableError: the coordinator cannot do this now; try again later.
        """
        checked = await self._read(request, identity, session, seen, presented_root)
        too_fast = "the state changes faster than a workload can renew"
        return await until_current(lambda: self._continue(checked), too_fast=too_fast)

    async def serve(self, identity: bytes | None, seen: Place | None = None) -> Served:
        """Return the present parameters of the workload with the certificate ``identity``.

        ``seen``: as in ``renew``.

        Raises:
            WrongPhaseError, ForkError, UnavailableError: as ``renew``.
            ActivateAgainError, RevokedError, LineageSupersededError, NotEnabledError: as ``renew``.
            RenewFirstError: the certificate is not valid now, or not from the marble root in force.
            ConflictError: a user still has to upload a secret, which the error names.
        """
        watched = await self.watch(identity, seen)
        self._engine.lease.charge()
        inputs, lineage = watched.inputs, watched.reader.lineage
        recipe = require_recipe(inputs.state, lineage.marble_type)
        made = await self._present(inputs.state, recipe, lineage, watched.now, inputs.roots)
        return Served(made, watched.digests, inputs.roots, watched.renewal, watched.now)

    async def watch(self, identity: bytes | None, seen: Place | None = None) -> Watched:
        """Return the digests for the workload with the certificate ``identity``.

        ``seen``: as in ``renew``. Raises as ``serve``.
        """
        state = await self._confirmed(seen)
        now = self._engine.current.now()
        reader = require_reader(state, identity, now)
        marble_type = reader.lineage.marble_type
        renewal, inputs = renewal_of(state, marble_type), Inputs.of(state, now)
        digests = await self.digests.of(inputs, marble_type, now)
        return Watched(reader, inputs, digests, renewal, now)

    async def _present(
        self, state: Running, recipe: Recipe, lineage: Lineage, now: int, roots: tuple[bytes, ...]
    ) -> Present:
        def make() -> Present:
            return present(state, recipe, UUID(lineage.uuid), moment(now), roots)

        return await self._executor.run(make, lineage.key) if recipe.is_costly else make()

    async def _read(
        self,
        request: RenewalRequest,
        identity: bytes | None,
        session: Session,
        seen: Place | None,
        presented_root: bytes | None,
    ) -> _Checked:
        """Check the request: cheap checks before the evidence."""
        state = await self._confirmed(seen)
        require_current_root(state, presented_root)
        now = self._engine.current.now()
        claim = require_claim(identity)
        lineage = lineage_of(state, claim.id, now)
        renewal_of(state, lineage.marble_type)
        session.spend(request.nonce, now)
        assert identity is not None  # noqa: S101 it has a claim
        quoted = require_quote(request.evidence, simulated=self._simulated)
        signing = read_signing_request(request.csr, state.keys)
        public = requested_key(request.csr)
        key = hashlib.sha256(public).digest()
        require_continuable(lineage, claim.key, key)
        require_issued(state, lineage, identity, claim)
        self._count(claim.id, now)
        verdict = await self._quote_checks.verify(request.evidence, identity) if quoted else None
        wanted = renewal_report_data(request.csr, request.nonce, identity)
        return _Checked(claim, identity, presented_root, public, key, signing, verdict, wanted)

    async def _continue(self, checked: _Checked) -> Certificates:
        """Renew: decide, certify and record under one state."""
        state, claim, now = self._running(), checked.claim, self._engine.current.now()
        require_current_root(state, checked.presented_root)
        lineage = lineage_of(state, claim.id, now)
        renewal = renewal_of(state, lineage.marble_type)
        recipe = require_recipe(state, lineage.marble_type)
        require_admitted(state, recipe, checked.verdict, checked.wanted[:DIGEST])
        require_bound(checked.verdict, checked.wanted)
        require_continuable(lineage, claim.key, checked.key)
        require_issued(state, lineage, checked.identity, claim)
        measured = Measured() if checked.verdict is None else checked.verdict.measured
        require_platform(state, measured.platform)
        self._engine.lease.charge()
        end = end_of(renewal, now)
        leaf = certify_marble(
            state.keys,
            checked.signing,
            MarbleLeaf(
                UUID(lineage.uuid),
                lineage.marble_type,
                checked.public,
                facts_of(claim.id, checked.verdict, now),
            ),
            now=moment(now),
            end=moment(end),
        )
        renewed = Renewed(
            time=now,
            lineage=claim.id,
            presented=claim.key,
            key=checked.key,
            end=end,
            platform=measured.platform,
            tcb_status=measured.tcb_status,
        )
        keys = state.keys
        await self._engine.submit(Renew(state.manifest, keys.intermediate_cert, renewed))
        self.renewed[lineage.marble_type] += 1
        if self._events is not None:
            self._events.renewed(_event(lineage, renewed), at=now * 1000)
        log.info("a workload renewed its certificate", marble_type=lineage.marble_type)
        # Only a hint for the workload itself. So no signature has to prove the issuer.
        is_current = claim.names_issuer(keys.marble_root_cert)
        return Certificates(
            chain=(leaf, keys.intermediate_cert),
            roots=Inputs.of(state, now).roots,
            now=now,
            renew_at=renew_at(now, end),
            end=end,
            settle_seconds=0 if is_current else SETTLE_SECONDS,
        )

    def _count(self, lineage: bytes, now: int) -> None:
        """Count a renewal of the lineage with the id ``lineage``. Raises ``UnavailableError``.

        The caller has proven the key of the lineage. Otherwise any client could use up the limit.
        """
        self._require_below_limit(lineage, now)
        self._recent[lineage] += 1

    def _require_below_limit(self, lineage: bytes, now: int) -> None:
        """Raise ``UnavailableError`` after ``A_MINUTE`` renewals of ``lineage`` in this minute."""
        minute = now // 60_000_000
        if minute != self._minute:
            self._minute = minute
            self._recent.clear()
        if self._recent[lineage] >= A_MINUTE:
            raise UnavailableError(
                f"this workload has renewed its certificate {A_MINUTE} times in a minute",
                hint="renew the certificate at half of its lifetime, not earlier",
            )

    async def _confirmed(self, seen: Place | None) -> Running:
        """Return the newest confirmed state, if the lease permits requests.

        ``seen`` is the newest place in the journal that the workload has seen. Raises
        ``UnavailableError`` if the journal here has not reached this place, ``ForkError`` if it has
        different records up to this place, and ``HeldError`` without a valid lease.
        """
        if self._gate is not None:
            await self._gate.passed()
        state = self._running()
        if seen is not None:
            require_seen(self._engine, seen)
        self._engine.lease.require()
        return state

    def _running(self) -> Running:
        return self._engine.view.running_for(Operation.RENEW)


def _event(lineage: Lineage, renewed: Renewed) -> RenewalEvent:
    platform, status = renewed.platform.hex(), renewed.tcb_status
    return RenewalEvent(lineage.marble_type, lineage.uuid, platform, status)
