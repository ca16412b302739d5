"""A workload that does not compare certificates with the host's time.

The clock of the coordinator may be ahead. Libraries of gRPC would then refuse its certificate.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from keyhouse.wire import workload_pb2 as wire
from keyhouse.wire.marble_pb2 import ActivationReq, ActivationResp
from support.living.channel import SERVICE, Connection, RefusedError, RunningWorkload
from support.peers.workloads import ACTIVATE, Http2Wire, client_context, framed

_FRAME: Final = 5
"""Number of bytes before a gRPC message."""

_STATUSES: Final = {each.value[0]: each for each in grpc.StatusCode}

_ANSWERS: Final[dict[str, Any]] = {
    "Challenge": wire.ChallengeResponse,
    "Renew": wire.RenewResponse,
    "Fetch": wire.FetchResponse,
    "Watch": wire.WatchResponse,
}


class AnyTimeWorkload(RunningWorkload):
    """A workload whose connections are HTTP/2 frames over TLS."""

    def activated(self, asked: ActivationReq) -> dict[str, bytes]:
        """Return the variables of an activation."""
        with Http2Wire(self.port) as http:
            answer = _called(http.begin(), ACTIVATE, asked, ActivationResp)
        return dict(answer.Parameters.Env)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Connect with the present certificate."""
        with Http2Wire(self.port, client_context(self.pair)) as http:
            yield _WireConnection(http.begin())


class _WireConnection(Connection):
    def __init__(self, http: Http2Wire) -> None:
        self._http = http

    def call(self, method: str, message: Any) -> Any:
        return _called(self._http, SERVICE + method, message, _ANSWERS[method])


class _Ended:
    """The end of a refused call, with the attributes that ``RefusedError`` reads."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.code = lambda: _STATUSES[status]
        self.details = lambda: headers.get("grpc-message", "")
        self.initial_metadata = headers.items
        self.trailing_metadata = tuple


def _called(http: Http2Wire, path: str, message: Any, answer: Any) -> Any:
    sent = http.call(framed(message.SerializeToString()), path=path)
    if sent.status:
        raise RefusedError(_Ended(sent.status, sent.headers))
    return answer.FromString(sent.data[_FRAME:])
