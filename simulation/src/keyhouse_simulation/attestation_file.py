"""The attestation configuration file of a simulated coordinator."""

import binascii

import msgspec

from keyhouse.attestation import ExpectedIdentity


def write_expected_identity(expected: ExpectedIdentity) -> bytes:
    """Return an attestation configuration file, JSON, with the given fields only."""
    fields: dict[str, object] = {
        "UniqueID": expected.unique_id.hex(),
        "SignerID": expected.signer_id.hex(),
        "ProductID": expected.product_id,
        "SecurityVersion": expected.security_version,
        "Debug": expected.debug,
        "AcceptedTCBStatuses": expected.accepted_tcb_statuses,
        "AcceptedAdvisories": expected.accepted_advisories,
        "Nonce": binascii.b2a_base64(expected.nonce, newline=False).decode(),
        **{each.FIELD: each for each in expected.vms},
    }
    given = {name: value for name, value in fields.items() if value}
    return msgspec.json.format(msgspec.json.encode(given), indent=2) + b"\n"
