"""Verifies that a coordinator is the expected one, before anything is told to it.

1. Connect to an unverified peer, and ask it for a quote over a fresh nonce.
2. The certificate served in that handshake is the root of the answer's chain: the quote is about
   the peer that proved to own its key.
3. The intermediate is a CA that the root has signed.
4. The quote verifies under the pinned root of the platform's vendor, at this time.
5. It binds the root certificate and the nonce, and is of the expected identity.
6. With a memory: it is the deployment that was at this address before, in no older state, and its
   transparency log continues what was seen of it.
7. With a policy of witnesses: a quorum of them has seen its log, not long ago.
8. The line of the root (``client.line``) is bound by a quote. It continues the remembered line, and
   begins with the expected manifest. A session that reads the manifest in force compares it with
   the last entry (``operations.manifest``).
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import msgspec
from cryptography import x509

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    ExpectedIdentity,
    Verdict,
    Verifier,
    quote_binding,
)
from keyhouse.attestation.collateral.chain import read_chain
from keyhouse.attestation.coordinator_appraisal import appraise, require_dcap
from keyhouse.base.errors import RefusedError
from keyhouse.base.readable import Readable
from keyhouse.client.calls import Call, line_quoting, quoting
from keyhouse.client.errors import (
    AnswerUnreadableError,
    CallRefusedError,
    CallUnknownError,
    ClientSetupError,
    TrustError,
)
from keyhouse.client.http.connection import Connection
from keyhouse.client.http.pinned_tls import watching_context
from keyhouse.client.http.retries import Retries, Rules, Timeouts, exchange
from keyhouse.client.line import (
    CheckName,
    LineRules,
    TrustCheck,
    checks_of,
    fingerprint_of,
    memory_check,
    proven_line,
    require_line,
    witness_check,
)
from keyhouse.client.log_policy import LOG_MAX_AGE, LogPolicy
from keyhouse.client.memory.states import Memories, Proven, StateMemory, Watch
from keyhouse.client.public_log import Ask, cosigned_checkpoint, newest_checkpoint
from keyhouse.client.steps import Answer, Steps, work
from keyhouse.client.trust_files import (
    bundle_file,
    certificate_der,
    collateral_of,
    expected_identity,
    read_named,
)
from keyhouse.transparency.line import RootLine
from keyhouse.wire.address import Address, read_address
from keyhouse.wire.client_api import EvidenceData
from keyhouse.wire.headers import LogHead
from keyhouse.wire.ports import CLIENT_API_PORT

T = TypeVar("T")

NONCE: Final = 32  # bytes
_CHAIN: Final = 2  # intermediate, root
CollateralFor = Callable[[bytes], Collateral]
"""Returns the collateral for a quote.

May raise ``RefusedError`` (no trust) and ``UnavailableError``.
"""

_HINT = "do not use it: it may be another machine that answers at this address"


class TrustedCoordinator(Readable, frozen=True):
    """A coordinator whose quote has been verified, and what to pin when talking to it."""

    address: Address
    root_der: bytes
    intermediate_der: bytes
    verdict: Verdict
    quote: bytes  # as it came, for the records
    nonce: bytes  # that it was made for
    memory: StateMemory | None = None  # sessions check each answer against it
    is_unwitnessed: bool = False  # witnesses were demanded, and it had no log to ask them about
    line: RootLine | None = None  # of the root; None: it serves none
    line_before: int = 0  # entries of the line that were remembered before
    checks: tuple[TrustCheck, ...] = ()
    is_without_line: bool = False  # a first manifest was demanded, and it enforced none
    trust: "Trust | None" = None  # verifies its later lines; None: it serves none

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return all fields but ``trust``, which has a bundle of collateral."""
        return [each for each in super().__rich_repr__() if each[0] != "trust"]

    def check(self, name: CheckName) -> TrustCheck | None:
        """Return the check of this name."""
        return next((each for each in self.checks if each.name == name), None)


class Trust(Readable, frozen=True, kw_only=True):
    """The coordinator to trust, and what to verify its quotes with.

    ``collateral``: a bundle, or a function that returns the one for a quote; it may block.

    ``first_manifest``: the manifest, or its fingerprint in hex, that the deployment began with. A
    host can begin a deployment, learn its root key, and then update to the manifest that you
    expect: only the first manifest shows that. ``manifests="all"``: each later manifest has to be
    in ``accepted_manifests`` as well, or among those that the memory has as accepted.
    """

    expected: ExpectedIdentity
    collateral: Collateral | CollateralFor
    root_ca_der: bytes = INTEL_SGX_ROOT  # of the platform's vendor
    log_policy: LogPolicy | None = None  # None: no witness is demanded
    first_manifest: bytes | str = ""  # empty: any
    manifests: Literal["", "all"] = ""
    accepted_manifests: tuple[bytes | str, ...] = ()

    @property
    def line_rules(self) -> LineRules:
        """What the line of the root has to be. Raises ``ClientSetupError``."""
        if self.manifests not in {"", "all"}:
            raise ClientSetupError(f"manifests is {self.manifests!r}, must be all or empty")
        if self.accepted_manifests and not self.manifests:
            raise ClientSetupError.no_effect("accepted_manifests", 'it goes with manifests="all"')
        return LineRules(
            fingerprint_of(self.first_manifest) if self.first_manifest else "",
            frozenset(map(fingerprint_of, self.accepted_manifests)) if self.manifests else None,
        )

    @classmethod
    def from_files(
        cls,
        attestation: Path | str,
        *,
        collateral: Path | str | None = None,
        simulation_root: Path | str | None = None,
        pccs: str = "",
        pccs_ca: Path | str | None = None,
        accepted_tcb_statuses: Sequence[str] = (),
        accepted_advisories: Sequence[str] = (),
        witness_policy: Path | str | None = None,
        log_max_age: int = LOG_MAX_AGE,
        first_manifest: bytes | str = "",
        manifests: Literal["", "all"] = "",
    ) -> Self:
        """Return what an attestation file pins, and what verifies it, as the commands' options do.

        ``collateral``: a bundle. ``pccs``: the URL of a PCCS instead, with ``pccs_ca``, the only CA
        (PEM) that may vouch for it. ``simulation_root``: trust a SIMULATED platform under this root
        (PEM); its bundle is ``collateral.json`` beside it unless one is named. The lists replace
        those of the attestation file. ``witness_policy``: witnesses (C2SP tlog-policy), a
        quorum of which has to have seen the transparency log at most ``log_max_age`` seconds ago.
        ``first_manifest``, ``manifests``: as for ``Trust``.
        Raises ``RefusedError`` for files that cannot be used.
        """
        lists = {"statuses": accepted_tcb_statuses, "advisories": accepted_advisories}
        for name, listed in lists.items():
            if isinstance(listed, str):
                raise TypeError(f"the accepted {name} are a list: [{listed!r}]")
        expected = expected_identity(
            read_named(attestation), accepted_tcb_statuses, accepted_advisories
        )
        root = INTEL_SGX_ROOT
        if simulation_root:
            root = certificate_der(read_named(simulation_root), simulation_root)
        found = collateral_of(bundle_file(collateral, simulation_root, pccs), pccs, pccs_ca, root)
        policy = LogPolicy.from_file(witness_policy, log_max_age) if witness_policy else None
        return cls(
            expected=expected,
            collateral=found,
            root_ca_der=root,
            log_policy=policy,
            first_manifest=first_manifest,
            manifests=manifests,
        )


def verify_coordinator(
    address: Address | str,
    *,
    expected: ExpectedIdentity,
    root_ca_der: bytes,
    collateral: Collateral | CollateralFor,
    nonce: bytes | None = None,
    now: datetime | None = None,
    timeout: float | Timeouts = 30.0,
    memory: StateMemory | None = None,
    log_policy: LogPolicy | None = None,
    first_manifest: bytes | str = "",
    manifests: Literal["", "all"] = "",
) -> TrustedCoordinator:
    """Return the coordinator at ``address`` if it proves to be ``expected``.

    ``collateral``: a bundle, or a function that returns the one for the quote. ``root_ca_der``: the
    root of the platform's vendor (``INTEL_SGX_ROOT``, or a simulated one). ``nonce``: if not given,
    that of ``expected`` or 32 fresh bytes. ``now``: if not given, the current time. ``timeout`` in
    seconds, for the whole call.

    ``memory`` remembers the root at this address and the states that it was in, here and in each
    session with the result. Without one an older copy of the state, two copies that have diverged,
    or another deployment by the same code stay unnoticed: a quote cannot show them. Do without only
    to talk to a coordinator in recovery mode, whose root is a temporary one. ``log_policy``: the
    witnesses who have to have seen its log. While it enforces no manifest it has none: a session
    can then set the first one, recover and read what is public, and is begun again for all else.
    ``first_manifest``, ``manifests``: see ``Trust``; the same holds for them.

    Raises ``TrustError`` if it does not prove it, ``UnreachableError`` if it does not answer, and
    what ``memory`` raises if it cannot be used.
    """
    trust = Trust(
        expected=expected,
        collateral=collateral,
        root_ca_der=root_ca_der,
        log_policy=log_policy,
        first_manifest=first_manifest,
        manifests=manifests,
    )
    return verify(address, trust, memory, nonce=nonce, now=now, timeout=timeout)


def verify(
    address: Address | str,
    trust: Trust,
    memory: StateMemory | None = None,
    *,
    nonce: bytes | None = None,
    now: datetime | None = None,
    timeout: float | Timeouts = 30.0,
    retries: Retries = Retries(),  # noqa: B008 it is frozen
) -> TrustedCoordinator:
    """Return the coordinator at ``address`` if ``trust`` holds; as ``verify_coordinator``."""
    where, seen = _address(address), list[bytes]()
    rules = Rules(Timeouts.of(timeout), retries)
    with Connection(where, watching_context(seen.append), rules.timeouts) as connection:
        return connection.run(verifying(where, trust, memory, rules, seen, nonce, now))


async def verify_async(
    address: Address | str,
    trust: Trust,
    memory: StateMemory | None = None,
    *,
    nonce: bytes | None = None,
    now: datetime | None = None,
    timeout: float | Timeouts = 30.0,  # noqa: ASYNC109 it covers more than this wait
    retries: Retries = Retries(),  # noqa: B008 it is frozen
) -> TrustedCoordinator:
    """Return the coordinator at ``address`` if ``trust`` holds, on an event loop."""
    from keyhouse.client.http.connection_async import AsyncConnection

    where, seen = _address(address), list[bytes]()
    rules = Rules(Timeouts.of(timeout), retries)
    async with AsyncConnection(where, watching_context(seen.append), rules.timeouts) as connection:
        return await connection.run(verifying(where, trust, memory, rules, seen, nonce, now))


def parse_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port`` as an address; port 4433 if it has none.

    Raises ``ClientSetupError``.
    """
    return read_address(text, port=CLIENT_API_PORT, refused=ClientSetupError)


def _address(address: Address | str) -> Address:
    return parse_address(address) if isinstance(address, str) else address


def verifying(
    where: Address,
    trust: Trust,
    memory: StateMemory | None,
    rules: Rules,
    seen: list[bytes],
    nonce: bytes | None,
    now: datetime | None,
) -> Steps[TrustedCoordinator]:
    """Return the coordinator at ``where`` if it proves to be the expected one.

    ``seen`` gets the leaf (DER) of each handshake of the connection that these steps use.
    ``nonce``: if not given, that of the expected identity or 32 fresh bytes.
    """
    challenge = nonce or trust.expected.nonce or secrets.token_bytes(NONCE)
    line_rules = trust.line_rules
    before = (yield from work(memory.read)) if memory is not None else Memories()
    call = quoting(challenge)
    raw = yield from exchange(call.request, rules, seen.clear)
    if len(seen) != 1:  # several handshakes: which one gave the answer would be a guess
        raise _untrusted("the quote did not come over the one connection made for it")
    data, leaf = call.read(raw), seen[0]
    found = yield from work(lambda: proven(where, trust, data, leaf, challenge, now, memory))
    watch = Watch(memory, where, found.root_der)
    ask = _asking(rules, raw, seen, found.root_der)
    if memory is not None or trust.log_policy is not None:
        policy = trust.log_policy if raw.state is not None else None  # else it has no log
        head = yield from proving(ask, watch, before, raw, policy, now)
        yield from work(lambda: watch.check(before, raw, head))
        if policy is not trust.log_policy:
            found = msgspec.structs.replace(found, is_unwitnessed=True)
    serves = raw.state is not None  # else no manifest is in force
    asking = ask if serves else None
    return (yield from with_line(found, trust, line_rules, asking, before, now))


def lined(
    ask: Ask, trust: Trust, root_der: bytes, now: datetime | None = None
) -> Steps[RootLine | str]:
    """Return the line of the root, which a quote binds; or a text that says why there is none.

    Raises ``TrustError``.
    """
    nonce = secrets.token_bytes(NONCE)
    try:
        data = yield from ask(line_quoting(nonce))
    except CallUnknownError:
        return "the coordinator is of a version that serves no line"
    except CallRefusedError as refused:  # an old root, whose line has not begun yet
        return f"the coordinator serves no line: {refused.message}"
    binding = quote_binding(root_der, nonce)
    return (
        yield from work(
            lambda: proven_line(
                data, root_der, nonce, lambda quote: _judged(trust, quote, binding, now)
            )
        )
    )


def with_line(
    found: TrustedCoordinator,
    trust: Trust,
    rules: LineRules,
    ask: Ask | None,
    before: Memories,
    now: datetime | None,
) -> Steps[TrustedCoordinator]:
    """Return ``found`` with its line and all checks; ``ask``: None while no manifest is in force.

    Raises ``TrustError``.
    """
    watch = Watch(found.memory, found.address, found.root_der)
    seen = watch.line(before)
    line: RootLine | str = "no manifest is in force"
    if ask is not None:
        line = yield from lined(ask, trust, found.root_der, now)
        require_line(line, rules, seen)
    proved = line if isinstance(line, RootLine) else None
    if proved is not None:
        yield from work(lambda: watch.remember_line(proved))
    checks = (
        TrustCheck(CheckName.CODE, done=True, text="a quote proves the code that answers"),
        *checks_of(line, rules, seen),
        memory_check(watch.newest(before), remembers=found.memory is not None),
        witness_check(demanded=trust.log_policy is not None, has_log=not found.is_unwitnessed),
    )
    return msgspec.structs.replace(
        found,
        line=proved,
        line_before=0 if seen is None else seen.number,
        checks=checks,
        is_without_line=rules.demand_line and proved is None,
        trust=trust if ask is None or proved is not None else None,
    )


def _asking(rules: Rules, answer: Answer, seen: list[bytes], root_der: bytes) -> Ask:
    """Return what makes further calls, of the peer and state that gave ``answer``."""

    def ask(call: Call[T]) -> Steps[T]:
        at_least = answer.state or ""
        request = msgspec.structs.replace(call.request, at_least=at_least)
        told = yield from exchange(request, rules)
        if any(leaf != root_der for leaf in seen):
            raise _untrusted("another peer answered what was asked for after the quote")
        return call.read(told)

    return ask


def proving(
    ask: Ask,
    watch: Watch,
    before: Memories,
    answer: Answer,
    policy: LogPolicy | None = None,
    now: datetime | None = None,
    ahead: int = 0,
) -> Steps[Proven | None]:
    """Return the head of a log that is proven to continue what was remembered ``before``.

    None: the log in ``answer`` is at most ``ahead`` leaves more than what was proven last, and
    there is no ``policy``. Raises ``TrustError``.
    """
    heads = yield from work(lambda: watch.unproven(before, answer, ahead))
    if not heads and policy is None:
        return None
    try:
        found = yield from newest_checkpoint(ask, watch.root_der, heads)
    except (AnswerUnreadableError, CallRefusedError) as error:
        raise TrustError(f"the coordinator's log cannot be read: {error.message}") from error
    if policy is not None:
        seen = yield from cosigned_checkpoint(ask, watch.root_der, found)
        policy.require(seen, now or datetime.now(UTC))
    return Proven(LogHead.of(found.size, found.root), heads)


def proven(
    where: Address,
    trust: Trust,
    data: EvidenceData,
    leaf: bytes,
    nonce: bytes,
    now: datetime | None,
    memory: StateMemory | None,
) -> TrustedCoordinator:
    """Return what the quote in ``data`` proves about the owner of the certificate ``leaf`` (DER).

    ``nonce``: the one that the quote was requested with. Raises ``TrustError``; may block.
    """
    try:
        intermediate, root = _chain(data.cert)
        _require_served(leaf, root)
        _require_issued(intermediate, root)
        verdict = _judged(trust, data.quote, quote_binding(root, nonce), now)
    except TrustError:
        raise
    except RefusedError as exc:
        raise TrustError(
            f"the coordinator at {where} is not trusted: {exc.message}", hint=exc.hint or _HINT
        ) from exc
    return TrustedCoordinator(where, root, intermediate, verdict, data.quote, nonce, memory)


def _judged(trust: Trust, quote: bytes, binding: bytes, now: datetime | None) -> Verdict:
    """Return what ``quote`` says, which binds ``binding`` and is of the expected code.

    Raises ``RefusedError``; may block.
    """
    require_dcap(quote)
    given = trust.collateral
    collateral = given if isinstance(given, Collateral) else given(quote)
    verdict = Verifier(trust.root_ca_der).verify(quote, collateral, now or datetime.now(UTC))
    appraise(verdict, trust.expected, binding=binding)
    return verdict


def _chain(pem: str) -> tuple[bytes, bytes]:
    chain = read_chain(pem, "the coordinator's certificate chain")
    if len(chain) != _CHAIN:
        raise _untrusted(f"its chain has {len(chain)} certificates, must be intermediate and root")
    return chain[0], chain[1]


def _require_served(leaf: bytes, root: bytes) -> None:
    if leaf != root:
        raise _untrusted("the certificate that it serves is not the root of its quote")


def _require_issued(intermediate: bytes, root: bytes) -> None:
    try:
        child = x509.load_der_x509_certificate(intermediate)
        child.verify_directly_issued_by(x509.load_der_x509_certificate(root))
        is_ca = child.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # noqa: BLE001 parsers raise many things on invalid bytes
        raise _untrusted("its intermediate certificate is not signed by its root") from None
    if not is_ca:
        raise _untrusted("its intermediate certificate is not a CA")


def _untrusted(problem: str) -> TrustError:
    return TrustError(f"the coordinator is not trusted: {problem}", hint=_HINT)
