"""The cosignatures of witnesses that a client requires on a checkpoint, and their greatest age.

The client's own clock measures the age. So a host gains nothing by a stopped coordinator clock or
by withheld checkpoints: an old cosignature stays old.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from keyhouse.base.hex_repr import Readable
from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.public_log import LogCheckpoint, trusting
from keyhouse.client.trust_files import read_named
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import CosignaturePolicy

LOG_MAX_AGE: Final = 86_400
"""The default for the greatest age of a quorum's cosignatures, in seconds: one day."""

_AHEAD: Final = 600
"""Seconds by which a witness's clock may be ahead of this machine's clock, as in evidence files."""


class LogPolicy(Readable, frozen=True):
    """Requires that a quorum of witnesses saw the log at most ``max_age`` seconds ago."""

    witnesses: CosignaturePolicy
    max_age: int = LOG_MAX_AGE

    @classmethod
    def from_file(cls, path: Path | str, max_age: int = LOG_MAX_AGE) -> Self:
        """Read a policy of witnesses from a file in the format of C2SP tlog-policy.

        Raises ``ClientSetupError`` for an invalid policy, and for a policy without a quorum.
        """
        try:
            policy = CosignaturePolicy.read(read_named(path).decode())
        except (LogInvalidError, UnicodeDecodeError) as error:
            fault = error.message if isinstance(error, LogInvalidError) else "not UTF-8"
            raise ClientSetupError(
                f"{path} is not a policy of witnesses: {fault}",
                hint="correct the policy, then run keyhouse log policy check FILE",
            ) from None
        if policy.quorum is None:
            raise ClientSetupError(
                f"the policy in {path} demands no witness, but must demand a witness",
                hint="add a quorum line that needs a witness, then check the file: keyhouse log"
                " policy check FILE",
            )
        return cls(policy, max_age)

    def require(self, checkpoint: LogCheckpoint, now: datetime) -> datetime:
        """Return the time of a quorum's cosignatures on ``checkpoint``.

        ``now`` is the time of this machine. Raises ``TrustError`` without a quorum, for a time more
        than ``max_age`` seconds ago, and for a time more than 10 minutes in the future.
        """
        with trusting():
            times = self.witnesses.require(
                SignedNote.read(checkpoint.note), VerifierKey.read(checkpoint.verifier)
            )
        time = self._time_of_quorum(times)
        # This also refuses a number that is beyond the dates of ``datetime``.
        if time - now.timestamp() > _AHEAD:
            raise TrustError(
                f"the time of the witnesses is more than {_AHEAD} s in the future of this machine",
                hint="check the clock of this machine (keyhouse doctor)",
            )
        seen = datetime.fromtimestamp(time, now.tzinfo)
        if now - seen > timedelta(seconds=self.max_age):
            raise TrustError(
                f"witnesses saw the log last at {seen:%Y-%m-%d %H:%M:%S}, more than"
                f" {self.max_age} s ago",
                hint="see the process log of the coordinator: an older copy may answer, or the"
                " coordinator does not reach its witnesses",
            )
        return seen

    def _time_of_quorum(self, times: Mapping[VerifierKey, int]) -> int:
        """Return the oldest time in the quorum with the newest cosignatures, in s since 1970.

        ``times`` has the time of each witness's cosignature. Raises ``TrustError`` without a
        quorum.
        """
        signed: list[VerifierKey] = []
        for key, time in sorted(times.items(), key=lambda item: -item[1]):
            signed.append(key)
            if self.witnesses.holds(signed):
                return time
        raise TrustError(
            "the log has no quorum of cosignatures by its witnesses",
            hint="see the process log of the coordinator: it may not reach its witnesses",
        )
