"""What the launcher shows: names, the certificate, the signing request, the quote."""

import hashlib
import ipaddress
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from keyhouse.attestation import Platform
from keyhouse.attestation.kinds.table import read_form, read_report
from keyhouse.launcher import LaunchRefusedError, make_credentials, quote_over, read_names
from keyhouse.launcher.activation import read_mesh_address
from keyhouse.wire.address import Address
from keyhouse_simulation import open_platform

_VECTORS = Path(__file__).parent.parent / "attestation/vectors"
_LOOPBACK = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))


@pytest.mark.parametrize(
    ("text", "dns", "ips"),
    [
        ("localhost", ("localhost",), ()),
        (" a.example , *.a.example,,a.example", ("a.example", "*.a.example"), ()),
        ("10.0.0.7, web, 2001:db8::7, 127.0.0.1", ("web",), ("10.0.0.7", "2001:db8::7")),
        ("", (), ()),
    ],
)
def test_names_are_cut_at_commas(text: str, dns: tuple[str, ...], ips: tuple[str, ...]) -> None:
    names = read_names(text)

    assert names.dns == dns
    assert names.ips == (*_LOOPBACK, *map(ipaddress.ip_address, ips))


@pytest.mark.parametrize("text", ["ok,two words", "bücher.example", "a\0b", "fe80::1%eth0", "a/b"])
def test_name_that_no_certificate_holds_is_refused(text: str) -> None:
    with pytest.raises(LaunchRefusedError):
        read_names(text)


def test_certificate_and_request_are_as_the_interface_has_them() -> None:
    made = make_credentials(read_names("web.example.com,10.0.0.7"))
    certificate = x509.load_der_x509_certificate(made.certificate)
    request = x509.load_der_x509_csr(made.request)

    certificate.verify_directly_issued_by(certificate)
    assert request.is_signature_valid
    assert request.public_key() == certificate.public_key()
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert not list(request.subject)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names == request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web.example.com"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "::1",
        "10.0.0.7",
    ]
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_agreement, usage.key_cert_sign) == (
        True,
        True,
        False,
    )
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]


def test_each_start_has_a_key_of_its_own_that_is_not_shown() -> None:
    names = read_names("localhost")
    one, other = make_credentials(names), make_credentials(names)

    assert one.key != other.key
    assert one.certificate != other.certificate
    assert one.key.reveal().hex() not in repr(one)
    assert repr(one.key.reveal()) not in repr(one)


def test_quote_binds_the_certificate_and_has_the_header_in_front(tmp_path: Path) -> None:
    certificate = make_credentials(read_names("localhost")).certificate

    quote = quote_over(certificate, open_platform(tmp_path / "simulation"))

    form = read_form(quote)
    assert len(quote) == len(form.raw) + 16
    assert read_report(form).report_data == hashlib.sha256(certificate).digest() + bytes(32)


class _Recorded:
    """A platform that has one quote, as real hardware made it."""

    def __init__(self, name: str) -> None:
        self.recorded = (_VECTORS / name).read_bytes()

    def quote(self, report_data: bytes) -> bytes:
        assert len(report_data) == 64
        return self.recorded


@pytest.mark.parametrize(("name", "header"), [("sgx_quote", 16), ("tdx_quote", 0)])
def test_quotes_of_hardware_travel_in_the_form_of_their_kind(name: str, header: int) -> None:
    platform = _Recorded(name)

    quote = quote_over(b"a certificate", cast("Platform", platform))

    assert quote[header:] == platform.recorded


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:2001", "localhost", 2001),
        ("coordinator.keyhouse", "coordinator.keyhouse", 2001),
        ("10.0.0.7:12", "10.0.0.7", 12),
        ("[::1]:2002", "::1", 2002),
        ("[2001:db8::1]", "2001:db8::1", 2001),
    ],
)
def test_address_has_the_usual_port(text: str, host: str, port: int) -> None:
    assert read_mesh_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    ["", ":2001", "host:0", "host:65536", "https://host:1", "a b:1", "[::1", "[1.2]:1", "h:"],
)
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(LaunchRefusedError):
        read_mesh_address(text)
