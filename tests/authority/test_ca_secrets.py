"""Generated secrets that are CAs: their holder cannot impersonate the coordinator or a workload."""

import subprocess
from collections.abc import Callable, Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from support.process.tool import built_with_go, tool
from support.samples.authority import NOW, coordinator_keys, ecdsa, issued

from keyhouse.authority import (
    CoordinatorKeys,
    generate,
    make_coordinator_keys,
    read_marble_certificate,
)
from keyhouse.authority.x509.fields import MARBLE_TYPE
from keyhouse.wire.secret_types import AddressRange, CertificateTemplate

CA = CertificateTemplate(is_ca=True)
LIMITED = CertificateTemplate(is_ca=True, permitted_dns_domains=("example.com", "example.org"))
OWN = "coordinator.example.com"

Signer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]
Believes = Callable[[x509.Certificate, Sequence[x509.Certificate], str], bool]


def ca_secret(template: CertificateTemplate, keys: CoordinatorKeys | None = None) -> Signer:
    """Return the certificate and the key that a workload receives for a CA secret."""
    value = generate(ecdsa(template), name="ca", keys=keys or coordinator_keys(), now=NOW)
    key = load_der_private_key(value.private.reveal(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return x509.load_der_x509_certificate(value.cert), key


def sign(
    signer: Signer, *names: str, ca: bool = False, common_name: str = "x", kind: bytes = b""
) -> Signer:
    """Return a certificate for any name, signed by the holder of a CA's key, with its key."""
    issuer, issuer_key = signer
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_name(name) for name in names]), critical=False
        )
    if kind:
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(usages, critical=False)
        builder = builder.add_extension(
            x509.UnrecognizedExtension(MARBLE_TYPE, kind), critical=False
        )
    return builder.sign(issuer_key, SHA256()), key


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_with_go(Path(__file__).parent / "goverify", tmp_path_factory.mktemp("go"))


@pytest.fixture(name="believes", params=["go", "openssl"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Believes:
    """Return a function: whether a client that trusts the root accepts a leaf for a host."""
    if request.param == "go":
        program = request.getfixturevalue("go_program")
        return lambda *chain_and_host: _go_believes(program, tmp_path, *chain_and_host)
    openssl = tool("openssl")
    return lambda *chain_and_host: _openssl_believes(openssl, tmp_path, *chain_and_host)


def _written(
    folder: Path, leaf: x509.Certificate, between: Sequence[x509.Certificate]
) -> tuple[str, str, str]:
    keys = coordinator_keys()
    own = (x509.load_der_x509_certificate(d) for d in (keys.root_cert, keys.intermediate_cert))
    root, intermediate = own
    files = {"root": [root], "between": [*between, intermediate], "leaf": [leaf]}
    for name, certificates in files.items():
        (folder / name).write_bytes(b"".join(c.public_bytes(Encoding.PEM) for c in certificates))
    return str(folder / "root"), str(folder / "between"), str(folder / "leaf")


def _go_believes(program: Path, folder: Path, leaf: Any, between: Any, host: str) -> bool:
    command = [str(program), *_written(folder, leaf, between), host]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout == "accepted\n"


def _openssl_believes(openssl: str, folder: Path, leaf: Any, between: Any, host: str) -> bool:
    root, chain, own = _written(folder, leaf, between)
    asked = "-verify_ip" if host[0].isdigit() else "-verify_hostname"
    done = subprocess.run(
        [openssl, "verify", "-CAfile", root, "-untrusted", chain, asked, host, own],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode == 0


@pytest.mark.parametrize("template", [CA, LIMITED], ids=["any", "limited"])
@pytest.mark.parametrize(
    ("name", "host"),
    [
        (OWN, OWN),
        (OWN.upper(), OWN),
        ("below." + OWN, "below." + OWN),
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_a_client_refuses_a_name_of_the_coordinator_below_a_secret(
    believes: Believes, template: CertificateTemplate, name: str, host: str
) -> None:
    ca = ca_secret(template)
    assert not believes(sign(ca, name)[0], [ca[0]], host)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (CA, "web.example.org"),
        (CA, "example.org"),
        (CA, "10.1.2.4"),
        (LIMITED, "web.example.com"),
        (LIMITED, "web.example.org"),
    ],
)
def test_a_client_accepts_another_name_below_a_secret(
    believes: Believes, template: CertificateTemplate, name: str
) -> None:
    ca = ca_secret(template)
    assert believes(sign(ca, name)[0], [ca[0]], name)


def test_a_client_refuses_a_wildcard_over_the_coordinator(believes: Believes) -> None:
    ca = ca_secret(CA)
    assert not believes(sign(ca, "*.example.com")[0], [ca[0]], OWN)


def test_a_client_refuses_the_coordinator_as_a_mere_common_name(believes: Believes) -> None:
    ca = ca_secret(LIMITED)
    assert not believes(sign(ca, common_name=OWN)[0], [ca[0]], OWN)


def test_a_client_refuses_the_coordinator_below_a_further_ca(believes: Believes) -> None:
    ca = ca_secret(LIMITED)
    further = sign(ca, ca=True, common_name="further")
    chain = [further[0], ca[0]]
    assert not believes(sign(further, OWN)[0], chain, OWN)
    assert believes(sign(further, "web.example.org")[0], chain, "web.example.org")


def test_a_client_refuses_a_further_ca_where_the_path_may_not_be_so_long(
    believes: Believes,
) -> None:
    ca = ca_secret(CertificateTemplate(is_ca=True, max_path_len_zero=True))
    further = sign(ca, ca=True, common_name="further")
    assert believes(sign(ca, "web.example.org")[0], [ca[0]], "web.example.org")
    leaf = sign(further, "web.example.org")[0]
    assert not believes(leaf, [further[0], ca[0]], "web.example.org")


def test_what_a_secret_signs_is_no_workload_to_the_coordinator() -> None:
    root = coordinator_keys().marble_root_cert
    uuid = "11111111-2222-3333-4444-555555555555"
    leaf, _ = sign(ca_secret(CA), common_name=uuid, kind=b"web")
    assert read_marble_certificate(leaf.public_bytes(Encoding.DER), root) is None
    # A CA with the name of the issuer of workloads still has a different key.
    issuer = x509.load_der_x509_certificate(root)
    named = sign(ca_secret(CA), ca=True)[1]
    leaf, _ = sign((issuer, named), common_name=uuid, kind=b"web")
    assert read_marble_certificate(leaf.public_bytes(Encoding.DER), root) is None


def _constraints(template: CertificateTemplate, keys: CoordinatorKeys) -> tuple[list[str], bool]:
    """Return the names that a CA secret may not sign, and whether the extension is critical.

    Each client must apply a critical extension.
    """
    extensions = ca_secret(template, keys)[0].extensions
    found = extensions.get_extension_for_class(x509.NameConstraints)
    return [str(name.value) for name in found.value.excluded_subtrees or ()], found.critical


def test_own_names_are_added_to_what_a_template_excludes() -> None:
    template = CertificateTemplate(
        is_ca=True,
        permitted_dns_domains=("example.com",),
        excluded_dns_domains=("bad.example.com", OWN),
        excluded_ip_ranges=(AddressRange("10.1.2.3", b"\xff" * 4),),
    )
    assert _constraints(template, coordinator_keys()) == (
        ["bad.example.com", OWN, "10.1.2.3/32", "::fffe:0:0/95"],
        True,
    )


@pytest.mark.parametrize("ranges", [(), (AddressRange("10.1.0.0", b"\xff\xff\0\0"),)])
def test_permitted_addresses_are_those_of_the_template_or_all(
    believes: Believes, ranges: tuple[AddressRange, ...]
) -> None:
    ca = ca_secret(CertificateTemplate(is_ca=True, permitted_ip_ranges=ranges))
    assert believes(sign(ca, "10.1.2.4")[0], [ca[0]], "10.1.2.4")
    assert believes(sign(ca, "10.9.2.4")[0], [ca[0]], "10.9.2.4") is not bool(ranges)
    assert believes(sign(ca, "2001:db8::2")[0], [ca[0]], "2001:db8::2") is not bool(ranges)
    assert not believes(sign(ca, "::ffff:10.1.2.3")[0], [ca[0]], "10.1.2.3")


def test_a_domain_that_a_wildcard_covers_is_excluded_unless_the_template_says_where_it_signs() -> (
    None
):
    keys = make_coordinator_keys(
        dns_names=("A.B.example.com.", "*.own.example", "single", "two.labels", "localhost"),
        ip_addresses=("2001:db8::1", "127.0.0.1", "::1"),
        curve="P-256",
        now=NOW,
        simulated=False,
    )
    address = "2001:db8::1/128"
    anywhere = ["b.example.com", "own.example", "single", "two.labels", address]
    somewhere = ["a.b.example.com", "own.example", "single", "two.labels", address]
    assert _constraints(CA, keys) == (anywhere, True)
    assert _constraints(LIMITED, keys) == (somewhere, True)


def test_a_coordinator_of_loopback_names_keeps_nothing_to_itself() -> None:
    keys = make_coordinator_keys(
        dns_names=("localhost",), ip_addresses=(), curve="P-256", now=NOW, simulated=False
    )
    extensions = ca_secret(CA, keys)[0].extensions
    assert not [e for e in extensions if isinstance(e.value, x509.NameConstraints)]


def test_a_certificate_that_is_no_ca_has_only_what_its_template_constrains() -> None:
    excluded = CertificateTemplate(excluded_dns_domains=("bad.example",))
    (found,) = [e for e in issued(excluded).extensions if isinstance(e.value, x509.NameConstraints)]
    assert not found.critical
    assert [str(n.value) for n in found.value.excluded_subtrees or ()] == ["bad.example"]
    assert not [e for e in issued().extensions if isinstance(e.value, x509.NameConstraints)]
