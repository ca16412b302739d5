"""Counts calls of the workload API, under labels that no anonymous client can add to."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from keyhouse.server.net.grpc_status import Status

UNKNOWN: Final = "unknown"
"""The label of the service and the method of all calls that there is no method for."""

KIND: Final = "unary"

Labels = tuple[str, str, str]
"""Method, service, kind."""


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
