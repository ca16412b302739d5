"""Finds out whether a coordinator is the expected one, before anything is told to it.

1. Connect, trusting nobody, and ask for a quote over a fresh nonce.
2. The certificate served in that handshake is the root of the answer's chain: who proved to own
   its key is who the quote is about.
3. The intermediate is a CA that the root has signed.
4. The quote verifies under the pinned root of the platform's vendor, at this time.
5. It binds the root certificate and the nonce, and is of the expected identity.
6. With a memory: it is the deployment that was here before, and in no older state.
"""

import hashlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography import x509

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    ExpectedIdentity,
    Verdict,
    Verifier,
    appraise,
    quote_binding,
)
from keyhouse.attestation.collateral.chain import read_chain
from keyhouse.base.errors import Refused
from keyhouse.client.address import Address
from keyhouse.client.calls import quoting
from keyhouse.client.errors import TrustFailed
from keyhouse.client.http.exchange import Rules, exchange
from keyhouse.client.memory.memory import Memories, StateMemory, Watch, require_root_of
from keyhouse.client.steps import Answer, Steps, work
from keyhouse.wire.client_api import EvidenceData

__all__ = ["NONCE", "CollateralFor", "Trust", "TrustedCoordinator", "proven", "verifying"]

NONCE: Final = 32  # bytes
_CHAIN: Final = 2  # intermediate, root
CollateralFor = Callable[[bytes], Collateral]
"""Has the collateral for a quote; may raise ``Refused`` (no trust) and ``Unavailable``."""

_HINT = "do not use it: it may be another machine that answers at this address"


class TrustedCoordinator(msgspec.Struct, frozen=True):
    """A coordinator whose quote has been verified, and what to pin when talking to it."""

    address: Address
    root_der: bytes
    intermediate_der: bytes
    verdict: Verdict
    quote: bytes  # as it came, for the records
    nonce: bytes  # that it was made for
    memory: StateMemory | None = None  # sessions judge each answer by it


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to trust, and what to verify quotes with.

    ``collateral``: a bundle, or what gives the one for a quote; that one may block.
    """

    expected: ExpectedIdentity
    collateral: Collateral | CollateralFor
    root_ca_der: bytes = INTEL_SGX_ROOT  # of the platform's vendor


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

    ``seen`` gets the leaf (DER) of each handshake of the connection that these steps go over.
    ``nonce``: that of the expected identity or 32 fresh bytes if not given.
    """
    challenge = nonce or trust.expected.nonce or secrets.token_bytes(NONCE)
    before = (yield from work(memory.read)) if memory is not None else Memories()
    call = quoting(challenge)
    raw = yield from exchange(call.request, rules, seen.clear)
    if len(seen) != 1:  # several handshakes: which one gave the answer would be a guess
        raise _untrusted("the quote did not come over the one connection made for it")
    data, leaf = call.read(raw), seen[0]
    found = yield from work(lambda: proven(where, trust, data, leaf, challenge, now, memory))
    if memory is not None:
        kept = memory
        yield from work(lambda: _require_remembered(kept, before, where, found.root_der, raw))
    return found


def proven(
    where: Address,
    trust: Trust,
    data: EvidenceData,
    leaf: bytes,
    nonce: bytes,
    now: datetime | None,
    memory: StateMemory | None,
) -> TrustedCoordinator:
    """Return what the quote in ``data`` proves of the owner of the certificate ``leaf`` (DER).

    ``nonce``: what the quote was asked for with. Raises ``TrustFailed``; may block.
    """
    try:
        intermediate, root = _chain(data.cert)
        _require_served(leaf, root)
        _require_issued(intermediate, root)
        verdict = Verifier(trust.root_ca_der).verify(
            data.quote, _for(trust.collateral, data.quote), now or datetime.now(UTC)
        )
        appraise(verdict, trust.expected, binding=quote_binding(root, nonce))
    except TrustFailed:
        raise
    except Refused as exc:
        raise TrustFailed(
            f"the coordinator at {where} is not trusted: {exc.message}", hint=exc.hint or _HINT
        ) from exc
    return TrustedCoordinator(where, root, intermediate, verdict, data.quote, nonce, memory)


def _for(collateral: Collateral | CollateralFor, quote: bytes) -> Collateral:
    return collateral if isinstance(collateral, Collateral) else collateral(quote)


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
    except Exception:  # noqa: BLE001 - what a stranger's bytes make a parser raise is no matter
        raise _untrusted("its intermediate certificate is not signed by its root") from None
    if not is_ca:
        raise _untrusted("its intermediate certificate is of no CA")


def _require_remembered(
    memory: StateMemory, before: Memories, where: Address, root: bytes, answer: Answer
) -> None:
    """Require that ``answer`` goes on from what was remembered ``before`` the quote was asked for.

    The state came before the root was proven, but over the connection that the root has.
    """
    digest = hashlib.sha256(root).hexdigest()
    require_root_of(memory.read(), where, digest)
    known = before.highest(digest)
    Watch(memory, where, root).judge(known, answer.state, answer.http_status)


def _untrusted(problem: str) -> TrustFailed:
    return TrustFailed(f"the coordinator is not trusted: {problem}", hint=_HINT)
