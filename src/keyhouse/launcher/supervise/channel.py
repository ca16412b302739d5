"""The calls of the channel: each checks the server first, and its answer before any use.

``Challenge`` and ``Renew`` belong to one connection. ``Fetch`` and ``Watch`` use a connection with
the newest key. Before the evidence leaves, the server has proven that it belongs to the deployment:
its marble root has the key of an intermediate that the pinned root has signed. ``Fetch`` and
``Watch`` accept only the marble root of the last renewal. So an update leads to a renewal, which
verifies the new marble root.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from keyhouse.attestation import Platform
from keyhouse.attestation.kinds.table import in_transport
from keyhouse.attestation.quote.binding import DIGEST, renewal_report_data
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import AnswerUnreadableError
from keyhouse.launcher.supervise.certificates import Identity, RenewalAnswer
from keyhouse.launcher.supervise.channel_connection import (
    DEADLINE,
    ChannelConnection,
    SupervisedWorkload,
    connected,
)
from keyhouse.launcher.supervise.schedule import ChannelError
from keyhouse.launcher.trust import require_deployment, require_renewed
from keyhouse.wire import workload_pb2 as wire

_SILENCE: Final = 120.0
"""Seconds without a message of a lasting ``Watch``. The coordinator sends one each minute."""

_A_DAY: Final = 86_400.0  # seconds, for the server: a lasting stream has no other end


class Seen:
    """The newest place of the journal that this process has seen.

    The place does not prevent a rollback: the host can restart this process, which forgets the
    place.
    """

    def __init__(self) -> None:
        self._place = wire.Place()

    def place(self) -> wire.Place | None:
        """Return the newest known place, for a request; None before the first answer."""
        return self._place if self._place.chain else None

    def record(self, at: wire.Place) -> None:
        """Record ``at``, the place of the journal in an answer.

        Raises ``ChannelError`` if the coordinator's state does not continue the known place.
        """
        before = self._place
        if at.sequence < before.sequence:
            raise ChannelError("the coordinator serves an older state", refusal="unavailable")
        same = at.sequence == before.sequence
        if at.epoch < before.epoch or (same and before.chain and at.chain != before.chain):
            problem = "the coordinator's state does not continue its earlier state"
            raise ChannelError(
                problem,
                refusal="fork",
                hint="compare the coordinator's log with a mirror: keyhouse log mirror",
            )
        self._place = at


@asynccontextmanager
async def reading(
    workload: SupervisedWorkload, newest: Identity
) -> AsyncIterator[ChannelConnection]:
    """Connect with the certificate ``newest``, for any number of calls. Raises as ``connected``."""
    async with connected(workload, newest.own, newest.marble_root) as connection:
        yield connection


async def renew(
    workload: SupervisedWorkload,
    present: Credentials,
    fresh: Credentials,
    platform: Platform | None,
    seen: Seen,
) -> RenewalAnswer:
    """Renew over a new connection with the credentials ``present``. Otherwise as ``renew_over``.

    After an update, this connection proves the new marble root.
    """
    async with connected(workload, present) as connection:
        return await renew_over(connection, workload, present, fresh, platform, seen)


async def renew_over(
    connection: ChannelConnection,
    workload: SupervisedWorkload,
    present: Credentials,
    fresh: Credentials,
    platform: Platform | None,
    seen: Seen,
) -> RenewalAnswer:
    """Renew over ``connection`` with the credentials ``present``; get a certificate for ``fresh``.

    ``platform`` makes the evidence; None: the evidence is empty. ``seen``: the newest known place
    of the journal. Raises as ``connected``, and the errors of the platform.
    """
    answer = await connection.only("Challenge", wire.ChallengeRequest(seen=seen.place()))
    challenge = wire.ChallengeResponse.FromString(answer)
    require_deployment(connection.served, challenge.intermediate, workload.root)
    seen.record(challenge.at)
    request = wire.RenewRequest(
        nonce=challenge.nonce,
        csr=fresh.request,
        evidence=_evidence(platform, present, fresh, challenge.nonce),
        seen=seen.place(),
    )
    given = wire.RenewResponse.FromString(await connection.only("Renew", request))
    require_renewed(
        given.chain,
        request=fresh.request,
        served=connection.served,
        intermediate=challenge.intermediate,
        who=workload.who,
        kind=workload.kind,
    )
    seen.record(given.at)
    return RenewalAnswer(
        Identity(replace(fresh, certificate=given.chain[0]), given.chain[1], connection.served),
        given.now,
        given.renew_at,
        given.end,
        given.settle_seconds,
        frozenset(given.marble_roots),
    )


def _evidence(
    platform: Platform | None, present: Credentials, fresh: Credentials, nonce: bytes
) -> bytes:
    if platform is None:
        return b""
    if len(nonce) != DIGEST:
        raise AnswerUnreadableError(f"the coordinator's nonce must have {DIGEST} bytes")
    return in_transport(
        platform.quote(renewal_report_data(fresh.request, nonce, present.certificate))
    )


async def fetch(
    connection: ChannelConnection, have: wire.Version, seen: Seen
) -> wire.FetchResponse:
    """Fetch the parts of the parameters that have changed: ``have`` has the present digests.

    ``seen``: the newest known place of the journal. Raises the errors of ``connected``.
    """
    answer = await connection.only("Fetch", wire.FetchRequest(have=have, seen=seen.place()))
    given = wire.FetchResponse.FromString(answer)
    seen.record(given.at)
    return given


class Watching:
    """An open call ``Watch``: a lasting stream of messages of the coordinator, or one message."""

    def __init__(self, connection: ChannelConnection, seen: Seen) -> None:
        self._connection = connection
        self._seen = seen
        self.has_ended = False

    async def next(self, seconds: float) -> wire.WatchResponse | None:
        """Return the next message; None at the end of the stream, or after ``seconds``.

        The coordinator sends a message at least every 60 seconds. So with more than 120
        ``seconds``, the method raises ``ChannelError`` after 120 seconds without a message.
        """
        try:
            async with asyncio.timeout(min(seconds, _SILENCE)):
                answer = await self._connection.receive()
        except TimeoutError:
            if seconds > _SILENCE:
                problem = f"the coordinator sent no message for {_SILENCE:.0f} s"
                raise ChannelError(problem, refusal="away") from None
            return None
        if answer is None:
            self.has_ended = True
            return None
        given = wire.WatchResponse.FromString(answer)
        self._seen.record(given.at)
        return given


@asynccontextmanager
async def watching(
    connection: ChannelConnection, have: wire.Version, seen: Seen, *, once: bool
) -> AsyncIterator[Watching]:
    """Begin a ``Watch``, which ends with the context. The connection stays open.

    ``have``: the digests of the present parameters. ``seen``: the newest known place of the
    journal. ``once``: the coordinator sends one message. Raises as ``connected``.
    """
    asked = wire.WatchRequest(have=have, seen=seen.place(), once=once)
    await connection.begin("Watch", asked, DEADLINE if once else _A_DAY)
    try:
        yield Watching(connection, seen)
    finally:
        connection.cancel()
