"""A coordinator's keys, and certificates in the view of independent programs."""

import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from cryptography import x509

from keyhouse.authority import CoordinatorKeys, Curve, generate, make_coordinator_keys, trial
from keyhouse.base.errors import Problem
from keyhouse.base.pem import certificate_pem
from keyhouse.wire.secret_types import CertificateTemplate, SecretDefinition, SecretType

NOW = datetime(2026, 11, 21, 10, 30, 15, 123456, tzinfo=UTC)
OWN_DNS = ("coordinator.example.com", "localhost")
OWN_IP = ("10.1.2.3",)


@cache
def coordinator_keys(curve: Curve = "P-256") -> CoordinatorKeys:
    return make_coordinator_keys(
        dns_names=OWN_DNS, ip_addresses=OWN_IP, curve=curve, now=NOW, simulated=False
    )


def ecdsa(
    template: CertificateTemplate | None = None, *, valid_for: int = 0, cert_der: bytes = b""
) -> SecretDefinition:
    return SecretDefinition(
        type=SecretType.CERT_ECDSA,
        size=256,
        shared=True,
        cert=template,
        cert_der=cert_der,
        valid_for=valid_for,
    )


def issued(template: CertificateTemplate | None = None, *, valid_for: int = 0) -> x509.Certificate:
    value = generate(
        ecdsa(template, valid_for=valid_for), name="web", keys=coordinator_keys(), now=NOW
    )
    return x509.load_der_x509_certificate(value.cert)


def problems_of(template: CertificateTemplate, *, valid_for: int = 0) -> tuple[Problem, ...]:
    definition = ecdsa(template, valid_for=valid_for)
    return trial(definition, name="web", keys=coordinator_keys(), now=NOW)


def places_of(template: CertificateTemplate, *, valid_for: int = 0) -> list[str]:
    found = problems_of(template, valid_for=valid_for)
    assert all(problem.problem and problem.hint for problem in found)
    return [problem.at.removeprefix("Secrets.web.") for problem in found]


def openssl(*arguments: str) -> str:
    """Run OpenSSL's program, which must succeed; return its output."""
    done = subprocess.run(
        ["openssl", *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def openssl_text(der: bytes, folder: Path) -> str:
    file = folder / "certificate.der"
    file.write_bytes(der)
    return openssl("x509", "-inform", "DER", "-in", str(file), "-noout", "-text")


def openssl_verify(leaf: bytes, *, root: bytes, between: bytes = b"", folder: Path) -> str:
    files = {"leaf": leaf, "root": root, "between": between}
    for name, der in files.items():
        (folder / name).write_text(certificate_pem(der), "ascii")
    chain = ("-untrusted", str(folder / "between")) if between else ()
    return openssl(
        "verify",
        "-x509_strict",
        *("-attime", str(int(NOW.timestamp()) + 60)),
        *("-CAfile", str(folder / "root")),
        *chain,
        str(folder / "leaf"),
    )
