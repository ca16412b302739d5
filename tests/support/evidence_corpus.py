"""Recorded evidence files of outsiders, with the required verdict of every verifier.

``forged``: the authors held the keys of the coordinator, the machine and the witnesses.
``omitted``: a true file, and copies without some of its parts; an omission needs no key.
On 2026-11-23, this verifier proved all files but the first file of each folder.
"""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from typing import Final, NamedTuple

from keyhouse.attestation import read_expected_identity
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.policy import CosignaturePolicy

__all__ = ["CORPUS", "NOW", "Recorded", "Verdict", "pins_of"]

NOW: Final = datetime(2026, 11, 24, tzinfo=UTC)
_FOLDER: Final = Path(__file__).parents[1] / "evidence" / "corpus"


class Verdict(NamedTuple):
    """The step that refuses a file, the reason or the gap, and the reason of a watcher.

    ``followed``: the reason in the report of a watcher. ``broken``: the watcher stops.
    Empty: the tests of watchers skip the file.
    """

    step: str
    reason: str
    followed: str


class Recorded(NamedTuple):
    """A recorded file, and the folder with the files of its auditor."""

    folder: Path
    name: str

    @property
    def raw(self) -> bytes:
        """The bytes of the file; the folder holds them compressed."""
        return gzip.decompress((self.folder / f"{self.name}.json.gz").read_bytes())


_MISSING: Final = "the entry names an approval, and the object"
_OTHER_CODE: Final = "the enclave is not the expected enclave: UniqueID does not match"
_FORGED: Final = _FOLDER / "forged"
_OMITTED: Final = _FOLDER / "omitted"
_BROKEN: Final = "broken"  # a watcher does not follow the log any further
_HIDDEN: Final = ""  # no log serves hidden entries

CORPUS: Final = {
    Recorded(_FORGED, "update-without-approval-where-demanded"): Verdict(
        "history",
        "the entry has no signed approval, but the manifest in force requires one",
        _BROKEN,
    ),
    Recorded(_FORGED, "update-with-invented-approval"): Verdict("history", _MISSING, _BROKEN),
    Recorded(_FORGED, "packages-with-invented-approval"): Verdict("history", _MISSING, _BROKEN),
    Recorded(_FORGED, "cancellation-with-invented-approval"): Verdict("history", _MISSING, _BROKEN),
    Recorded(_FORGED, "cancelled-by-nobody"): Verdict(
        "gaps", "cancelled-by-coordinator", "no user cancelled the update"
    ),
    Recorded(_FORGED, "other-code-without-its-quote"): Verdict(
        "history", _OTHER_CODE, f"no quote vouches for this start: {_OTHER_CODE}"
    ),
    Recorded(_FORGED, "manifest-with-repeated-field"): Verdict(
        "history", "Config: is given more than once", _BROKEN
    ),
    Recorded(_FORGED, "packages-while-an-update-is-pending"): Verdict(
        "history", "security versions were raised while an update was pending", _BROKEN
    ),
    Recorded(_FORGED, "manifest-left-out"): Verdict(
        "gaps", "manifest-missing", "the manifest is not in the file"
    ),
    Recorded(_FORGED, "witnessed-in-the-future"): Verdict(
        "witnesses", "no quorum of the policy's witnesses", _HIDDEN
    ),
    Recorded(_FORGED, "manifest-with-one-certificate-of-two-users"): Verdict(
        "history", "is the certificate of the user", _BROKEN
    ),
    Recorded(_OMITTED, "whole-with-other-code"): Verdict(
        "history", _OTHER_CODE, f"no quote vouches for this start: {_OTHER_CODE}"
    ),
    Recorded(_OMITTED, "quote-deleted"): Verdict(
        "history", _OTHER_CODE, f"no quote vouches for this start: {_OTHER_CODE}"
    ),
    Recorded(_OMITTED, "start-hidden"): Verdict("gaps", "hidden-entry", _HIDDEN),
    Recorded(_OMITTED, "start-and-upload-hidden"): Verdict("gaps", "hidden-entry", _HIDDEN),
}


def pins_of(folder: Path) -> Pins:
    """Return the pins of an auditor of the files in ``folder``."""
    return Pins(
        root=(folder / "root-fingerprint").read_text().strip(),
        vendor_root=PEM_cert_to_DER_cert((folder / "root.pem").read_text()),
        identity=read_expected_identity((folder / "attestation.json").read_bytes()),
        policy=CosignaturePolicy.read((folder / "witnesses.policy").read_text()),
        now=NOW,
    )
