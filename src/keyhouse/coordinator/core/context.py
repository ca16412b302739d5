"""What a decision needs and a state does not hold: time, this process, its measured settings."""

import msgspec

from keyhouse.base.errors import ForbiddenError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Member, PublicLog, Recovering, State
from keyhouse.manifest import SealMode, fingerprint


class FirstManifestRule(msgspec.Struct, frozen=True):
    """Which manifest may begin a new deployment, by the measured settings; by default every one.

    Without a claim anybody who reaches the coordinator first decides, and has to verify afterwards
    that it was their manifest. Source: security rules, "First manifest".
    """

    claim: str = ""  # the only fingerprint that is taken: 64 lower-case hex digits; empty: any
    allowed_in_recovery: bool = True  # a new deployment in place of one that cannot be unsealed
    allowing_flag: str = "start without --no-new-manifest-in-recovery"  # what would allow it

    def require(self, state: State, raw: bytes) -> None:
        """Return if ``raw`` may be set as the first manifest in ``state``.

        Raises:
            ForbiddenError: the settings of this coordinator rule it out.
        """
        if isinstance(state, Recovering) and not self.allowed_in_recovery:
            raise ForbiddenError(
                "this coordinator takes no new manifest in recovery mode",
                hint=f"recover the state; or {self.allowing_flag}",
            )
        found = fingerprint(raw)
        if self.claim and found != self.claim:
            raise ForbiddenError(
                f"the manifest has the fingerprint {found}, this coordinator takes only"
                f" {self.claim}",
                hint="set that manifest; or start with another --claim-fingerprint",
            )


class Process(msgspec.Struct, frozen=True):
    """The identity of this process, as its ``Started`` record has it, and its measured settings."""

    platform: str
    instance: bytes  # 16 random bytes
    version: str
    measurement: bytes
    first_manifest: FirstManifestRule = FirstManifestRule()
    removed_may_cancel: bool = True  # whether a user may stop the update that removes that user
    member: Member | None = None  # what others are told of this process, if it shares its store
    shares_store: bool = False  # with other coordinators
    signer: bytes = bytes(32)  # what quotes of this process say beside its measurement
    product: int = 0
    security_version: int = 0
    given_up_log: str = ""  # origin of a log that a start gives up for a new one; empty: none


class Context(Process, frozen=True, kw_only=True):
    """Everything that a decision needs and a state does not hold."""

    now: int  # security time: microseconds since 1970, UTC
    at: str = ""  # where the journal stands: epoch.sequence.chain in hex; empty: there is none

    def begins_log(self, log: PublicLog | None) -> bool:
        """Tell whether a start begins a log: there is none, or it is the one to give up."""
        return log is None or log.origin == self.given_up_log

    def require_kept(self, manifest: bytes) -> None:
        """Return if a state under ``manifest``, which is valid, can be kept where this one is.

        Raises:
            ForbiddenError: the store is shared, and the manifest has the state in memory only.
        """
        if self.shares_store and policy_of(manifest).seal_mode is SealMode.DISABLED:
            raise ForbiddenError(
                "this coordinator shares its store with others: SealMode Disabled is not possible",
                hint="use ProductKey or UniqueKey",
            )
