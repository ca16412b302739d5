"""The state that all gRPC connections of a listener share: methods, limits, pools, counters.

Counters have labels of known methods only, so anonymous clients cannot add labels.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final

from keyhouse.server.grpc.call import Labels, Method
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.fair_share import Pool
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.server.net.limits import WorkloadLimits

UNKNOWN: Final = "unknown"
"""The label of the service and the method of calls to unknown methods."""

KIND: Final = "unary"
STREAM: Final = "server_stream"


class GrpcCounts:
    """Counters of a listener's calls since the start. Use on the event loop's thread only.

    ``paths``: the paths of the known methods, such as ``/rpc.Marble/Activate``. ``lasting``: the
    paths among them with several answers. The counters of every known method begin with the value
    0.
    """

    def __init__(self, paths: Iterable[str], lasting: Container[str] = ()) -> None:
        self._labels: Final = {
            path: _labels(path, STREAM if path in lasting else KIND) for path in paths
        }
        zeros = dict.fromkeys(self._labels.values(), 0)
        self.started: Final[Counter[Labels]] = Counter(zeros)
        self.received: Final[Counter[Labels]] = Counter(zeros)
        self.sent: Final[Counter[Labels]] = Counter(zeros)
        self.handled: Final[Counter[tuple[GrpcStatus, str, str, str]]] = Counter()

    def labels(self, path: str) -> Labels:
        """Return the labels for a call to ``path``: a common label for all unknown methods."""
        return self._labels.get(path, (UNKNOWN, UNKNOWN, KIND))

    def ended(self, labels: Labels, status: GrpcStatus) -> None:
        """Count the end of a call with ``labels`` and ``status``."""
        self.handled[status, *labels] += 1


def _labels(path: str, kind: str) -> Labels:
    _, service, method = path.split("/")
    return method, service, kind


class GrpcService(Connections):
    """The methods by path, such as ``/rpc.Marble/Activate``, and the pools of their callers.

    ``headers`` are added to every answer. ``lasting``: the paths of methods with several answers.
    The pools limit open ``streams``, running or unanswered ``calls``, ``memory`` for bytes of
    requests, and ``answers`` for bytes of unsent answers. Use on the event loop's thread only.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        limits: WorkloadLimits,
        headers: tuple[tuple[str, str], ...] = (),
        lasting: Container[str] = (),
    ) -> None:
        super().__init__(limits, limits.watches)
        self.methods = dict(methods)
        self.limits = limits
        self.headers = ((":status", "200"), ("content-type", "application/grpc"), *headers)
        self.counts = GrpcCounts(methods, lasting)
        self.streams = Pool(limits.all_streams)
        self.calls = Pool(limits.calls)
        self.memory = Pool(limits.message_memory)
        self.answers = Pool(limits.answer_memory)
