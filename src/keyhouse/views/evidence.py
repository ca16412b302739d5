"""Evidence files of a verified coordinator, for all who offer them."""

import time
from collections.abc import Callable, Sequence
from secrets import token_bytes

from keyhouse.attestation import Collateral, write_collateral
from keyhouse.client import CallRefusedError, Coordinator
from keyhouse.client.trust import NONCE
from keyhouse.evidence.bundle import Evidence, Head, LogKey
from keyhouse.evidence.collect import Parts, collect
from keyhouse.evidence.verify import examine
from keyhouse.transparency.leaf import object_name


def evidence_of(
    coordinator: Coordinator,
    collateral: Callable[[bytes], Collateral],
    *,
    earlier: Sequence[str] = (),
    hide_anchors: bool = False,
) -> Evidence:
    """Return the evidence of the whole log of ``coordinator``.

    ``collateral`` returns what verifies a quote. ``earlier``: checkpoints that are kept. The rules
    that need no pins have been applied: an auditor would refuse the file for them anyway. Raises
    ``LogInvalidError`` and ``EvidenceRefusedError`` for a log that is damaged or breaks them, and
    what calls raise.
    """
    proven, key = coordinator.trusted, coordinator.log_key()
    nonce = token_bytes(NONCE)
    before = coordinator.witnessed_checkpoint()  # it continues all that is remembered of the log
    head = coordinator.log_quote(nonce)
    given = write_collateral(collateral(head.quote))
    found = collect(
        parts_of(coordinator),
        made=time.time_ns() // 1000,
        certificates=(proven.root_der, proven.intermediate_der),
        key=LogKey(key.verifier_key, key.signature),
        note=head.checkpoint.encode(),
        head=Head(nonce, head.quote, object_name(given)),
        collateral=given,
        earlier=(*earlier, before.note.decode()),
        hide_anchors=hide_anchors,
    )
    examine(found, None)
    return found


def parts_of(coordinator: Coordinator) -> Parts:
    """Return what reads parts of the log of ``coordinator``; None for one that it has not."""

    def read(path: str) -> bytes | None:
        try:
            return coordinator.log_part(path)
        except CallRefusedError as refusal:
            if refusal.reason != "not-found":
                raise
            return None

    return read
