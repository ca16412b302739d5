"""Manifests for tests: the samples of the manifest format, and changes to them."""

import copy
import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.authority import CoordinatorKeys, make_coordinator_keys
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.coordinator import check_fully
from keyhouse.manifest.check import Checked
from support.samples.fixed_keys import unused_rsa_key

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAMPLES = Path(__file__).parents[2] / "manifest" / "samples"

Document = dict[str, Any]
Change = Callable[[Document], object]


def sample(name: str) -> bytes:
    """Return the bytes of the sample ``small`` or ``full``."""
    return (SAMPLES / f"{name}.json").read_bytes()


@functools.cache
def _parsed(name: str) -> Document:
    document: Document = json.loads(sample(name))
    return document


def full() -> Document:
    """Return a copy of the full sample."""
    return copy.deepcopy(_parsed("full"))


@functools.cache
def _keys() -> CoordinatorKeys:
    return make_coordinator_keys(
        dns_names=("localhost",), ip_addresses=(), curve="P-256", now=NOW, simulated=False
    )


def fully_checked(raw: bytes, now: datetime = NOW) -> Checked:
    """Check ``raw`` as a coordinator at localhost does, including trial certificates."""
    return check_fully(raw, keys=_keys(), now=now)


def changed(change: Change, base: str = "full") -> bytes:
    """Return a sample after ``change``."""
    document = copy.deepcopy(_parsed(base))
    change(document)
    return json.dumps(document).encode()


def changed_package(package: Document) -> bytes:
    """Return the full sample with ``package`` as the further package ``vm``."""
    return changed(lambda document: document["Packages"].update(vm=package))


def package_refused(package: Document) -> tuple[Problem, ...]:
    """Return the problems of a manifest with ``package``; empty if the check accepts it."""
    try:
        fully_checked(changed_package(package))
    except InvalidError as invalid:
        return invalid.problems
    return ()


def package_warned(package: Document) -> dict[str, str]:
    """Return the warnings about ``package``, by place inside the package."""
    found = fully_checked(changed_package(package)).warnings
    begin = "Packages.vm."
    return {each.at.removeprefix(begin): each.problem for each in found if begin in each.at}


@functools.cache
def certificate_pem(name: str) -> str:
    """Return a self-signed certificate for ``name``, valid around ``NOW``; cached."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=365))
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()


@functools.cache
def rsa_public_pem(bits: int, exponent: int = 65537) -> str:
    """Return an RSA public key in PEM (``PUBLIC KEY``): the same at each call."""
    key = unused_rsa_key(bits, exponent)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode()


def places_in(value: object) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON tree."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        found += places_in(value[key])  # type: ignore[index]
    return found
