"""Sessions with a verified coordinator and no other peer: blocking, or on an event loop.

The operations are written once (``operations``). ``Coordinator.status`` is a method that returns a
``Status``, ``AsyncCoordinator.status`` one to be awaited for it; type checkers know both.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, overload

from keyhouse.client import operations
from keyhouse.client.exchange import Session
from keyhouse.client.http.connection import Connection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.http.pinned_tls import PeerContext, pinned_context
from keyhouse.client.http.retries import Retries, Rules, Timeouts
from keyhouse.client.identity import UserIdentity
from keyhouse.client.memory.states import StateMemory
from keyhouse.client.steps import Steps
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.openssl_program import TokenTls
from keyhouse.client.tokens.transport import AsyncTokenTransport, TokenTransport
from keyhouse.client.trust import Trust, TrustedCoordinator, verify, verify_async
from keyhouse.wire.address import Address

__all__ = ["AsyncCoordinator", "Coordinator", "User"]

User = UserIdentity | TokenIdentity
"""A user, with a key that CPython's TLS can use or with one that stays on a token."""

P = ParamSpec("P")
T = TypeVar("T")


class _Operation(Generic[P, T]):
    """A method of both kinds of session, made of the same steps."""

    def __init__(self, steps: Callable[Concatenate[Session, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__
        whole = inspect.signature(steps)
        _, *parameters = whole.parameters.values()  # without the session
        result = get_args(whole.return_annotation)[-1]
        self.__signature__ = whole.replace(parameters=parameters, return_annotation=result)

    @overload
    def __get__(self, session: "Coordinator", owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(
        self, session: "AsyncCoordinator", owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, session: None, owner: type) -> Self: ...

    def __get__(self, session: Any, owner: type) -> Any:
        if session is None:
            return self
        bound = functools.partial(self._steps, session._session)  # noqa: SLF001 its own class

        @functools.wraps(self._steps)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return session.run(bound(*args, **kwargs))

        call.__signature__ = self.__signature__  # type: ignore[attr-defined]
        return call


class _Operations:
    """The operations on a verified coordinator.

    All operations raise ``TrustError`` if another peer answers, or if the state that came with the
    answer contradicts the memory; ``UnreachableError`` if there is no answer; ``CallRefusedError``
    or ``ServiceUnavailableError`` if the coordinator says no; ``AnswerUnreadableError`` if its
    answer is invalid.
    """

    status = _Operation(operations.status)
    attest = _Operation(operations.attest)
    openapi = _Operation(operations.openapi)
    manifest = _Operation(operations.manifest)
    verify_manifest = _Operation(operations.verify_manifest)
    set_manifest = _Operation(operations.set_manifest)
    plan = _Operation(operations.plan)
    update = _Operation(operations.update)
    acknowledge = _Operation(operations.acknowledge)
    pending = _Operation(operations.pending)
    cancel = _Operation(operations.cancel)
    update_log = _Operation(operations.update_log)
    activations = _Operation(operations.activations)
    secrets = _Operation(operations.read_secrets)
    write_secrets = _Operation(operations.write_secrets)
    sign_quote = _Operation(operations.sign_quote)
    raise_counter = _Operation(operations.raise_counter)
    recovery_offer = _Operation(operations.recovery_offer)
    recover = _Operation(operations.recover)
    recover_with = _Operation(operations.recover_with)
    recovery_secrets = _Operation(operations.recovery_secrets)

    def __init__(self, trusted: TrustedCoordinator, timeouts: Timeouts, retries: Retries) -> None:
        self._session = Session(trusted, Rules(timeouts, retries))

    @property
    def trusted(self) -> TrustedCoordinator:
        """What was verified, and is pinned."""
        return self._session.trusted


class Coordinator(_Operations):
    """A session with ``trusted``, with blocking calls. Each TLS handshake pins its root.

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
        super().__init__(trusted, timeouts, retries)
        context, token = _tls(trusted, identity)
        transport = TokenTransport(token, context) if token else None
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def run(self, steps: Steps[T]) -> T:
        """Carry out the steps of an operation."""
        return self._connection.run(steps)


class AsyncCoordinator(_Operations):
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
        super().__init__(trusted, timeouts, retries)
        context, token = _tls(trusted, identity)
        transport = AsyncTokenTransport(token, context) if token else None
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out the steps of an operation."""
        return await self._connection.run(steps)


def _tls(trusted: TrustedCoordinator, user: User | None) -> tuple[PeerContext, TokenTls | None]:
    """Return the context that pins the root and, for a key on a token, what its TLS needs."""
    context = pinned_context(trusted.root_der)
    if isinstance(user, TokenIdentity):
        return context, TokenTls(user, trusted.root_der)
    if user is not None:
        user.present(context)
    return context, None
