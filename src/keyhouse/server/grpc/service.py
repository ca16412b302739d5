"""What all gRPC connections of a listener share: methods, limits, what is in flight, counts.

Calls are counted under labels that no anonymous client can add to.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from keyhouse.server.grpc.call import Labels, Method
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.fair_share import Pool
from keyhouse.server.net.grpc_status import Status
from keyhouse.server.net.limits import WorkloadLimits

UNKNOWN: Final = "unknown"
"""The label of the service and the method of all calls that there is no method for."""

KIND: Final = "unary"


class GrpcCounts:
    """The calls of one listener since the process began. Used on the event loop's thread.

    Every known method is there from the beginning, with zeros.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._labels: Final = {path: _labels(path) for path in paths}
        zeros = dict.fromkeys(self._labels.values(), 0)
        self.started: Final[Counter[Labels]] = Counter(zeros)
        self.received: Final[Counter[Labels]] = Counter(zeros)
        self.sent: Final[Counter[Labels]] = Counter(zeros)
        self.handled: Final[Counter[tuple[str, str, str, str]]] = Counter()

    def labels(self, path: str) -> Labels:
        """Return the labels under which a call to ``path`` is counted."""
        return self._labels.get(path, (UNKNOWN, UNKNOWN, KIND))

    def ended(self, labels: Labels, status: Status) -> None:
        """Count the end of a call."""
        self.handled[status.label, *labels] += 1


def _labels(path: str) -> Labels:
    _, service, method = path.split("/")
    return method, service, KIND


class GrpcService(Connections):
    """The methods by path, such as ``/rpc.Marble/Activate``, and what their callers use.

    ``headers`` begin every answer, those that are given among them. ``streams`` are open, ``calls``
    run or wait for their client to take the answer, ``memory`` has the bytes of requests,
    ``answers`` those of answers that their clients have not taken. Used on
    the event loop's thread only.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        limits: WorkloadLimits,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(limits)
        self.methods = dict(methods)
        self.limits = limits
        self.headers = ((":status", "200"), ("content-type", "application/grpc"), *headers)
        self.counts = GrpcCounts(methods)
        self.streams = Pool(limits.all_streams)
        self.calls = Pool(limits.calls)
        self.memory = Pool(limits.message_memory)
        self.answers = Pool(limits.answer_memory)
