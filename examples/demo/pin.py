"""Verify a coordinator on a simulated platform, then write its root certificate to a file.

Usage: python pin.py HOST:PORT SIMULATION-FOLDER ROOT.PEM

With the option --cacert ROOT.PEM, curl accepts this coordinator only.
"""

import hashlib
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.base.errors import KeyhouseError
from keyhouse.client import TrustedCoordinator, verify_coordinator

__all__ = ["verify"]


def verify(address: str, simulation: Path) -> TrustedCoordinator:
    """Verify a quote of the coordinator at ``address`` over a fresh nonce; return the coordinator.

    ``simulation`` is the folder of the simulated platform in the state directory.
    """
    root_ca = x509.load_pem_x509_certificate((simulation / "root.pem").read_bytes())
    return verify_coordinator(
        address,
        expected=read_expected_identity((simulation / "attestation.json").read_bytes()),
        root_ca_der=root_ca.public_bytes(Encoding.DER),
        collateral=read_collateral((simulation / "collateral.json").read_bytes()),
    )


def _report(trusted: TrustedCoordinator) -> str:
    verdict = trusted.verdict
    bound = hashlib.sha256(trusted.root_der + trusted.nonce).hexdigest()
    rows = {
        "quote": f"{len(trusted.quote):,} bytes, the certificate chain ends in the given root",
        "measurement": f"{verdict.mrenclave.hex()} as expected",
        "signer": f"{verdict.mrsigner.hex()} as expected",
        "TCB status": f"{verdict.tcb_status}, patch level of {verdict.tcb_date:%Y-%m-%d}",
        "nonce": f"{trusted.nonce.hex()} fresh",
        "report data": verdict.report_data[:32].hex(),
        "": f"{bound} = SHA-256(root, nonce)",
        "TLS peer": "served exactly this root certificate, and proved to have its key",
    }
    return "".join(f"{name:<12} {value}\n" for name, value in rows.items())


def main() -> None:
    """Verify and write the file, or end with an error and the exit code 1."""
    if len(sys.argv) != len(("program", "address", "simulation", "file")):
        sys.exit(__doc__)
    address, simulation, file = sys.argv[1:]
    try:
        trusted = verify(address, Path(simulation))
    except (KeyhouseError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    root = x509.load_der_x509_certificate(trusted.root_der)
    Path(file).write_bytes(root.public_bytes(Encoding.PEM))
    sys.stdout.write(f"{_report(trusted)}wrote        {file}\n")


if __name__ == "__main__":
    main()
