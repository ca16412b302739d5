"""Whose cosignatures on a log's checkpoint a client demands, and how old they may be.

The age is judged by the client's own clock: a host that stops the coordinator's clock, or keeps
newer checkpoints back, cannot make an old one young.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from keyhouse.base.readable import Readable
from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.public_log import LogCheckpoint, trusting
from keyhouse.client.trust_files import read_named
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import Policy

LOG_MAX_AGE: Final = 86_400
"""Seconds since witnesses saw the log, unless another age is demanded."""

_AHEAD: Final = 600
"""Seconds that the clock of a witness may be ahead of this one."""


class LogPolicy(Readable, frozen=True):
    """A quorum of witnesses has to have seen the log at most ``max_age`` seconds ago."""

    witnesses: Policy
    max_age: int = LOG_MAX_AGE

    @classmethod
    def from_file(cls, path: Path | str, max_age: int = LOG_MAX_AGE) -> Self:
        """Return what the file of a policy (C2SP tlog-policy) demands.

        Raises ``ClientSetupError``.
        """
        try:
            policy = Policy.read(read_named(path).decode())
        except (LogInvalidError, UnicodeDecodeError) as error:
            fault = error.message if isinstance(error, LogInvalidError) else "it is not UTF-8"
            raise ClientSetupError(
                f"{path} is not a policy of witnesses: {fault}",
                hint="keyhouse log policy check FILE",
            ) from None
        if policy.quorum is None:
            raise ClientSetupError(f"the policy in {path} demands no witness")
        return cls(policy, max_age)

    def require(self, found: LogCheckpoint, now: datetime) -> datetime:
        """Return when a quorum of the witnesses had seen ``found``. Raises ``TrustError``."""
        with trusting():
            times = self.witnesses.require(
                SignedNote.read(found.note), VerifierKey.read(found.verifier)
            )
        time = self._time_of_quorum(times)
        if time - now.timestamp() > _AHEAD:  # also what is not a date at all
            raise TrustError(
                "witnesses saw the log at a time that is later than it is here",
                hint="check the clock of this machine (keyhouse doctor)",
            )
        seen = datetime.fromtimestamp(time, now.tzinfo)
        if now - seen > timedelta(seconds=self.max_age):
            raise TrustError(
                f"witnesses saw the log last at {seen:%Y-%m-%d %H:%M:%S}, more than"
                f" {self.max_age} s ago",
                hint="an older copy may answer, or its witnesses are not reached: see the"
                " coordinator's log",
            )
        return seen

    def _time_of_quorum(self, times: Mapping[VerifierKey, int]) -> int:
        """Return the latest time, in s since 1970, at which a quorum had signed already."""
        signed: list[VerifierKey] = []
        for key, time in sorted(times.items(), key=lambda item: -item[1]):
            signed.append(key)
            if self.witnesses.holds(signed):
                return time
        raise TrustError("the log has no quorum of its witnesses")
