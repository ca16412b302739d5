"""The one table of operations and phases.

Each request is checked against the table before any other check. The table also determines the
texts of refusals, and the reference prints it. Source: ``docs/reference/phases.md``.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from keyhouse.base.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthenticatedError,
    WrongPhaseError,
)
from keyhouse.coordinator.core.state import AcceptingManifest, Recovering, State


class Phase(IntEnum):
    """The phase of a coordinator: the number in the answer of ``GET /api/v2/status``."""

    RECOVERY = 1
    ACCEPTING_MANIFEST = 2
    RUNNING = 3

    @property
    def words(self) -> str:
        """The phase as text after the words "the coordinator", such as "is running"."""
        return _WORDS[self]


_WORDS: Mapping[Phase, str] = {
    Phase.RECOVERY: "is in recovery mode",
    Phase.ACCEPTING_MANIFEST: "is waiting for its first manifest",
    Phase.RUNNING: "is running",
}


class Operation(StrEnum):
    """An operation of a client. The value is the subject of the sentence "... is possible"."""

    READ_STATUS = "reading the status"
    READ_QUOTE = "reading the quote"
    READ_MANIFEST = "reading the manifest"
    SET_MANIFEST = "setting the manifest"
    READ_RECOVERY_KEY = "reading the key for recovery uploads"
    RECOVER = "recovery"
    READ_RECOVERY_SECRETS = "reading the encrypted recovery shares"
    READ_LOG = "reading the update log"
    READ_PUBLIC_LOG = "reading the transparency log"
    UPDATE = "updating the manifest"
    READ_PENDING = "reading the pending update"
    ACKNOWLEDGE = "acknowledging an update"
    CANCEL = "cancelling an update"
    READ_SECRETS = "reading secrets"
    WRITE_SECRETS = "uploading secrets"
    SIGN_QUOTE = "signing a quote"
    COUNT = "counting"
    ACTIVATE = "activating a marble"
    RENEW = "renewing a certificate"
    REVOKE = "revoking workloads"
    READ_ACTIVATIONS = "reading the audit trail of activations"
    READ_REFUSED = "reading refused activations"
    READ_COUNTERS = "reading counters"


class PhaseOutcome(StrEnum):
    """The result of an operation in a phase: "yes", or the HTTP status of the refusal."""

    YES = "yes"
    NOT_NOW = "409"
    NOTHING_SET = "404"
    NO_USERS = "401"
    NO_GATE = "403"


_YES, _NOT_NOW = PhaseOutcome.YES, PhaseOutcome.NOT_NOW
_NO_USERS, _NO_GATE, _NOTHING = (
    PhaseOutcome.NO_USERS,
    PhaseOutcome.NO_GATE,
    PhaseOutcome.NOTHING_SET,
)

TABLE: Mapping[Operation, tuple[PhaseOutcome, PhaseOutcome, PhaseOutcome]] = {
    # operation: (recovery, accepting manifest, running)
    Operation.READ_STATUS: (_YES, _YES, _YES),
    Operation.READ_QUOTE: (_YES, _YES, _YES),
    Operation.READ_MANIFEST: (_NOTHING, _NOTHING, _YES),
    Operation.SET_MANIFEST: (_YES, _YES, _NOT_NOW),
    Operation.READ_RECOVERY_KEY: (_YES, _NOT_NOW, _NOT_NOW),
    Operation.RECOVER: (_YES, _NOT_NOW, _NOT_NOW),
    Operation.READ_RECOVERY_SECRETS: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_LOG: (_NOT_NOW, _NOT_NOW, _YES),
    Operation.READ_PUBLIC_LOG: (_NOT_NOW, _NOT_NOW, _YES),
    Operation.UPDATE: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_PENDING: (_NOTHING, _NOTHING, _YES),
    Operation.ACKNOWLEDGE: (_NO_USERS, _NO_USERS, _YES),
    Operation.CANCEL: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_SECRETS: (_NO_USERS, _NO_USERS, _YES),
    Operation.WRITE_SECRETS: (_NO_USERS, _NO_USERS, _YES),
    Operation.SIGN_QUOTE: (_NO_GATE, _NO_GATE, _YES),
    Operation.COUNT: (_NO_GATE, _NO_GATE, _YES),
    Operation.ACTIVATE: (_NOT_NOW, _NOT_NOW, _YES),
    Operation.RENEW: (_NOT_NOW, _NOT_NOW, _YES),
    Operation.REVOKE: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_ACTIVATIONS: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_REFUSED: (_NO_USERS, _NO_USERS, _YES),
    Operation.READ_COUNTERS: (_NO_USERS, _NO_USERS, _YES),
}


OPEN_WHILE_HELD: frozenset[Operation] = frozenset(
    {
        Operation.READ_STATUS,
        Operation.READ_QUOTE,
        Operation.READ_MANIFEST,
        Operation.READ_LOG,
        Operation.READ_PUBLIC_LOG,
        Operation.READ_PENDING,
    }
)
"""The public operations, possible while the witnesses have not yet cosigned this state.

All other operations wait.
"""


_HOW_TO_BEGIN: Mapping[Phase, str] = {
    Phase.RECOVERY: "recover the state with keyhouse recover, or set a manifest with keyhouse"
    " manifest set",
    Phase.ACCEPTING_MANIFEST: "set a manifest with keyhouse manifest set",
}
_HOW_TO_CHANGE = "change the manifest in force with keyhouse manifest update apply"
_NO_RECOVERY = "check the address and the state directory: only a locked state needs recovery"


def phase_of(state: State) -> Phase:
    """Return the phase of ``state``."""
    if isinstance(state, AcceptingManifest):
        return Phase.ACCEPTING_MANIFEST
    if isinstance(state, Recovering):
        return Phase.RECOVERY
    return Phase.RUNNING


def require(operation: Operation, phase: Phase) -> None:
    """Verify that ``operation`` is possible in ``phase``.

    The refusal names the possible phases.

    Raises:
        WrongPhaseError, NotFoundError, UnauthenticatedError, ForbiddenError: according to the
            table.
    """
    outcome = TABLE[operation][phase - 1]
    if outcome is PhaseOutcome.YES:
        return
    now = f"the coordinator {phase.words}"
    if outcome is PhaseOutcome.NOTHING_SET:
        raise NotFoundError(f"no manifest is in force: {now}", hint=_HOW_TO_BEGIN[phase])
    if outcome is PhaseOutcome.NO_USERS:
        raise UnauthenticatedError(f"there are no users: {now}", hint=_HOW_TO_BEGIN[phase])
    if outcome is PhaseOutcome.NO_GATE:
        raise ForbiddenError(f"{operation} is not enabled: {now}", hint=_HOW_TO_BEGIN[phase])
    possible = " or ".join(
        f"while it {other.words}"
        for other in Phase
        if TABLE[operation][other - 1] is PhaseOutcome.YES
    )
    message = f"{now}; {operation} is possible only {possible}"
    if operation is Operation.SET_MANIFEST:
        raise WrongPhaseError(message, hint=_HOW_TO_CHANGE)
    recovers = operation in {Operation.RECOVER, Operation.READ_RECOVERY_KEY}
    raise WrongPhaseError(message, hint=_NO_RECOVERY if recovers else _HOW_TO_BEGIN[phase])
