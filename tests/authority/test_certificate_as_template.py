"""A DER certificate as template."""

from datetime import timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given, settings, strategies as st
from support.samples.authority import NOW, coordinator_keys, ecdsa, issued

from keyhouse.authority import generate, trial
from keyhouse.base.errors import Problem
from keyhouse.wire.secret_types import (
    AddressRange,
    CertificateTemplate,
    Extension,
    NameAttribute,
    Subject,
    Uri,
)

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "template")])
FULL = CertificateTemplate(
    subject=Subject(
        country=("DE",),
        organization=("Keyhouse", "Second"),
        common_name="full",
        serial_number="42",
        extra_names=(NameAttribute((2, 5, 4, 12), "title"),),
    ),
    dns_names=("a.example.org",),
    ip_addresses=("192.0.2.1",),
    email_addresses=("someone@example.com",),
    uris=(Uri("spiffe", "trust.example", "/web service"),),
    key_usage=1 | 16 | 32 | 256,
    ext_key_usage=(1, 13),
    unknown_ext_key_usage=((1, 2, 3, 4, 5),),
    not_after="2031-02-03T04:05:06Z",
    is_ca=True,
    max_path_len_zero=True,
    subject_key_id=b"\x01\x02\x03",
    ocsp_server=("http://ocsp.example.com",),
    issuing_certificate_url=("http://ca.example.com/ca.der",),
    crl_distribution_points=("http://crl.example.com/1",),
    permitted_dns_domains_critical=True,
    permitted_dns_domains=("example.org",),
    excluded_email_addresses=("bad.example",),
    permitted_uri_domains=("example.com",),
    permitted_ip_ranges=(AddressRange("10.0.0.0", b"\xff\0\0\0"),),
    excluded_ip_ranges=(AddressRange("2001:db8::", b"\xff" * 4 + bytes(12)),),
    policies=("1.3.6.1.4.1.311.1",),
    extra_extensions=(Extension((1, 2, 3, 4), b"\x05\x00", critical=True),),
)


def _again(der: bytes) -> x509.Certificate:
    value = generate(ecdsa(cert_der=der), name="web", keys=coordinator_keys(), now=NOW)
    return x509.load_der_x509_certificate(value.cert)


def _problems(der: bytes, *, valid_for: int = 0) -> tuple[Problem, ...]:
    definition = ecdsa(cert_der=der, valid_for=valid_for)
    return trial(definition, name="web", keys=coordinator_keys(), now=NOW)


def _foreign(*extensions: x509.ExtensionType, subject: x509.Name = NAME) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(NAME)
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=10))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    "template", [CertificateTemplate(), FULL, msgspec.structs.replace(FULL, key_usage=1)]
)
def test_template_and_its_certificate_ask_for_the_same(template: CertificateTemplate) -> None:
    first = issued(template)
    second = _again(first.public_bytes(Encoding.DER))
    assert second.subject == first.subject
    assert second.not_valid_after_utc == first.not_valid_after_utc
    assert list(second.extensions) == list(first.extensions)
    assert second.serial_number != first.serial_number
    assert second.public_key() != first.public_key()


def test_what_a_foreign_certificate_leaves_open_gets_the_defaults() -> None:
    plain, defaults = _again(_foreign()), issued()
    assert plain.subject.rfc4514_string() == "CN=template"
    assert list(plain.extensions) == list(defaults.extensions)
    assert plain.issuer == defaults.issuer


def test_what_speaks_of_the_original_is_left_out() -> None:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(KEY.public_key())
    again = _again(_foreign(authority, x509.PrecertPoison()))
    assert list(again.extensions) == list(issued().extensions)


@pytest.mark.parametrize(
    "extension",
    [
        x509.SubjectAlternativeName([x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))]),
        x509.SubjectAlternativeName([x509.UniformResourceIdentifier("urn:not:carried")]),
        x509.SubjectAlternativeName([x509.UniformResourceIdentifier("http://a/?query")]),
        x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.2.3"), ["cps"])]),
        x509.NameConstraints([x509.DirectoryName(NAME)], None),
        x509.CRLDistributionPoints(
            [
                x509.DistributionPoint(
                    [x509.UniformResourceIdentifier("http://a")],
                    None,
                    frozenset([x509.ReasonFlags.key_compromise]),
                    None,
                )
            ]
        ),
        x509.AuthorityInformationAccess(
            [
                x509.AccessDescription(
                    x509.ObjectIdentifier("1.2.3"), x509.UniformResourceIdentifier("http://a")
                )
            ]
        ),
        x509.AuthorityInformationAccess(
            [
                x509.AccessDescription(
                    x509.ObjectIdentifier("1.3.6.1.5.5.7.48.1"), x509.DNSName("ocsp.example")
                )
            ]
        ),
        x509.CRLDistributionPoints(
            [x509.DistributionPoint([x509.DirectoryName(NAME)], None, None, None)]
        ),
        x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.54"), b"garbage"),
    ],
)
def test_what_a_template_cannot_carry_is_refused_not_dropped(
    extension: x509.ExtensionType,
) -> None:
    (problem,) = _problems(_foreign(extension))
    assert problem.at == "Secrets.web.Cert"
    assert "cannot carry" in problem.problem


def test_second_common_name_is_refused() -> None:
    subject = x509.Name([*NAME, *NAME])
    (problem,) = _problems(_foreign(subject=subject))
    assert problem.at == "Secrets.web.Cert"


def test_rules_hold_for_the_fields_of_a_certificate_too() -> None:
    der = _foreign(
        x509.SubjectAlternativeName([x509.DNSName("x"), x509.DNSName("coordinator.example.com")])
    )
    assert [problem.at for problem in _problems(der)] == ["Secrets.web.Cert.DNSNames[1]"]
    marble_type = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.9903.2.1"), b"web")
    (problem,) = _problems(_foreign(marble_type))
    assert "marble type" in problem.problem


def test_days_beside_the_end_of_the_certificate_are_refused() -> None:
    assert [problem.at for problem in _problems(_foreign(), valid_for=3)] == [
        "Secrets.web.ValidFor"
    ]


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=300))
def test_garbage_is_one_problem(raw: bytes) -> None:
    (problem,) = _problems(raw)
    assert problem.at == "Secrets.web.Cert"


# The coordinator does not use the template's serial number, so a bad number does no harm.
@pytest.mark.filterwarnings("ignore:Parsed a serial number:UserWarning")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_certificate_is_taken_or_refused_by_us(data: st.DataObject) -> None:
    der = bytearray(_DAMAGEABLE)
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] ^= data.draw(st.integers(1, 255))
    for problem in _problems(bytes(der)):
        assert problem.at.startswith(("Secrets.web.Cert", "Secrets.web.ValidFor"))


_DAMAGEABLE = issued(FULL).public_bytes(Encoding.DER)
