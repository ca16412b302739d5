"""Decide whether a verified quote admits a replica to a hand-off of the data key.

Both sides apply the same rule. The giver judges the asker by the manifest of its own state. The
asker judges the giver by the manifest in the journal that the received key opens. Without the
second check, anyone could answer with a key of their own, and with an invented journal that
contains the true manifest.

Nothing here is sufficient alone: the quote must be verified, and must bind the message
(``require_bound``).
"""

import msgspec

from keyhouse.attestation import IdentityRefusedError, QuoteRefusedError, Verdict
from keyhouse.attestation.appraisal import accept_status
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.attestation.quote.binding import Word, binds_replica
from keyhouse.coordinator.hand_off.notes import NoteProblem, NoteRefusedError, Quoted
from keyhouse.coordinator.origin.listed_code import lists_code
from keyhouse.manifest import Replicas


class Own(msgspec.Struct, frozen=True):
    """The identity of this process, from its verified quote and its command line."""

    verdict: Verdict
    settings: bytes  # SHA-256 of its measured settings


def require_bound(quoted: Quoted, word: Word, report_data: bytes | None = None) -> None:
    """Raise ``NoteRefusedError`` unless the quote in ``quoted`` was made for its message.

    ``word``: the kind of the note. ``report_data``: from the verified quote. None: the function
    reads the report data of the quote before its verification. This takes microseconds, and refuses
    many false notes before the costly verification.
    """
    if report_data is None:
        try:
            report_data = read_report(read_form(quoted.quote)).report_data
        except QuoteRefusedError as refused:
            raise NoteRefusedError(NoteProblem.QUOTE, refused.message) from None
    if not binds_replica(report_data, word, quoted.message):
        raise NoteRefusedError(
            NoteProblem.BINDING, "the quote does not belong to this note: its report data differ"
        )


def require_admitted(verdict: Verdict, replicas: Replicas | None, own: Own) -> None:
    """Raise ``NoteRefusedError`` unless ``replicas`` admit the code and platform of ``verdict``.

    ``replicas``: ``Config.Replicas`` of the manifest. If it lists no code, it admits only the code
    of ``own``, this process.
    """
    if replicas is None:
        raise NoteRefusedError(
            NoteProblem.NOT_CONFIGURED,
            "the manifest admits no further coordinators",
            hint="add Config.Replicas to the manifest",
        )
    _require_status(verdict, replicas)
    _require_code(verdict, replicas, own)
    if replicas.platforms and verdict.ppid.hex() not in replicas.platforms:
        raise NoteRefusedError(
            NoteProblem.PLATFORM,
            f"the platform {verdict.ppid.hex()} is not listed in Config.Replicas.Platforms",
            hint="list the platform in Config.Replicas.Platforms, if you want to admit it",
        )


def _require_status(verdict: Verdict, replicas: Replicas) -> None:
    # AMD does not state a status. ``Code`` has the required versions of the platform.
    if not verdict.tee.states_tcb:
        return
    try:
        accept_status(verdict.tcb_status, replicas.accepted_tcb_statuses or ("UpToDate",))
    except IdentityRefusedError as refused:
        raise NoteRefusedError(
            NoteProblem.TCB_STATUS,
            refused.message,
            hint="update the platform, or list the status in Config.Replicas.AcceptedTCBStatuses",
        ) from None


def _require_code(verdict: Verdict, replicas: Replicas, own: Own) -> None:
    fits = lists_code(replicas, verdict) if replicas.code else _is_same_code(verdict, own.verdict)
    if not fits:
        raise NoteRefusedError(
            NoteProblem.CODE,
            f"the manifest does not admit {_named(verdict)} as a coordinator",
            hint="list the code in Config.Replicas.Code, if you want to admit it",
        )


def _is_same_code(verdict: Verdict, own: Verdict) -> bool:
    """Return whether ``verdict`` has the same code as ``own``, at the same or a higher version.

    False for a vendor without TCB statuses (AMD): only an entry of ``Code`` can state the required
    versions. False for a VM whose boot measured no kernel or no command line: such a VM could run
    any code.
    """
    if verdict.debug or not verdict.tee.states_tcb:
        return False
    if verdict.measurements is not None and not verdict.measurements.boot_is_measured:
        return False
    pairs = (
        (verdict.tee, own.tee),
        (verdict.mrenclave, own.mrenclave),
        (verdict.mrsigner, own.mrsigner),
        (verdict.isvprodid, own.isvprodid),
        (verdict.vm, own.vm),
    )
    return all(one == other for one, other in pairs) and verdict.isvsvn >= own.isvsvn


def _named(verdict: Verdict) -> str:
    if verdict.measurements is not None:
        return f"a confidential VM ({verdict.tee.upper()})"
    return f"the code {verdict.mrenclave.hex()}"
