"""Who may be handed the data key, and who may hand it over: what a verified quote has to show.

Both sides ask the same: the asker's quote is judged by the manifest of the giver, the giver's by
the manifest in the journal that its key opened. Without that a made-up journal, under a key that is
known, would be served with the true manifest. Nothing here is enough alone: the quote has to be
verified, and to bind the message (``require_bound``).
"""

import msgspec

from keyhouse.attestation import IdentityRefusedError, QuoteRefusedError, Verdict
from keyhouse.attestation.appraisal import accept_status
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.attestation.quote.binding import Word, binds_replica
from keyhouse.coordinator.hand_off.notes import NoteProblem, NoteRefusedError, Quoted
from keyhouse.coordinator.origin.listed import lists_code
from keyhouse.manifest import Replicas


class Own(msgspec.Struct, frozen=True):
    """What this process is, as its own verified quote and its command line say."""

    verdict: Verdict
    settings: bytes  # SHA-256 of its measured settings


def require_bound(quoted: Quoted, word: Word, report_data: bytes | None = None) -> None:
    """Raise ``NoteRefusedError`` unless the quote was made for exactly this message.

    ``report_data``: what the verified quote binds. Without it what an unverified one says: that
    costs microseconds, and refuses what need not be verified.
    """
    if report_data is None:
        try:
            report_data = read_report(read_form(quoted.quote)).report_data
        except QuoteRefusedError as refused:
            raise NoteRefusedError(NoteProblem.QUOTE, refused.message) from None
    if not binds_replica(report_data, word, quoted.message):
        raise NoteRefusedError(NoteProblem.BINDING, "its quote was made for something else")


def require_admitted(verdict: Verdict, replicas: Replicas | None, own: Own) -> None:
    """Raise ``NoteRefusedError`` unless ``replicas`` admit who the verified quote is of."""
    if replicas is None:
        raise NoteRefusedError(
            NoteProblem.NOT_CONFIGURED,
            "the manifest admits no other coordinators",
            hint="give Config.Replicas in the manifest",
        )
    _require_status(verdict, replicas)
    _require_code(verdict, replicas, own)
    if replicas.platforms and verdict.ppid.hex() not in replicas.platforms:
        raise NoteRefusedError(
            NoteProblem.PLATFORM,
            f"the platform {verdict.ppid.hex()} is not listed",
            hint="if it is to be, list it in Config.Replicas.Platforms",
        )


def _require_status(verdict: Verdict, replicas: Replicas) -> None:
    if not verdict.tee.states_tcb:  # its required versions are in Code
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
            f"{_named(verdict)} is not a coordinator that the manifest admits",
            hint="if it is to be one, list it in Config.Replicas.Code",
        )


def _is_same_code(found: Verdict, own: Verdict) -> bool:
    """Tell whether ``found`` is of exactly the code of ``own``, at its version or a higher one.

    Never without a TCB status of the vendor: an entry of ``Code`` alone states the required
    versions. Nor for a VM whose boot measured no kernel or no command line: any could be there.
    """
    if found.debug or not found.tee.states_tcb:
        return False
    if found.measurements is not None and not found.measurements.boot_is_measured:
        return False
    pairs = (
        (found.tee, own.tee),
        (found.mrenclave, own.mrenclave),
        (found.mrsigner, own.mrsigner),
        (found.isvprodid, own.isvprodid),
        (found.vm, own.vm),
    )
    return all(one == other for one, other in pairs) and found.isvsvn >= own.isvsvn


def _named(verdict: Verdict) -> str:
    if verdict.measurements is not None:
        return f"a confidential VM ({verdict.tee.upper()})"
    return f"the code {verdict.mrenclave.hex()}"
