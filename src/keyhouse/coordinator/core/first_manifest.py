"""Which first manifest may be set: what the measured settings say, before anybody asks.

Source: security rules, "First manifest": without a claim whoever comes first decides, and has to
verify afterwards that it was he.
"""

import msgspec

from keyhouse.base.errors import Forbidden
from keyhouse.coordinator.core.state import Recovering, State
from keyhouse.manifest import fingerprint

__all__ = ["FirstManifestRule"]


class FirstManifestRule(msgspec.Struct, frozen=True):
    """Admits a manifest that begins a new deployment; by default every one."""

    claim: str = ""  # the only fingerprint that is taken: 64 lower-case hex digits; empty: any
    allowed_in_recovery: bool = True  # a new deployment in place of one that cannot be unsealed

    def require(self, state: State, raw: bytes) -> None:
        """Return if ``raw`` may be set as the first manifest in ``state``.

        Raises:
            Forbidden: the settings of this coordinator rule it out.
        """
        if isinstance(state, Recovering) and not self.allowed_in_recovery:
            raise Forbidden(
                "this coordinator takes no new manifest in recovery mode",
                hint="recover the state; or start without --no-new-manifest-in-recovery",
            )
        found = fingerprint(raw)
        if self.claim and found != self.claim:
            raise Forbidden(
                f"the manifest has the fingerprint {found}, this coordinator takes only"
                f" {self.claim}",
                hint="set that manifest; or start with another --claim-fingerprint",
            )
