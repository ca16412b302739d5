"""Signing requests of workloads: the permitted names, keys and signatures."""

import ipaddress
import os
from collections.abc import Callable
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, strategies as st
from support.samples.authority import coordinator_keys
from support.samples.fixed_keys import dsa_key, unused_rsa_key
from support.samples.signing_request import request_key, signing_request

from keyhouse.authority import read_signing_request
from keyhouse.authority.x509.marble_certificates import extension
from keyhouse.authority.x509.signing_request import LARGEST, MOST_NAMES, MOST_PARTS
from keyhouse.base.byte_reader import element
from keyhouse.base.errors import InvalidError

KEYS = coordinator_keys()  # names: coordinator.example.com, localhost, 10.1.2.3


def refusal(der: bytes) -> str:
    with pytest.raises(InvalidError) as refused:
        read_signing_request(der, KEYS)
    assert all(problem.at == "CSR" for problem in refused.value.problems)
    return str(refused.value)


def test_the_request_of_a_launcher_is_read() -> None:
    read = read_signing_request(signing_request(["web.example.com", "localhost"]), KEYS)

    assert read.dns_names == ("web.example.com", "localhost")
    assert read.ip_addresses == ("127.0.0.1", "::1")
    assert read.names == (*read.dns_names, *read.ip_addresses)
    assert read.subject == ()


def test_a_request_may_ask_for_no_names() -> None:
    assert read_signing_request(signing_request([], []), KEYS).names == ()


def test_names_of_other_kinds_are_left_out() -> None:
    further = [
        x509.UniformResourceIdentifier("spiffe://a/b"),
        x509.RFC822Name("root@coordinator.example.com"),
    ]
    assert read_signing_request(signing_request(["a"], [], further=further), KEYS).names == ("a",)


def test_the_subject_loses_its_common_name_and_organisation() -> None:
    subject = {
        NameOID.COUNTRY_NAME: "DE",
        NameOID.ORGANIZATION_NAME: "Someone Else",
        NameOID.COMMON_NAME: "coordinator.example.com",
        NameOID.ORGANIZATIONAL_UNIT_NAME: "web",
    }
    read = read_signing_request(signing_request(subject=subject), KEYS)

    assert [(each.oid, each.value) for each in read.subject] == [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "web"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "coordinator.example.com",
        "COORDINATOR.example.COM",
        "coordinator.example.com.",
        "*.example.com",
    ],
)
def test_dns_names_of_the_coordinator_are_refused(name: str) -> None:
    told = refusal(signing_request(["web", name, "coordinator.example.com"]))
    assert f'"{name}"' in told
    assert told.count('"') == 2  # only the first name, because there may be a hundred names


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_addresses_of_the_coordinator_are_refused(address: str) -> None:
    told = refusal(signing_request([], [address]))
    assert '"10.1.2.3"' in told


@pytest.mark.parametrize("name", ["", "a b", "a..b", "*.*.org", "a.*", "x" * 64, "a\0b", "-" * 254])
def test_what_is_no_dns_name_is_refused(name: str) -> None:
    assert "invalid DNS name" in refusal(signing_request([name]))


def test_a_range_of_addresses_is_no_address() -> None:
    ranges = [x509.IPAddress(ipaddress.ip_network("10.0.0.0/8"))]
    assert "signing request" in refusal(signing_request(further=ranges))


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
        unused_rsa_key(),
    ],
    ids=["P-256", "P-384", "P-521", "Ed25519", "RSA"],
)
def test_usual_keys_are_accepted(
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey,
) -> None:
    assert read_signing_request(signing_request(key=key), KEYS).names


def _dsa_request() -> bytes:
    key = dsa_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    "der",
    [
        signing_request(key=ec.generate_private_key(ec.SECP256K1())),
        signing_request(key=ec.generate_private_key(ec.SECP224R1())),
        signing_request(key=unused_rsa_key(1024)),
        _dsa_request(),
    ],
    ids=["secp256k1", "P-224", "RSA-1024", "DSA"],
)
def test_unusual_keys_are_refused(der: bytes) -> None:
    assert "P-256, P-384 or P-521, Ed25519, or RSA" in refusal(der)


def test_a_signature_of_another_key_is_refused() -> None:
    der = bytearray(signing_request())
    der[-1] ^= 1
    assert "own key" in refusal(bytes(der)) or "readable" in refusal(bytes(der))


def test_sizes_are_bounded() -> None:
    many = [f"n{number}" for number in range(MOST_NAMES + 1)]
    assert f"more than {MOST_NAMES} names" in refusal(signing_request(many, []))
    assert f"larger than {LARGEST} bytes" in refusal(signing_request() + bytes(LARGEST))


Builder = x509.CertificateSigningRequestBuilder
LOCALITY = x509.NameAttribute(NameOID.LOCALITY_NAME, "a")


def _oid(number: int) -> x509.ObjectIdentifier:
    return x509.ObjectIdentifier(f"1.3.9999.{number}")


def _signed(builder: Builder) -> bytes:
    return builder.sign(request_key(), SHA256()).public_bytes(Encoding.DER)


def _with_subject(count: int) -> bytes:
    return _signed(Builder().subject_name(x509.Name([LOCALITY] * count)))


def _with_one_relative_name(count: int) -> bytes:
    attributes = [x509.NameAttribute(_oid(number), "a") for number in range(count)]
    name = x509.Name([x509.RelativeDistinguishedName(attributes)])
    return _signed(Builder().subject_name(name))


def _with_attributes(count: int) -> bytes:
    builder = Builder().subject_name(x509.Name([]))
    for number in range(count):
        builder = builder.add_attribute(_oid(number), b"a")
    return _signed(builder)


def _with_extensions(count: int) -> bytes:
    builder = Builder().subject_name(x509.Name([]))
    for number in range(count):
        extension = x509.UnrecognizedExtension(_oid(number), b"a")
        builder = builder.add_extension(extension, critical=False)
    return _signed(builder)


def _with_mail_addresses(count: int) -> bytes:
    further = [x509.RFC822Name(f"a@b{number}") for number in range(count)]
    return signing_request([], [], further=further)


@pytest.mark.parametrize(
    ("made", "most", "told"),
    [
        (_with_subject, MOST_PARTS, "attributes in its subject"),
        (_with_one_relative_name, MOST_PARTS, "attributes in its subject"),
        (_with_attributes, MOST_PARTS, "attributes"),
        (_with_extensions, MOST_PARTS, "extensions"),
        (_with_mail_addresses, MOST_NAMES, "names"),
    ],
)
def test_parts_are_counted_before_they_are_read(
    made: Callable[[int], bytes], most: int, told: str
) -> None:
    assert read_signing_request(made(most), KEYS).names == ()
    for count in (most + 1, 400):
        assert f"has more than {most} {told}" in refusal(made(count))


def _unsigned(*attributes: bytes) -> bytes:
    public = request_key().public_key()
    key = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    version, algorithm = bytes.fromhex("020100"), bytes.fromhex("300a06082a8648ce3d040302")
    body = element(0x30, version, element(0x30), key, element(0xA0, *attributes))
    return element(0x30, body, algorithm, element(0x03, b"\0", b"no signature"))


@pytest.mark.parametrize("oid", ["2a864886f70d01090e", "2b06010401823702010e"])
@pytest.mark.parametrize("name", [b"\x81\3a@b", b"\x88\1a"], ids=["known", "unknown"])
def test_parts_are_counted_in_each_kind_of_request_for_extensions(oid: str, name: bytes) -> None:
    def asking(*extensions: bytes) -> bytes:
        values = element(0x31, element(0x30, *extensions))
        return element(0x30, element(0x06, bytes.fromhex(oid)), values)

    small = extension(element(0x06, b"\x2a\3"), b"")
    names = extension(element(0x06, b"\x55\x1d\x11"), element(0x30, *[name] * (MOST_NAMES + 1)))
    assert "extensions" in refusal(_unsigned(asking(*[small] * (MOST_PARTS + 1))))
    assert f"{MOST_NAMES} names" in refusal(_unsigned(asking(names)))
    # The library refuses two requests for extensions. Their parts are counted together before.
    half = asking(*[small] * (MOST_PARTS // 2 + 1))
    assert "extensions" in refusal(_unsigned(half, half))


@pytest.mark.parametrize("value", [b"\x30\x80\0\0", b"\x30\x85\0\0\0\0\0", b"\x30\3\0", b"\5\0"])
def test_extensions_that_are_not_der_are_refused(value: bytes) -> None:
    attribute = element(0x30, bytes.fromhex("06092a864886f70d01090e"), element(0x31, value))
    assert "not a readable" in refusal(_unsigned(attribute))


def test_a_subject_that_would_break_the_certificate_is_refused() -> None:
    # This type permits no byte over 127: other programs could not read the certificate.
    subject = {NameOID.EMAIL_ADDRESS: "jürgen@example.com"}
    assert "cannot hold here" in refusal(signing_request(subject=subject))


@pytest.mark.parametrize("der", [b"", b"0", signing_request()[:-1], signing_request() + b"\0"])
def test_what_is_no_request_is_refused(der: bytes) -> None:
    assert "readable PKCS #10" in refusal(der)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(junk: bytes) -> None:
    assert refusal(junk)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_gives_a_request_or_a_refusal(at: int, value: int) -> None:
    der = bytearray(signing_request(["web"], subject={NameOID.LOCALITY_NAME: "Bochum"}))
    der[at % len(der)] = value
    with suppress(InvalidError):
        read_signing_request(bytes(der), KEYS)


def test_a_refusal_shows_nothing_of_the_request() -> None:
    secret = os.urandom(8).hex()
    assert secret not in refusal(signing_request([f"{secret}..x"]))
