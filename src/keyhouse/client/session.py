"""Sessions with one verified coordinator: with blocking calls, or on an event loop.

``operations`` contains each operation once. The methods of both sessions are generated from this
module.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from keyhouse.base.secret import Secret
from keyhouse.client.exchange import OperationSession
from keyhouse.client.from_context import User, described
from keyhouse.client.http.connection import BlockingConnection
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
    """The properties of the verified coordinator, for blocking and asyncio sessions."""

    _session: OperationSession

    @property
    def trusted(self) -> TrustedCoordinator:
        """The verified coordinator, whose root is pinned."""
        return self._session.trusted

    @property
    def log_head(self) -> str:
        """The head of the transparency log in the newest answer, or "" without a log.

        While the head stays the same, the manifest in force and all other decisions in the log stay
        the same.
        """
        return self._session.log_head


class Coordinator(_Pinned, Methods):
    """A session of blocking calls to the verified coordinator ``trusted``.

    Each TLS handshake accepts only the root certificate of ``trusted``.

    ``identity`` is the user. ``timeout`` is in seconds for each whole call, or is ``Timeouts``.
    ``Methods`` lists the errors of all operations.

    Use the session with ``with``, and in one thread at a time.
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
        self._session = OperationSession(trusted, Rules(timeouts, retries), identity)
        context, token = _tls(trusted, identity)
        transport = None
        if token is not None:  # the import takes as long as all other steps
            from keyhouse.client.tokens.transport import TokenTransport

            transport = TokenTransport(token, context)
        self._connection = BlockingConnection(trusted.address, context, timeouts, transport)

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
        """Verify the coordinator at ``address`` with a fresh nonce; return a session with its root.

        ``memory`` detects a rollback. ``verify_coordinator`` explains the memory and the errors.
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
        """Connect with the address, trust, user and memory of a context (``keyhouse context``).

        An empty ``name`` selects the context of ``$KEYHOUSE_CONTEXT``, or else the current context.
        ``password`` is the password of the user's key, PKCS #12 file or token. Raises
        ``ContextUnusableError``, and the errors of ``connect``.
        """
        deployment = described(name, password)
        return cls.connect(
            deployment.address,
            deployment.trust,
            deployment.user,
            memory=deployment.memory,
            timeout=timeout,
            retries=retries,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of this session."""
        self._connection.close()


class AsyncCoordinator(_Pinned, AsyncMethods):
    """A session with the verified coordinator ``trusted``, on an event loop of asyncio.

    Each TLS handshake accepts only the root certificate of ``trusted``.

    The session offers the operations of ``Coordinator`` for ``await``, and many may run at a time.
    Blocking work, such as files and the verification of quotes, runs in threads.
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
        self._session = OperationSession(trusted, Rules(timeouts, retries), identity)
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
        """Verify the coordinator at ``address``; yield a session. See ``verify_coordinator``."""
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
        """Yield a session from a context; see ``Coordinator.from_context``."""
        import asyncio

        deployment = await asyncio.to_thread(described, name, password)
        async with cls.connect(
            deployment.address,
            deployment.trust,
            deployment.user,
            memory=deployment.memory,
            timeout=timeout,
            retries=retries,
        ) as session:
            yield session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this session."""
        await self._connection.close()


def _tls(trusted: TrustedCoordinator, user: User | None) -> tuple[PeerContext, TokenTls | None]:
    """Return the TLS context of a session: it accepts only the verified root of ``trusted``.

    If the user's key is on a token, the program ``openssl`` carries the connection. Then the second
    value has the inputs of this program. Otherwise the second value is None.
    """
    context = pinned_context(trusted.root_der)
    if isinstance(user, TokenIdentity):
        return context, TokenTls(user, trusted.root_der)
    if user is not None:
        user.present(context)
    return context, None
