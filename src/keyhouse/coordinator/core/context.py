"""The inputs of a decision outside the state: time, this process, and its measured settings."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from keyhouse.base.errors import ForbiddenError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Member, PublicLog, Recovering, State
from keyhouse.manifest import SealMode, fingerprint

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time: int) -> datetime:
    """Return ``time``, in microseconds since 1970, as a date with a time, UTC."""
    return _EPOCH + timedelta(microseconds=time)


class FirstManifestRule(msgspec.Struct, frozen=True):
    """The rule for the first manifest of a deployment, from the measured settings.

    Without a ``claim``, the rule accepts any manifest, so the first client to reach the coordinator
    decides. The owner then has to verify afterwards that the intended manifest is in force. Source:
    ``docs/how-to/state-directory.md``, "Restrict the first manifest".
    """

    claim: str = ""  # the only accepted fingerprint: 64 lower-case hex digits; empty: any
    allowed_in_recovery: bool = (
        True  # may a new deployment replace a state that cannot be unsealed?
    )
    allowing_flag: str = "start without --no-new-manifest-in-recovery"  # for the hint

    def require(self, state: State, raw: bytes) -> None:
        """Verify that ``raw`` may be set as the first manifest in ``state``.

        Raises:
            ForbiddenError: the settings of this coordinator exclude this manifest.
        """
        if isinstance(state, Recovering) and not self.allowed_in_recovery:
            raise ForbiddenError(
                "this coordinator does not accept a new manifest in recovery mode",
                hint=f"recover the state; or {self.allowing_flag}",
            )
        actual = fingerprint(raw)
        if self.claim and actual != self.claim:
            raise ForbiddenError(
                f"the manifest has the fingerprint {actual}; this coordinator accepts only"
                f" {self.claim}",
                hint="set the manifest with the accepted fingerprint; or start the coordinator with"
                " another --claim-fingerprint",
            )


class Process(msgspec.Struct, frozen=True):
    """The identity of this process, as in its ``Started`` record, and its measured settings."""

    platform: str
    instance: bytes  # 16 random bytes
    version: str
    measurement: bytes
    first_manifest: FirstManifestRule = FirstManifestRule()
    removed_may_cancel: bool = True  # may a user cancel the update that removes this user?
    member: Member | None = None  # entry for other coordinators; only with a shared store
    shares_store: bool = False  # with other coordinators
    signer: bytes = bytes(32)  # MRSIGNER; with the next two: further values in quotes
    product: int = 0
    security_version: int = 0
    given_up_log: str = ""  # origin of a log that this start replaces; empty: none


class Context(Process, frozen=True, kw_only=True):
    """All inputs of a decision outside the state."""

    now: int  # security time: microseconds since 1970, UTC
    at: str = ""  # position of the journal: epoch.sequence.chain in hex; empty: no journal

    def begins_log(self, log: PublicLog | None) -> bool:
        """Return whether this start begins a new log, because ``log`` is None or given up."""
        return log is None or log.origin == self.given_up_log

    def require_kept(self, manifest: bytes) -> None:
        """Verify that the store of this coordinator can keep a state under the valid ``manifest``.

        Raises:
            ForbiddenError: the store is shared, and the manifest keeps the state in memory only.
        """
        if self.shares_store and policy_of(manifest).seal_mode is SealMode.DISABLED:
            raise ForbiddenError(
                "SealMode Disabled is not possible: this coordinator shares its store",
                hint="set SealMode to ProductKey or UniqueKey in the manifest",
            )
