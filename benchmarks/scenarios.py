"""What is measured under load: the rows of the table, and the requests of each."""

from pathlib import Path
from typing import Final

from benchmarks.coordinator import STATUS
from benchmarks.figures import SIZES, Scenario
from benchmarks.loading import Job
from benchmarks.manifests import User, read_target, read_targets, upload_bodies

__all__ = ["SCENARIOS", "Requests"]

SCENARIOS: Final = (
    Scenario("status", "status", with_bare=True, wanted_of_bare=0.7),
    Scenario("read", "read one secret", with_bare=True, wanted_of_bare=0.7),
    Scenario("read-all", "read all in turn", with_bare=True, wanted_of_bare=0.7),
    Scenario("new-p256", "new connection, P-256", with_bare=True),
    Scenario("new-hybrid", "new connection, hybrid", with_bare=True),
    Scenario("upload-1", "upload alone, p50 µs", with_bare=False, slow=True, wanted=800),
    Scenario("upload-8", "upload, 8 clients", with_bare=False, wanted=4000),
)

_READERS: Final = 32
_NEWCOMERS: Final = 8
_WRITERS: Final = 8


class Requests:
    """The requests of every scenario, in files of one folder, for each number of secrets."""

    def __init__(self, folder: Path, user: User) -> None:
        self._user = user
        self._targets = {size: folder / f"targets-{size}" for size in SIZES}
        self._bodies = {size: folder / f"bodies-{size}" for size in SIZES}
        for size in SIZES:
            self._targets[size].write_bytes(read_targets(size))
            self._bodies[size].touch(0o600)
            self._bodies[size].write_bytes(upload_bodies(size))

    def job(self, scenario: Scenario, size: int) -> Job:
        """Return what a load program asks of a server with ``size`` secrets."""
        if scenario.name == "status":
            return Job(STATUS, clients=_READERS)
        if scenario.name == "read":
            return Job(read_target(size // 2), clients=_READERS, user=self._user)
        if scenario.name == "read-all":
            targets = self._targets[size]
            return Job("/", clients=_READERS, user=self._user, targets=targets)
        if scenario.name.startswith("new-"):
            curve = scenario.name.removeprefix("new-")
            return Job(STATUS, clients=_NEWCOMERS, new_connections=True, curve=curve)
        clients = 1 if scenario.name == "upload-1" else _WRITERS
        return Job("/api/v2/secrets", clients=clients, user=self._user, bodies=self._bodies[size])
