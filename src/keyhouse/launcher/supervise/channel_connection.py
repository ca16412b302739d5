"""A connection of the channel, with the errors of its calls in the launcher's words."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from keyhouse.base.connect_errors import cause_of
from keyhouse.base.printable import excerpt
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import AnswerUnreadableError, CoordinatorNotTrustedError
from keyhouse.launcher.grpc_call import (
    AnswerMalformedError,
    CallFailedError,
    CallStatus,
    GrpcClient,
)
from keyhouse.launcher.supervise.schedule import ChannelError
from keyhouse.launcher.tls import ClientContext, PeerRefusedError
from keyhouse.launcher.trust import require_served
from keyhouse.wire.address import WORKLOAD_API, Address

DEADLINE: Final = 120.0
"""Seconds for an exchange. After an update, thousands of workloads may renew at once."""

_SERVICE: Final = "/keyhouse.workload.v1.Workload/"
_LONGEST_CODE: Final = 40  # characters
_WITHOUT_CODE: Final = {
    CallStatus.PERMISSION_DENIED: "forbidden",
    CallStatus.UNIMPLEMENTED: "unimplemented",
}
_TEMPORARY: Final = frozenset(
    {
        CallStatus.UNAVAILABLE,
        CallStatus.DEADLINE_EXCEEDED,
        CallStatus.RESOURCE_EXHAUSTED,
        CallStatus.FAILED_PRECONDITION,
        CallStatus.UNAUTHENTICATED,
    }
)
_HINTS: Final = {
    "not-enabled": "add Renewal to the marble type by an update of the manifest",
    "revoked": "read the user and the reason: keyhouse workload revocations",
    "superseded": "find out whether two copies of this workload run, or its key was stolen",
    "fork": "compare the coordinator's log with a mirror: keyhouse log mirror",
    "unimplemented": "update the coordinator",
}


class SupervisedWorkload(NamedTuple):
    """The workload of this process, the root of its deployment, and its coordinator."""

    address: Address
    root: bytes  # DER: the root of the deployment
    kind: str  # the marble type
    who: UUID


class ChannelConnection:
    """An open connection to the coordinator for calls of the channel.

    ``limit`` ends the connection ``DEADLINE`` seconds after the start of its last call. A call of
    ``begin`` has no such limit. ``served``: the coordinator's certificate in the handshake, DER.
    """

    def __init__(self, client: GrpcClient, served: bytes, limit: asyncio.Timeout) -> None:
        self._client = client
        self._limit = limit
        self.served = served

    async def only(self, method: str, message: Message) -> bytes:
        """Call ``method`` with the request ``message``; return the single answer, still encoded.

        ``method``: the name alone, such as ``Renew``.
        """
        self._limit.reschedule(asyncio.get_running_loop().time() + DEADLINE)
        return await self._client.only(_SERVICE + method, message.SerializeToString(), DEADLINE)

    async def begin(self, method: str, message: Message, seconds: float) -> None:
        """Begin the call ``method`` with any number of answers, which ends after ``seconds``.

        The connection then lasts as long as the call.
        """
        await self._client.send(_SERVICE + method, message.SerializeToString(), seconds)
        self._limit.reschedule(None)

    async def receive(self) -> bytes | None:
        """Return the next answer of the call, still encoded, or None after the last answer."""
        return await self._client.receive()

    def cancel(self) -> None:
        """End the call of ``begin``. Another call may follow on the connection."""
        self._client.cancel()


@asynccontextmanager
async def connected(
    workload: SupervisedWorkload, own: Credentials, marble_root: bytes | None = None
) -> AsyncIterator[ChannelConnection]:
    """Connect to the coordinator of ``workload`` with the certificate and key in ``own``.

    ``marble_root`` (DER) is the only acceptable certificate of the server. None: any marble root,
    which the caller verifies before evidence leaves.

    Raises:
        ChannelError: the connection, or a call in the context, has failed.
        CoordinatorNotTrustedError: the peer is not a coordinator.
        AnswerUnreadableError: the answer does not match the interface.
    """
    served: list[bytes] = []

    def check(leaf: bytes) -> None:
        require_served(leaf, None)
        if marble_root is not None and not hmac.compare_digest(leaf, marble_root):
            raise CoordinatorNotTrustedError(
                "the coordinator presented a different marble root than before"
            )
        served.append(leaf)

    context = ClientContext(own, check)
    try:
        async with (
            asyncio.timeout(DEADLINE) as limit,
            GrpcClient(workload.address, context) as client,
        ):
            yield ChannelConnection(client, served[-1], limit)
    except PeerRefusedError as error:
        if marble_root is None:
            raise error.reason_why from None
        raise ChannelError("the marble root has changed", refusal="renew-first") from None
    except CallFailedError as error:
        raise _refusal(error) from None
    except (AnswerMalformedError, DecodeError):
        raise AnswerUnreadableError(
            f"the peer at {workload.address} does not serve the workload API"
        ) from None
    except TimeoutError:
        raise ChannelError(f"{workload.address} sent no answer in time", refusal="away") from None
    except OSError as error:
        if served:
            problem = f"{workload.address} closed the connection before its answer"
            raise ChannelError(problem, refusal="away") from None
        cause = cause_of(error, WORKLOAD_API, in_tls=context.in_tls)
        problem = f"cannot connect to {workload.address}: {cause.problem}"
        raise ChannelError(problem, refusal="away", hint=cause.hint) from None


def _refusal(error: CallFailedError) -> ChannelError:
    refusal = error.code or _WITHOUT_CODE.get(error.status, "unavailable")
    words = excerpt(error.message or "no reason given")
    return ChannelError(
        f"the coordinator refused the call ({excerpt(refusal[:_LONGEST_CODE])}): {words}",
        refusal=refusal,
        hint=_HINTS.get(refusal, ""),
        is_temporary=error.status in _TEMPORARY or refusal == "nonce",
    )
