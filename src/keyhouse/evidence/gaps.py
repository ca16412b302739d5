"""The names of the unproven parts of an evidence file.

A gap is about one file: the verifier could not make a check that other files permit. A file with a
gap is refused unless the auditor allows the gap by its name. A claim is a statement that no file
can prove, because only the coordinator signs it. Claims are listed and cause no refusal.

Names are permanent, because auditors' scripts contain them.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from keyhouse.base.errors import BadRequestError
from keyhouse.base.printable import quoted


class Gap(StrEnum):
    """A check that could not be made. The value is the name for ``--allow`` and for programs."""

    NOTHING_PINNED = "nothing-pinned"
    NO_WITNESSES = "no-witnesses"
    ROOT_NOT_PINNED = "root-not-pinned"
    INTERMEDIATE_UNKNOWN = "intermediate-unknown"
    OLDER_THAN_LOG = "older-than-log"
    REPLACES_LOG = "replaces-log"
    AGREED_BEFORE_LOG = "agreed-before-log"
    MANIFEST_NOT_PUBLIC = "manifest-not-public"
    MANIFEST_MISSING = "manifest-missing"
    RIGHTS_UNKNOWN = "rights-unknown"
    NOT_SIGNED = "not-signed"
    CANCELLED_BY_COORDINATOR = "cancelled-by-coordinator"
    START_WITHOUT_QUOTE = "start-without-quote"
    START_WITHOUT_COLLATERAL = "start-without-collateral"
    START_AT_CLAIMED_TIME = "start-at-claimed-time"
    HIDDEN_ENTRY = "hidden-entry"
    CLAIMED_TIME_LATE = "claimed-time-late"
    TRUST_UNKNOWN = "trust-unknown"

    @property
    def text(self) -> str:
        """The gap as a sentence for people."""
        return _GAP_TEXTS[self]


class Claim(StrEnum):
    """A statement of the coordinator that no other key signs."""

    UPLOAD = "upload"
    RECOVERY = "recovery"
    REVOCATION = "revocation"
    ROOTS = "roots"

    @property
    def text(self) -> str:
        """The claim as a sentence for people."""
        return _CLAIM_TEXTS[self]


_GAP_TEXTS: Final = {
    Gap.NOTHING_PINNED: (
        "nothing is pinned: the file does not prove which deployment this is, whether hardware"
        " ran it, or that nobody forked the log"
    ),
    Gap.NO_WITNESSES: (
        "no witness vouches for this history: other readers may have seen another history, and all"
        " times are claims"
    ),
    Gap.ROOT_NOT_PINNED: (
        "the root certificate is not pinned: another deployment may have begun with the same"
        " manifest"
    ),
    Gap.INTERMEDIATE_UNKNOWN: "no entry names the intermediate certificate that is in force",
    Gap.OLDER_THAN_LOG: (
        "the deployment is older than its log: the coordinator claims the history before the log"
    ),
    Gap.REPLACES_LOG: (
        "the log replaces another log: the coordinator claims the state at the beginning of the log"
    ),
    Gap.AGREED_BEFORE_LOG: (
        "users agreed to this update before the log began: only the coordinator claims this"
    ),
    Gap.MANIFEST_NOT_PUBLIC: "the manifest contains secret values, so the log does not publish it",
    Gap.MANIFEST_MISSING: (
        "the manifest is not in the file. The entry is from an older version of Keyhouse, and does"
        " not state whether the manifest is public"
    ),
    Gap.RIGHTS_UNKNOWN: (
        "the manifest in force is not in the file: nobody can check the permission of the user"
    ),
    Gap.NOT_SIGNED: "the user did not sign this: only the coordinator says that the user agreed",
    Gap.CANCELLED_BY_COORDINATOR: (
        "no user cancelled the update: the coordinator says that the update could not be applied"
    ),
    Gap.START_WITHOUT_QUOTE: "no quote proves which code started",
    Gap.START_WITHOUT_COLLATERAL: (
        "the entry names no collateral: nothing verifies the quote of the start"
    ),
    Gap.START_AT_CLAIMED_TIME: (
        "the collateral of the start had expired when witnesses first saw the start: the quote"
        " was verified for the time that the coordinator claims"
    ),
    Gap.HIDDEN_ENTRY: (
        "the file has only the hash of this entry: the hidden content may be a change"
    ),
    Gap.CLAIMED_TIME_LATE: "the claimed time is more than 10 minutes after the witnesses' time",
    Gap.TRUST_UNKNOWN: (
        "the entry states a change of trust of a kind that this version does not know"
    ),
}

_CLAIM_TEXTS: Final = {
    Claim.UPLOAD: "the coordinator claims which user uploaded the secrets: users sign no uploads",
    Claim.RECOVERY: (
        "the coordinator claims which holders recovered the state: holders sign no recoveries"
    ),
    Claim.REVOCATION: (
        "the coordinator claims which user revoked the workloads: users sign no revocations"
    ),
    Claim.ROOTS: "the coordinator claims which marble roots workloads trust",
}


def read_gaps(names: Iterable[str]) -> frozenset[Gap]:
    """Return the gaps with these names. Raises ``BadRequestError`` for an unknown name."""
    known = {each.value: each for each in Gap}
    requested = list(names)
    for name in requested:
        if name not in known:
            raise BadRequestError(
                f"{quoted(name)} is not the name of a gap",
                hint=f"use one of these names: {', '.join(known)}",
            )
    return frozenset(known[name] for name in requested)
