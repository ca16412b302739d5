"""Sessions of the SDK for tests of both kinds of sessions: blocking, and on an event loop."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final, Literal

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.client import Address, AsyncCoordinator, Coordinator, Trust, TrustedCoordinator, User
from support.peers.peer import Peer
from support.process.server import Server

__all__ = ["MODES", "Mode", "connected", "session_with", "trust_in_peer", "trust_in_server"]

Mode = Literal["blocking", "asyncio"]
MODES: Final[tuple[Mode, ...]] = ("blocking", "asyncio")


class _Awaited:
    """Wraps an asyncio session so that its operations block."""

    def __init__(self, runner: asyncio.Runner, session: AsyncCoordinator) -> None:
        self._runner = runner
        self._session = session

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._session, name)
        return lambda *args, **kwargs: self._runner.run(operation(*args, **kwargs))


@contextmanager
def connected(
    mode: Mode,
    address: Address | str,
    trust: Trust,
    user: User | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Yield a session: a ``Coordinator``, or a wrapped ``AsyncCoordinator`` that blocks."""
    if mode == "blocking":
        with Coordinator.connect(address, trust, user, **options) as session:
            yield session
        return
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        entering = stack.enter_async_context(
            AsyncCoordinator.connect(address, trust, user, **options)
        )
        awaited = _Awaited(runner, runner.run(entering))
        try:
            yield awaited
        finally:
            runner.run(stack.aclose())


@contextmanager
def session_with(
    mode: Mode, trusted: TrustedCoordinator, user: User | None = None, **options: Any
) -> Iterator[Any]:
    """Yield a session, as ``connected`` does, with a coordinator that is already verified."""
    if mode == "blocking":
        with Coordinator(trusted, user, **options) as session:
            yield session
        return
    with asyncio.Runner() as runner:

        async def opened() -> AsyncCoordinator:
            return AsyncCoordinator(trusted, user, **options)

        awaited = runner.run(opened())
        try:
            yield _Awaited(runner, awaited)
        finally:
            runner.run(awaited.close())


def trust_in_server(server: Server) -> Trust:
    """Return the trust from the files that the server's simulated platform has written."""
    folder = server.data / "simulation"
    return Trust(
        expected=read_expected_identity((folder / "attestation.json").read_bytes()),
        collateral=read_collateral((folder / "collateral.json").read_bytes()),
        root_ca_der=ssl.PEM_cert_to_DER_cert((folder / "root.pem").read_text()),
    )


def trust_in_peer(peer: Peer) -> Trust:
    """Return the trust in the simulated platform of ``peer``."""
    return Trust(
        expected=peer.platform.expected_identity,
        collateral=peer.platform.collateral,
        root_ca_der=peer.platform.root_ca,
    )
