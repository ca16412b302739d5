"""One attempt to join a deployment: connect, verify the peer, request, check the answer."""

import asyncio
import ssl
import uuid
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from keyhouse.base.connect_errors import cause_of
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import excerpt
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import (
    ActivationRefusedError,
    AnswerUnreadableError,
    LaunchRefusedError,
    NotReachableError,
    NotReadyError,
)
from keyhouse.launcher.grpc_call import (
    AnswerMalformedError,
    CallFailedError,
    CallStatus,
    GrpcClient,
)
from keyhouse.launcher.parameters import Delivered, check_parameters
from keyhouse.launcher.tls import ClientContext, PeerRefusedError
from keyhouse.launcher.trust import Anchor, require_answer, require_served
from keyhouse.wire.address import WORKLOAD_API, Address, read_address
from keyhouse.wire.marble_pb2 import ActivationReq, ActivationResp
from keyhouse.wire.ports import WORKLOAD_API_PORT

_METHOD: Final = "/rpc.Marble/Activate"
_LATER: Final = frozenset({CallStatus.UNAVAILABLE, CallStatus.FAILED_PRECONDITION})
_HINTS: Final = {
    CallStatus.PERMISSION_DENIED: (
        "compare marble type, package and limit in the manifest with this workload"
    ),
    CallStatus.INVALID_ARGUMENT: "correct the settings of the launcher, such as --dns-names",
}
_TRY_AGAIN: Final = (
    "check that the coordinator's workload API runs at this address (usually port"
    f" {WORKLOAD_API_PORT})"
)


class Request(NamedTuple):
    """The request of an activation, and the address of the coordinator."""

    address: Address
    credentials: Credentials
    quote: bytes  # empty without a platform
    kind: str  # the marble type
    who: uuid.UUID


def read_mesh_address(text: str) -> Address:
    """Parse ``host``, ``host:port`` or ``[IPv6]:port``. The default port is 2001.

    Raises ``LaunchRefusedError``.
    """
    return read_address(text, port=WORKLOAD_API_PORT, refused=LaunchRefusedError)


async def activate(request: Request, anchor: Anchor | None, timeout: float) -> Delivered:  # noqa: ASYNC109 the server gets the timeout, too
    """Return the parameters that the coordinator delivers to ``request``, after all checks.

    ``anchor`` is the deployment to trust; None trusts any peer. ``timeout``: the seconds for the
    connection, the call and the checks together.

    Raises:
        CoordinatorNotTrustedError, ActivationRefusedError, AnswerUnreadableError,
            LaunchRefusedError: a retry does not help.
        NotReachableError, NotReadyError: a retry may help.
    """
    seen: list[bytes] = []

    def check(leaf: bytes) -> None:
        require_served(leaf, anchor)
        seen.append(leaf)

    context = ClientContext(request.credentials, check)
    try:
        async with asyncio.timeout(timeout):
            answer = await _send(request, context, timeout)
    except (OSError, CallFailedError) as error:
        if not seen and not isinstance(error, PeerRefusedError):
            raise _not_connected(error, request.address, in_tls=context.in_tls) from None
        raise _launcher_error(error, request.address) from None
    except (AnswerMalformedError, DecodeError):
        raise AnswerUnreadableError(
            f"the peer at {request.address} does not speak the workload API",
            hint=_TRY_AGAIN,
        ) from None
    parameters = answer.Parameters
    delivered = check_parameters(
        dict(parameters.Files), dict(parameters.Env), tuple(parameters.Argv)
    )
    require_answer(
        delivered.env, served=seen[-1], anchor=anchor, who=request.who, kind=request.kind
    )
    return delivered


async def _send(request: Request, context: ssl.SSLContext, timeout: float) -> ActivationResp:  # noqa: ASYNC109
    asked = ActivationReq(
        Quote=request.quote,
        CSR=request.credentials.request,
        MarbleType=request.kind,
        UUID=str(request.who),
    )
    async with GrpcClient(request.address, context) as connection:
        answer = await connection.only(_METHOD, asked.SerializeToString(), timeout)
    return ActivationResp.FromString(answer)


def _not_connected(error: Exception, address: Address, *, in_tls: bool) -> NotReachableError:
    cause = cause_of(error, WORKLOAD_API, in_tls=in_tls)
    return NotReachableError(f"cannot connect to {address}: {cause.problem}", hint=cause.hint)


def _launcher_error(error: Exception, address: Address) -> KeyhouseError:
    """Return the launcher's error for ``error``, which ended a call over an open connection.

    ``address``: the address of the coordinator, for the message.
    """
    if isinstance(error, PeerRefusedError):
        return error.reason_why
    if isinstance(error, CallFailedError):
        return _refusal(error, address)
    if isinstance(error, TimeoutError):
        return NotReachableError(f"{address} sent no answer in time", hint=_TRY_AGAIN)
    return NotReachableError(f"{address} closed the connection before its answer", hint=_TRY_AGAIN)


def _refusal(error: CallFailedError, address: Address) -> KeyhouseError:
    words = excerpt(error.message or "no reason given")
    if error.status is CallStatus.DEADLINE_EXCEEDED:
        return NotReachableError(f"{address} sent no answer in time", hint=_TRY_AGAIN)
    if error.status in _LATER:
        return NotReadyError(
            f"the coordinator cannot activate now ({error.status.name}): {words}",
            hint="read the status (keyhouse status): the coordinator may wait for a manifest, for"
            " its recovery, or for the upload of a secret",
        )
    return ActivationRefusedError(
        f"the coordinator refused the activation ({error.status.name}): {words}",
        status=error.status.name,
        hint=_HINTS.get(error.status, "see the process log of the coordinator"),
    )
