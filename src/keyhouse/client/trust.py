"""Verify that a coordinator is the expected one, before any further call.

1. Connect to an unverified peer and request a quote over a fresh nonce.
2. The certificate of that handshake is the root of the answer's chain. So the quote is about the
   peer that proved to own the root's key.
3. The intermediate is a CA that the root has signed.
4. The quote verifies under the pinned root of the platform's vendor, at this time.
5. The quote binds the root certificate and the nonce, and has the expected identity.
6. With a memory: the coordinator is the deployment that was at this address before, and its state
   is not older. Its transparency log continues the remembered heads.
7. With a policy of witnesses: a quorum of them saw the log recently.
8. A quote binds the line of the root (``client.line``). The line continues the remembered line, and
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
from keyhouse.attestation.collateral.signatures import read_chain
from keyhouse.attestation.coordinator_appraisal import appraise, require_dcap
from keyhouse.base.errors import RefusedError
from keyhouse.base.hex_repr import Readable
from keyhouse.client.calls import ApiCall, line_quoting, quoting
from keyhouse.client.effects import HttpAnswer, Steps, work
from keyhouse.client.errors import (
    AnswerUnreadableError,
    CallRefusedError,
    CallUnknownError,
    ClientSetupError,
    TrustError,
)
from keyhouse.client.http.connection import BlockingConnection
from keyhouse.client.http.pinned_tls import watching_context
from keyhouse.client.http.retries import Retries, Rules, Timeouts, exchange
from keyhouse.client.line import (
    CheckName,
    LineRules,
    TrustCheck,
    checks_of,
    fingerprint_of,
    memory_check,
    require_line,
    verify_line,
    witness_check,
)
from keyhouse.client.log_policy import LOG_MAX_AGE, LogPolicy
from keyhouse.client.memory.states import Memories, ProvenHead, StateMemory, Watch
from keyhouse.client.public_log import SendCall, cosigned_checkpoint, newest_checkpoint
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

NONCE: Final = 32  # bytes, chosen: 256 random bits are never repeated
_CHAIN: Final = 2  # intermediate, root
CollateralFor = Callable[[bytes], Collateral]
"""Return the collateral for a quote.

May raise ``RefusedError`` (no trust) and ``UnavailableError``.
"""

_HINT = "do not use this coordinator: another machine may answer at this address"


class TrustedCoordinator(Readable, frozen=True):
    """A coordinator whose quote has been verified, and the certificate to pin."""

    address: Address
    root_der: bytes
    intermediate_der: bytes
    verdict: Verdict
    quote: bytes  # unchanged, for the records
    nonce: bytes  # the nonce in the quote
    memory: StateMemory | None = None  # for the check of each answer in a session
    is_unwitnessed: bool = False  # a policy demanded witnesses, and there was no log
    line: RootLine | None = None  # of the root; None: the coordinator serves no line
    line_before: int = 0  # number of line entries in the memory before
    checks: tuple[TrustCheck, ...] = ()
    is_without_line: bool = False  # a rule demanded a line, and there was no line
    trust: "Trust | None" = None  # verifies later lines; None: the coordinator serves no line

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return all fields except ``trust``, which contains a bundle of collateral."""
        return [each for each in super().__rich_repr__() if each[0] != "trust"]

    def check(self, name: CheckName) -> TrustCheck | None:
        """Return the check with this name, or None."""
        return next((each for each in self.checks if each.name == name), None)


class Trust(Readable, frozen=True, kw_only=True):
    """The coordinator to trust, and the means to verify its quotes.

    ``collateral`` is a bundle, or a function that returns the bundle for a quote. The function may
    block.

    ``first_manifest`` is the first manifest of the deployment, or its fingerprint in hex. A host
    can begin a deployment, learn the root key, and then update to the manifest that you expect.
    Only the first manifest shows this attack. With ``manifests="all"``, you must have accepted each
    later manifest: ``accepted_manifests`` has the manifest or its fingerprint, or the memory shows
    the acceptance (``keyhouse trust accept``).
    """

    expected: ExpectedIdentity
    collateral: Collateral | CollateralFor
    root_ca_der: bytes = INTEL_SGX_ROOT  # of the platform's vendor
    log_policy: LogPolicy | None = None  # None demands no witness
    first_manifest: bytes | str = ""  # empty accepts any
    manifests: Literal["", "all"] = ""
    accepted_manifests: tuple[bytes | str, ...] = ()

    @property
    def line_rules(self) -> LineRules:
        """The rules for the line of the root. Raises ``ClientSetupError``."""
        if self.manifests not in {"", "all"}:
            raise ClientSetupError(
                f"manifests is {self.manifests!r}, must be all or empty", hint='pass "all" or ""'
            )
        if self.accepted_manifests and not self.manifests:
            raise ClientSetupError.no_effect("accepted_manifests", 'also pass manifests="all"')
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
        """Return the trust in the identity of an attestation file. The options match the commands.

        ``collateral`` is a bundle. Alternatively, ``pccs`` is the URL of a PCCS, and ``pccs_ca`` is
        the only CA (PEM) for its certificate. ``simulation_root`` trusts a SIMULATED platform under
        this root (PEM); its default bundle is ``collateral.json`` in the same directory. A nonempty
        list of accepted TCB statuses or advisories replaces the list in the attestation file.

        ``witness_policy`` is a file of witnesses (C2SP tlog-policy). A quorum of them must have
        seen the transparency log at most ``log_max_age`` seconds ago. ``first_manifest`` and
        ``manifests`` have the meaning of ``Trust``. Raises ``RefusedError`` for unusable files.
        """
        lists = {"statuses": accepted_tcb_statuses, "advisories": accepted_advisories}
        for name, listed in lists.items():
            if isinstance(listed, str):
                raise TypeError(f"the accepted {name} must be a list: [{listed!r}]")
        expected = expected_identity(
            read_named(attestation), accepted_tcb_statuses, accepted_advisories
        )
        root = INTEL_SGX_ROOT
        if simulation_root:
            root = certificate_der(read_named(simulation_root), simulation_root)
        source = collateral_of(bundle_file(collateral, simulation_root, pccs), pccs, pccs_ca, root)
        policy = LogPolicy.from_file(witness_policy, log_max_age) if witness_policy else None
        return cls(
            expected=expected,
            collateral=source,
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

    ``collateral`` is a bundle, or a function that returns the bundle for the quote. ``root_ca_der``
    is the root of the platform's vendor (``INTEL_SGX_ROOT``, or a simulated root). Without a
    ``nonce``, the nonce of ``expected`` or 32 fresh bytes are used. ``now`` defaults to the current
    time. ``timeout``, in seconds, is for the whole call.

    ``memory`` stores the root at this address and its states. This call and each session with the
    result use the memory. A quote cannot show an older copy of the state, two diverged copies, or
    another deployment with the same code. Without a memory these attacks stay unnoticed. Omit the
    memory only for a coordinator in recovery mode, because its root is temporary.

    ``log_policy`` names the witnesses that must have seen the log. ``first_manifest`` and
    ``manifests`` are rules for the line; see ``Trust``. A coordinator without a manifest has
    neither log nor line. With any of these demands, a session with such a coordinator can only set
    the first manifest, recover, and read public data. Connect again for all further calls.

    Raises ``TrustError`` for a failed proof, ``UnreachableError`` without an answer, and the errors
    of an unusable ``memory``.
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
    """Return the coordinator at ``address`` if ``trust`` holds; see ``verify_coordinator``."""
    where, seen = _address(address), list[bytes]()
    rules = Rules(Timeouts.of(timeout), retries)
    with BlockingConnection(where, watching_context(seen.append), rules.timeouts) as connection:
        return connection.run(verification_steps(where, trust, memory, rules, seen, nonce, now))


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
        return await connection.run(
            verification_steps(where, trust, memory, rules, seen, nonce, now)
        )


def parse_address(text: str) -> Address:
    """Parse ``host``, ``host:port`` or ``[IPv6]:port``. The default port is 4433.

    Raises ``ClientSetupError``.
    """
    return read_address(text, port=CLIENT_API_PORT, refused=ClientSetupError)


def _address(address: Address | str) -> Address:
    return parse_address(address) if isinstance(address, str) else address


def verification_steps(
    where: Address,
    trust: Trust,
    memory: StateMemory | None,
    rules: Rules,
    seen: list[bytes],
    nonce: bytes | None,
    now: datetime | None,
) -> Steps[TrustedCoordinator]:
    """Return the coordinator at ``where`` if it proves to be the expected coordinator.

    ``seen`` gets the leaf (DER) of each handshake of the connection for these steps. ``rules`` are
    timeouts and retries. Without a ``nonce``, the nonce of the expected identity or 32 fresh bytes
    are used. ``now`` is the time for all quotes; None: the current time.
    """
    challenge = nonce or trust.expected.nonce or secrets.token_bytes(NONCE)
    line_rules = trust.line_rules
    before = (yield from work(memory.read)) if memory is not None else Memories()
    call = quoting(challenge)
    raw = yield from exchange(call.request, rules, seen.clear)
    if len(seen) != 1:  # with several handshakes, the peer of the answer is unknown
        raise _untrusted("the quote did not come over the connection of its request")
    data, leaf = call.read(raw), seen[0]
    coordinator = yield from work(
        lambda: verify_evidence(where, trust, data, leaf, challenge, now, memory)
    )
    watch = Watch(memory, where, coordinator.root_der)
    send = _caller_of(rules, raw, seen, coordinator.root_der)
    if memory is not None or trust.log_policy is not None:
        # Without a manifest in force, the coordinator has no log.
        policy = trust.log_policy if raw.state is not None else None
        head = yield from prove_log(send, watch, before, raw, policy, now)
        yield from work(lambda: watch.check(before, raw, head))
        if policy is not trust.log_policy:
            coordinator = msgspec.structs.replace(coordinator, is_unwitnessed=True)
    has_manifest = raw.state is not None
    caller = send if has_manifest else None
    return (yield from with_line(coordinator, trust, line_rules, caller, before, now))


def fetch_line(
    send: SendCall, trust: Trust, root_der: bytes, now: datetime | None = None
) -> Steps[RootLine | str]:
    """Return the line of the root, bound by a quote; or a text with the reason for its absence.

    Raises ``TrustError``.
    """
    nonce = secrets.token_bytes(NONCE)
    try:
        data = yield from send(line_quoting(nonce))
    except CallUnknownError:
        return "the coordinator's version serves no line"
    except CallRefusedError as refused:  # an old root whose line has not begun yet
        return f"the coordinator serves no line: {refused.message}"
    binding = quote_binding(root_der, nonce)
    return (
        yield from work(
            lambda: verify_line(
                data, root_der, nonce, lambda quote: _verify_quote(trust, quote, binding, now)
            )
        )
    )


def with_line(
    coordinator: TrustedCoordinator,
    trust: Trust,
    rules: LineRules,
    send: SendCall | None,
    before: Memories,
    now: datetime | None,
) -> Steps[TrustedCoordinator]:
    """Return ``coordinator`` with its verified line and the results of all checks.

    ``send`` sends a call to the coordinator. None: no manifest is in force, so there is no line.
    ``before`` are the memories from before the verification. ``now`` is the time for the quote of
    the line; None: the current time. Raises ``TrustError``.
    """
    watch = Watch(coordinator.memory, coordinator.address, coordinator.root_der)
    seen = watch.line(before)
    line: RootLine | str = "no manifest is in force"
    if send is not None:
        line = yield from fetch_line(send, trust, coordinator.root_der, now)
        require_line(line, rules, seen)
    proven_line = line if isinstance(line, RootLine) else None
    if proven_line is not None:
        yield from work(lambda: watch.remember_line(proven_line))
    checks = (
        TrustCheck(CheckName.CODE, done=True, text="a quote proves the coordinator's code"),
        *checks_of(line, rules, seen),
        memory_check(watch.newest(before), has_memory=coordinator.memory is not None),
        witness_check(
            demanded=trust.log_policy is not None, has_log=not coordinator.is_unwitnessed
        ),
    )
    return msgspec.structs.replace(
        coordinator,
        line=proven_line,
        line_before=0 if seen is None else seen.number,
        checks=checks,
        is_without_line=rules.demand_line and proven_line is None,
        trust=trust if send is None or proven_line is not None else None,
    )


def _caller_of(rules: Rules, answer: HttpAnswer, seen: list[bytes], root_der: bytes) -> SendCall:
    """Return a function that sends further calls to the peer that gave ``answer``.

    Each call demands a state that continues the state in ``answer``. ``seen`` has the leaves of all
    handshakes: the function raises ``TrustError`` if a leaf is not ``root_der``.
    """

    def send(call: ApiCall[T]) -> Steps[T]:
        at_least = answer.state or ""
        request = msgspec.structs.replace(call.request, at_least=at_least)
        reply = yield from exchange(request, rules)
        if any(leaf != root_der for leaf in seen):
            raise _untrusted("another peer answered a call after the quote")
        return call.read(reply)

    return send


def prove_log(
    send: SendCall,
    watch: Watch,
    before: Memories,
    answer: HttpAnswer,
    policy: LogPolicy | None = None,
    now: datetime | None = None,
    ahead: int = 0,
) -> Steps[ProvenHead | None]:
    """Return the newest head of the coordinator's log, proven to continue the remembered heads.

    The proof covers the heads that ``answer`` leaves unproven (``Watch.unproven``). With a
    ``policy``, its witnesses have also seen the log, by the clock ``now`` (None: the current time).
    If no head needs a proof and there is no ``policy``, request nothing and return None.

    ``send`` sends calls to the coordinator. ``before`` are the memories from before the request for
    ``answer``. No proof is made if the log has at most ``ahead`` leaves more than the last proven
    head. Raises ``TrustError``.
    """
    heads = yield from work(lambda: watch.unproven(before, answer, ahead))
    if not heads and policy is None:
        return None
    try:
        checkpoint = yield from newest_checkpoint(send, watch.root_der, heads)
    except (AnswerUnreadableError, CallRefusedError) as error:
        raise TrustError(f"the coordinator's log cannot be read: {error.message}") from error
    if policy is not None:
        seen = yield from cosigned_checkpoint(send, watch.root_der, checkpoint)
        policy.require(seen, now or datetime.now(UTC))
    return ProvenHead(LogHead.of(checkpoint.size, checkpoint.root), heads)


def verify_evidence(
    where: Address,
    trust: Trust,
    data: EvidenceData,
    leaf: bytes,
    nonce: bytes,
    now: datetime | None,
    memory: StateMemory | None,
) -> TrustedCoordinator:
    """Return the coordinator if the quote in ``data`` is about the owner of ``leaf``.

    ``leaf`` is the certificate (DER) of the handshake, and ``nonce`` is the nonce of the request
    for the quote. Raises ``TrustError``. The function may block.
    """
    try:
        intermediate, root = _chain(data.cert)
        _require_served(leaf, root)
        _require_issued(intermediate, root)
        verdict = _verify_quote(trust, data.quote, quote_binding(root, nonce), now)
    except TrustError:
        raise
    except RefusedError as exc:
        raise TrustError(
            f"the coordinator at {where} is not trusted: {exc.message}", hint=exc.hint or _HINT
        ) from exc
    return TrustedCoordinator(where, root, intermediate, verdict, data.quote, nonce, memory)


def _verify_quote(trust: Trust, quote: bytes, binding: bytes, now: datetime | None) -> Verdict:
    """Return the verdict on ``quote``, which must bind the bytes ``binding`` and the expected code.

    Raises ``RefusedError``. The function may block.
    """
    require_dcap(quote)
    source = trust.collateral
    collateral = source if isinstance(source, Collateral) else source(quote)
    verdict = Verifier(trust.root_ca_der).verify(quote, collateral, now or datetime.now(UTC))
    appraise(verdict, trust.expected, binding=binding)
    return verdict


def _chain(pem: str) -> tuple[bytes, bytes]:
    chain = read_chain(pem, "the coordinator's certificate chain")
    if len(chain) != _CHAIN:
        raise _untrusted(
            f"the answer has {len(chain)} certificates, expected 2: intermediate and root"
        )
    return chain[0], chain[1]


def _require_served(leaf: bytes, root: bytes) -> None:
    if leaf != root:
        raise _untrusted("its TLS certificate is not the root of its quote")


def _require_issued(intermediate: bytes, root: bytes) -> None:
    try:
        child = x509.load_der_x509_certificate(intermediate)
        child.verify_directly_issued_by(x509.load_der_x509_certificate(root))
        is_ca = child.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # noqa: BLE001 parsers raise many things on invalid bytes
        raise _untrusted("the intermediate certificate is not signed by the root") from None
    if not is_ca:
        raise _untrusted("the intermediate certificate is not a CA")


def _untrusted(problem: str) -> TrustError:
    return TrustError(f"the coordinator is not trusted: {problem}", hint=_HINT)
