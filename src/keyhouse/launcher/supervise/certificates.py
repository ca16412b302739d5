"""The newest certificate, the certificate in the files, and the key of the next renewal.

The agent repeats a renewal with the same key until the answer arrives. If an answer was lost, an
attempt with another key would look like a second copy of the workload.
"""

from collections.abc import Callable
from typing import NamedTuple

from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.supervise.schedule import NEVER, SECOND, CoordinatorClock


class Identity(NamedTuple):
    """A certificate and key of the workload, with the certificates of its issuer (DER)."""

    own: Credentials
    intermediate: bytes
    marble_root: bytes


class RenewalAnswer(NamedTuple):
    """The answer to a renewal. Times are microseconds since 1970."""

    identity: Identity
    now: int
    renew_at: int
    end: int
    settle_seconds: int
    trusted: frozenset[bytes]  # the marble roots that workloads trust, DER


class WorkloadCertificates:
    """The certificates and keys of a workload, while the program runs.

    All times are microseconds since 1970.
    """

    def __init__(
        self, first: Identity, fresh: Callable[[], Credentials], renew_every: float
    ) -> None:
        """Begin with the certificate ``first``. ``fresh`` makes the key of a renewal.

        ``renew_every``: the most seconds between two renewals; 0: only the coordinator decides.
        """
        self._fresh = fresh
        self._renew_every = renew_every
        self._in_flight: Credentials | None = None
        self._written = first
        self._written_end = self._write_at = 0
        self.newest = first
        self.renew_at = self.end = 0

    def begin(self, first: Identity) -> None:
        """Replace the certificate by ``first``, the certificate of a new activation."""
        self.newest, self._in_flight, self.renew_at = first, None, 0

    def key_in_flight(self) -> Credentials:
        """Return the key of the next renewal. Each call returns the same key until ``store``."""
        if self._in_flight is None:
            self._in_flight = self._fresh()
        return self._in_flight

    def store(self, given: RenewalAnswer) -> bool:
        """Store the certificate in ``given``, the answer to a renewal.

        Return whether the marble root has changed.
        """
        changes = given.identity.marble_root != self.newest.marble_root
        if given.settle_seconds:
            self._write_at = min(given.now + given.settle_seconds * SECOND, self._written_end)
        self._in_flight, self.newest = None, given.identity
        self.renew_at, self.end = given.renew_at, given.end
        if self._renew_every:
            self.renew_at = min(self.renew_at, given.now + int(self._renew_every * SECOND))
        self.trust(given.trusted)
        return changes

    def trust(self, roots: frozenset[bytes]) -> None:
        """Record ``roots``: the marble roots (DER) that workloads trust now.

        If workloads do not trust the root of the certificate in the files, then the newest
        certificate may replace this certificate at once.
        """
        if self._written.marble_root not in roots:
            self._write_at = 0

    def renew_now(self) -> None:
        """Schedule the next renewal for now."""
        self.renew_at = 0

    def for_files(self, clock: CoordinatorClock, *, at_once: bool) -> Identity:
        """Return the identity for the files: certificate and key.

        This is the newest identity, except after an update of the marble root. Then this is the
        former identity for a time, in which other workloads learn the new root.

        ``clock``: the coordinator's time. ``at_once``: the program starts or restarts now, so the
        result is the newest identity in any case.
        """
        same = self._written.marble_root == self.newest.marble_root
        if at_once or same or clock.until(self._write_at) == 0:
            self._written, self._written_end, self._write_at = self.newest, self.end, 0
        return self._written

    def until_renewal(self, clock: CoordinatorClock) -> float:
        """Return the seconds until the next renewal, by ``clock``, the coordinator's time."""
        return clock.until(self.renew_at)

    def until_written(self, clock: CoordinatorClock) -> float:
        """Return the seconds until the newest certificate goes into the files.

        The result is infinite if no such change is scheduled.
        """
        return clock.until(self._write_at) if self._write_at else NEVER

    def until_due(self, clock: CoordinatorClock) -> float:
        """Return the seconds until the next renewal, or until a newer certificate for the files.

        The earlier of both counts.
        """
        return min(self.until_renewal(clock), self.until_written(clock))
