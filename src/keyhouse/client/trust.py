"""Finds out whether a coordinator is the expected one, before anything is told to it.

1. Connect, trusting nobody, and ask for a quote over a fresh nonce.
2. The certificate served in that handshake is the root of the answer's chain: who proved to own
   its key is who the quote is about.
3. The intermediate is a CA that the root has signed.
4. The quote verifies under the pinned root of the platform's maker, at this time.
5. It binds the root certificate and the nonce, and is of the expected identity.
6. With a memory: it is the deployment that was here before, and in no older state.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from keyhouse.attestation import (
    Collateral,
    ExpectedIdentity,
    Verdict,
    Verifier,
    appraise,
    quote_binding,
)
from keyhouse.attestation.chain import read_chain
from keyhouse.client.address import Address, parse_address
from keyhouse.client.answers import QuoteAnswer, data_of
from keyhouse.client.connection import Answer, Connection
from keyhouse.client.errors import TrustFailed
from keyhouse.client.memory import Memories, StateMemory, Watch, require_root_of
from keyhouse.client.pinned_tls import watching_context
from keyhouse.wire.errors import Refused

__all__ = ["CollateralFor", "TrustedCoordinator", "verify_coordinator"]

NONCE = 32
_MAX_QUOTE_ANSWER = 1 << 20
_CHAIN = 2  # intermediate, root
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


def verify_coordinator(
    address: Address | str,
    *,
    expected: ExpectedIdentity,
    root_ca_der: bytes,
    collateral: Collateral | CollateralFor,
    nonce: bytes | None = None,
    now: datetime | None = None,
    timeout: float = 30.0,
    memory: StateMemory | None = None,
) -> TrustedCoordinator:
    """Return the coordinator at ``address`` if it proves to be ``expected``.

    ``collateral``: a bundle, or what gives the one for the quote.
    ``root_ca_der`` is the root of the platform's maker (``INTEL_SGX_ROOT``, or a simulated one).
    ``nonce``: the one of ``expected`` or 32 fresh bytes if not given. ``now``: the present if not
    given. ``timeout`` in seconds, for the whole call.

    ``memory`` remembers the root at this address and the states that it was in, here and in each
    session with the result. Without one nobody notices an older copy of the state, two copies that
    run apart, or another deployment by the same code: a quote cannot show them. Only to talk to a
    coordinator in recovery mode, whose root is a temporary one, there is no other way.

    Raises ``TrustFailed`` if it does not prove it, ``Unreachable`` if it does not answer, and what
    ``memory`` raises if it cannot be used.
    """
    where = parse_address(address) if isinstance(address, str) else address
    challenge = nonce or expected.nonce or secrets.token_bytes(NONCE)
    before = memory.read() if memory is not None else Memories()
    raw, leaf = _ask(where, challenge, timeout)
    answer = data_of(raw, QuoteAnswer)
    try:
        intermediate, root = _chain(answer.data.cert)
        _require_served(leaf, root)
        _require_issued(intermediate, root)
        verdict = Verifier(root_ca_der).verify(
            answer.data.quote, _for(collateral, answer.data.quote), now or datetime.now(UTC)
        )
        appraise(verdict, expected, binding=quote_binding(root, challenge))
    except TrustFailed:
        raise
    except Refused as exc:
        raise TrustFailed(
            f"the coordinator at {where} is not trusted: {exc.message}", hint=exc.hint or _HINT
        ) from exc
    if memory is not None:
        _require_remembered(memory, before, where, root, raw)
    return TrustedCoordinator(
        where, root, intermediate, verdict, answer.data.quote, challenge, memory
    )


def _for(collateral: Collateral | CollateralFor, quote: bytes) -> Collateral:
    return collateral if isinstance(collateral, Collateral) else collateral(quote)


def _ask(where: Address, nonce: bytes, timeout: float) -> tuple[Answer, bytes]:
    seen: list[bytes] = []
    text = base64.urlsafe_b64encode(nonce).decode()
    with Connection(where, watching_context(seen.append), timeout) as connection:
        answer = connection.call(
            "GET", "/api/v2/quote", query=[("nonce", text)], maximum=_MAX_QUOTE_ANSWER
        )
    if len(seen) != 1:  # several handshakes: which one gave the answer would be a guess
        raise _untrusted("the quote did not come over the one connection made for it")
    return answer, seen[0]


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
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
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
