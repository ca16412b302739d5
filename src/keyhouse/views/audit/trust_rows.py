"""The auditor's trust in rows: deployment, code, vendor, witnesses with keys, gaps."""

import hashlib
from collections.abc import Iterator

from keyhouse.attestation import ExpectedIdentity
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.report import in_words
from keyhouse.evidence.verify import Verified
from keyhouse.transparency.keys import COSIGNED_MLDSA44, VerifierKey
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.views.audit.inputs import Given, GivenFile
from keyhouse.views.audit.markup import Html, element, joined, listing
from keyhouse.views.witnesses import quorum_in_words


def trusted_rows(verified: Verified, pins: Pins, given: Given) -> Iterator[tuple[str, str]]:
    """Yield the auditor's trusted values for the report, as pairs of name and value.

    ``pins``: the pins for the verification ``verified``. ``given``: the files of the auditor.
    """
    if pins.root:
        yield "Deployment", joined("the root certificate ", element("code", pins.root))
    if pins.manifest:
        yield "Deployment", joined("the first manifest ", element("code", pins.manifest))
    files = iter(each for each in given.trusted if each.role != "--policy")
    for identity in (pins.identity, *pins.accepted):
        which = "Code at the end" if identity is pins.identity else "Code before"
        yield which, joined(_file(next(files, None)), _code(identity))
    vendor = joined("SHA-256 ", element("code", object_name(pins.vendor_root)))
    kind = "a SIMULATED vendor, " if verified.is_simulated else "Intel, "
    yield "Root of the hardware", joined(kind, vendor)
    if pins.policy is None:
        yield "Witnesses", "none"
    else:
        file = next((each for each in given.trusted if each.role == "--policy"), None)
        yield "Witnesses", joined(_file(file), _witnesses(verified, pins.policy))
    if pins.max_age is not None:
        yield "Oldest witness time", f"{pins.max_age.total_seconds():.0f} s before the verification"
    yield "Allowed gaps", ", ".join(sorted(pins.allowed)) or "none"


def _file(file: GivenFile | None) -> Html:
    if file is None:
        return Html("")
    return element("p", f"{file.name}, SHA-256 ", element("code", file.sha256))


def _code(identity: ExpectedIdentity) -> Html:
    if identity.vm is not None:
        return element("p", "a confidential VM by its measurements")
    parts = []
    if identity.unique_id:
        parts.append(joined("UniqueID ", element("code", identity.unique_id.hex())))
    if identity.signer_id:
        numbers = (
            f", ProductID {identity.product_id},"
            f" SecurityVersion {identity.security_version} or higher"
        )
        parts.append(joined("SignerID ", element("code", identity.signer_id.hex()), numbers))
    return listing([*parts, *(["DEBUG enclaves are accepted"] if identity.debug else [])])


def _witnesses(verified: Verified, policy: CosignaturePolicy) -> Html:
    signed = set(verified.milestones[-1].witnesses)
    lines = [
        joined(
            f"{each.name}: ",
            _key(each.key),
            ", has cosigned the end" if each.name in signed else ", has NOT cosigned the end",
        )
        for each in policy.witnesses
    ]
    time = verified.witnessed
    seen = "" if time is None else f" They had seen the end by {in_words(time)} UTC."
    return joined(
        listing(lines),
        element("p", f"A quorum is {quorum_in_words(policy.quorum)}.{seen}"),
        element("p", _tolerated(policy)),
    )


def _key(key: VerifierKey) -> Html:
    """Return the verifier key. A long key appears as the hash of its bytes."""
    if key.kind != COSIGNED_MLDSA44:
        return element("code", str(key))
    digest = hashlib.sha256(key.public).hexdigest()
    return joined(
        element("code", f"{key.name}+{key.key_id.hex()}"),
        ", ML-DSA-44, SHA-256 of the key ",
        element("code", digest),
    )


def _tolerated(policy: CosignaturePolicy) -> str:
    tolerated = policy.tolerated_liars
    if tolerated < 0:
        return "Two contradicting histories could both have enough cosignatures, without any lie."
    if not tolerated:
        return "If one of them lies, a contradicting history could have enough cosignatures, too."
    return (
        f"Even if {tolerated} of them lie, no contradicting history has enough cosignatures. If"
        f" {tolerated + 1} lie, one could."
    )
