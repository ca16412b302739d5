"""Verifies a coordinator over a connection of its own, before there is a session."""

from datetime import datetime

from keyhouse.attestation import Collateral, ExpectedIdentity
from keyhouse.client.address import Address, parse_address
from keyhouse.client.http.connection import Connection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.http.exchange import Rules
from keyhouse.client.http.retries import Retries, Timeouts
from keyhouse.client.memory.memory import StateMemory
from keyhouse.client.pinned_tls import watching_context
from keyhouse.client.trust import CollateralFor, Trust, TrustedCoordinator, verifying

__all__ = ["verify", "verify_async", "verify_coordinator"]


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
) -> TrustedCoordinator:
    """Return the coordinator at ``address`` if it proves to be ``expected``.

    ``collateral``: a bundle, or what gives the one for the quote.
    ``root_ca_der`` is the root of the platform's vendor (``INTEL_SGX_ROOT``, or a simulated one).
    ``nonce``: the one of ``expected`` or 32 fresh bytes if not given. ``now``: the present if not
    given. ``timeout`` in seconds, for the whole call.

    ``memory`` remembers the root at this address and the states that it was in, here and in each
    session with the result. Without one nobody notices an older copy of the state, two copies that
    run apart, or another deployment by the same code: a quote cannot show them. Only to talk to a
    coordinator in recovery mode, whose root is a temporary one, there is no other way.

    Raises ``TrustFailed`` if it does not prove it, ``Unreachable`` if it does not answer, and what
    ``memory`` raises if it cannot be used.
    """
    trust = Trust(expected=expected, collateral=collateral, root_ca_der=root_ca_der)
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
    where, seen = _address(address), list[bytes]()
    rules = Rules(Timeouts.of(timeout), retries)
    async with AsyncConnection(where, watching_context(seen.append), rules.timeouts) as connection:
        return await connection.run(verifying(where, trust, memory, rules, seen, nonce, now))


def _address(address: Address | str) -> Address:
    return parse_address(address) if isinstance(address, str) else address
