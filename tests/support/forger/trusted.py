"""The files of an auditor beside an evidence file, in the folder of a case.

``now`` is a time (ISO 8601). ``root-fingerprint`` and ``manifest-fingerprint`` are 64 hex digits.
``max-age`` is a number of seconds. ``root.pem`` is the vendor's root, ``attestation.json`` the code
of the coordinator, ``accepted/*.json`` older code, and ``witnesses.policy`` a policy of witnesses.

Without ``witnesses.policy`` the auditor trusts no witness. Without a fingerprint it pins nothing.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from ssl import PEM_cert_to_DER_cert

from keyhouse.attestation import read_expected_identity
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.policy import CosignaturePolicy

__all__ = ["read_pins"]


def read_pins(files: Mapping[str, bytes]) -> Pins | None:
    """Return the pins in the ``files``, or None if the files pin nothing."""
    text = {name: content.decode().strip() for name, content in files.items()}
    root, manifest = text.get("root-fingerprint", ""), text.get("manifest-fingerprint", "")
    if not root and not manifest:
        return None
    older = sorted(name for name in files if name.startswith("accepted/"))
    policy, age = files.get("witnesses.policy"), text.get("max-age")
    return Pins(
        root=root,
        manifest=manifest,
        vendor_root=PEM_cert_to_DER_cert(text["root.pem"]),
        identity=read_expected_identity(files["attestation.json"]),
        accepted=tuple(read_expected_identity(files[name]) for name in older),
        policy=None if policy is None else CosignaturePolicy.read(policy.decode()),
        now=datetime.fromisoformat(text["now"]),
        max_age=None if age is None else timedelta(seconds=int(age)),
    )
