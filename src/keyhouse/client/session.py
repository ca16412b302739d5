"""Sessions with a verified coordinator and no other peer: blocking, or on an event loop.

The operations are written once (``operations``), and both have them as methods that are generated
from there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from keyhouse.base.secret import Secret
from keyhouse.client.exchange import Session
from keyhouse.client.from_context import User, described
from keyhouse.client.http.connection import Connection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.http.pinned_tls import PeerContext, pinned_context
from keyhouse.client.http.retries import Retries, Rules, Timeouts
from keyhouse.client.memory.states import StateMemory
from keyhouse.client.methods import AsyncMethods, Methods
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.openssl_program import TokenTls
from keyhouse.client.trust import Trust, TrustedCoordinator, verify, verify_async
from keyhouse.wire.address import Address


class _Pinned:
    """What both kinds of sessions show of the coordinator that they are with."""

    _session: Session

    @property
    def trusted(self) -> TrustedCoordinator:
        """What was verified, and is pinned."""
        return self._session.trusted

    @property
    def log_head(self) -> str:
        """The head of the transparency log that the newest answer told; "": it told none.

        While it stays the same so do the manifest in force and all other decisions in the log.
        """
        return self._session.log_head


class Coordinator(_Pinned, Methods):
    """A session with ``trusted``, with blocking calls. Each TLS handshake pins its root.

    What all operations raise: see ``Methods``.

    ``identity``: the user. ``timeout`` in seconds for each whole call, or ``Timeouts``.
    Use it with ``with``; for one thread at a time.
    """

    def __init__(
        self,
        trusted: TrustedCoordinator,
        identity: User | None = None,
        *,
        timeout: float | Timeouts = 60.0,
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> None:
        timeouts = Timeouts.of(timeout)
        self._session = Session(trusted, Rules(timeouts, retries), identity)
        context, token = _tls(trusted, identity)
        transport = None
        if token is not None:  # else it need not be imported, which takes as long as the rest
            from keyhouse.client.tokens.transport import TokenTransport

            transport = TokenTransport(token, context)
        self._connection = Connection(trusted.address, context, timeouts, transport)

    @classmethod
    def connect(
        cls,
        address: Address | str,
        trust: Trust,
        user: User | None = None,
        *,
        memory: StateMemory | None = None,
        timeout: float | Timeouts = 60.0,
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> Self:
        """Verify the coordinator at ``address`` with a fresh nonce; return a session that pins it.

        ``memory`` notices a rollback; see ``verify_coordinator``, also for what it raises.
        """
        trusted = verify(address, trust, memory, timeout=timeout, retries=retries)
        return cls(trusted, user, timeout=timeout, retries=retries)

    @classmethod
    def from_context(
        cls,
        name: str = "",
        *,
        password: Secret | None = None,
        timeout: float | Timeouts = 60.0,
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> Self:
        """Connect as a context of ``keyhouse context`` describes: address, trust, user, memory.

        "": that of ``$KEYHOUSE_CONTEXT``, or the one in use. ``password``: of the user's key,
        PKCS #12 file or token. Raises ``ContextUnusableError``, and what ``connect`` does.
        """
        found = described(name, password)
        return cls.connect(
            found.address,
            found.trust,
            found.user,
            memory=found.memory,
            timeout=timeout,
            retries=retries,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()


class AsyncCoordinator(_Pinned, AsyncMethods):
    """A session with ``trusted``, on an event loop of asyncio. Each TLS handshake pins its root.

    As ``Coordinator``, but its operations are awaited, and many may run at a time. What may block,
    files and the check of quotes, runs in threads.
    """

    def __init__(
        self,
        trusted: TrustedCoordinator,
        identity: User | None = None,
        *,
        timeout: float | Timeouts = 60.0,
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> None:
        timeouts = Timeouts.of(timeout)
        self._session = Session(trusted, Rules(timeouts, retries), identity)
        context, token = _tls(trusted, identity)
        transport = None
        if token is not None:
            from keyhouse.client.tokens.transport import AsyncTokenTransport

            transport = AsyncTokenTransport(token, context)
        self._connection = AsyncConnection(trusted.address, context, timeouts, transport)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        address: Address | str,
        trust: Trust,
        user: User | None = None,
        *,
        memory: StateMemory | None = None,
        timeout: float | Timeouts = 60.0,  # noqa: ASYNC109 for each later call, too
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> AsyncIterator[Self]:
        """Verify the coordinator at ``address`` with a fresh nonce; give a session that pins it."""
        trusted = await verify_async(address, trust, memory, timeout=timeout, retries=retries)
        async with cls(trusted, user, timeout=timeout, retries=retries) as session:
            yield session

    @classmethod
    @asynccontextmanager
    async def from_context(
        cls,
        name: str = "",
        *,
        password: Secret | None = None,
        timeout: float | Timeouts = 60.0,  # noqa: ASYNC109 for each later call, too
        retries: Retries = Retries(),  # noqa: B008 it is frozen
    ) -> AsyncIterator[Self]:
        """Give a session as a context describes it; see ``Coordinator.from_context``."""
        import asyncio

        found = await asyncio.to_thread(described, name, password)
        async with cls.connect(
            found.address,
            found.trust,
            found.user,
            memory=found.memory,
            timeout=timeout,
            retries=retries,
        ) as session:
            yield session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()


def _tls(trusted: TrustedCoordinator, user: User | None) -> tuple[PeerContext, TokenTls | None]:
    """Return the context that pins the root and, for a key on a token, what its TLS needs."""
    context = pinned_context(trusted.root_der)
    if isinstance(user, TokenIdentity):
        return context, TokenTls(user, trusted.root_der)
    if user is not None:
        user.present(context)
    return context, None
