"""Creates the evidence file of a verified coordinator, for commands and the console."""

import time
from collections.abc import Callable, Sequence
from secrets import token_bytes

from keyhouse.attestation import Collateral, write_collateral
from keyhouse.client import CallRefusedError, Coordinator
from keyhouse.client.trust import NONCE
from keyhouse.evidence.bundle import CertifiedLogKey, Evidence, QuotedHead
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

    ``collateral`` returns the collateral of a quote. ``earlier`` has stored checkpoints of the log,
    as notes. With ``hide_anchors``, the evidence has only the hash of each anchor. The function
    verifies the evidence without pins, because an auditor would refuse a file that breaks the
    rules. Raises ``LogInvalidError`` for a damaged log, ``EvidenceRefusedError`` for a log that
    breaks the rules, and the errors of calls.
    """
    proven, key = coordinator.trusted, coordinator.log_key()
    nonce = token_bytes(NONCE)
    # This checkpoint continues the remembered log.
    before = coordinator.witnessed_checkpoint()
    head = coordinator.log_quote(nonce)
    bundle = write_collateral(collateral(head.quote))
    evidence = collect(
        parts_of(coordinator),
        made=time.time_ns() // 1000,
        certificates=(proven.root_der, proven.intermediate_der),
        key=CertifiedLogKey(key.verifier_key, key.signature),
        note=head.checkpoint.encode(),
        head=QuotedHead(nonce, head.quote, object_name(bundle)),
        collateral=bundle,
        earlier=(*earlier, before.note.decode()),
        hide_anchors=hide_anchors,
    )
    examine(evidence, None)
    return evidence


def parts_of(coordinator: Coordinator) -> Parts:
    """Return a function that reads parts of the coordinator's log by their paths.

    The function returns None for a missing part.
    """

    def read(path: str) -> bytes | None:
        try:
            return coordinator.log_part(path)
        except CallRefusedError as refusal:
            if refusal.reason != "not-found":
                raise
            return None

    return read
