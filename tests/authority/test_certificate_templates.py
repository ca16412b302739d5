"""Certificate templates: each field, alone and together with more fields."""

import hashlib
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.authority import (
    NOW,
    coordinator_keys,
    ecdsa,
    issued,
    openssl_text,
    openssl_verify,
    places_of,
    problems_of,
)

from keyhouse.authority import generate, make_coordinator_keys, trial
from keyhouse.base.errors import InvalidError
from keyhouse.wire.secret_types import (
    AddressRange,
    CertificateTemplate,
    Extension,
    NameAttribute,
    Subject,
    Uri,
)

T = CertificateTemplate
START = NOW.replace(microsecond=0)
EVERYTHING = T(
    subject=Subject(
        country=("DE",),
        organization=("Keyhouse", "Second"),
        organizational_unit=("Ops",),
        locality=("Berlin",),
        province=("BE",),
        street_address=("Street 1",),
        postal_code=("10115",),
        common_name="Jürgen's CA",
        serial_number="42-a",
        extra_names=(NameAttribute((2, 5, 4, 12), "title"), NameAttribute((1, 2, 3, 4), "own")),
    ),
    dns_names=("a.example.com", "*.b.example.com"),
    ip_addresses=("192.0.2.1", "2001:db8::1"),
    email_addresses=("someone@example.com",),
    uris=(Uri("spiffe", "trust.example", "/web service"),),
    key_usage=1 | 2 | 32 | 64,
    ext_key_usage=tuple(range(14)),
    unknown_ext_key_usage=((1, 2, 3, 4, 5),),
    not_after="2031-02-03T04:05:06.789+02:00",
    is_ca=True,
    max_path_len=3,
    subject_key_id=b"\x01\x02\x03",
    ocsp_server=("http://ocsp.example.com",),
    issuing_certificate_url=("http://ca.example.com/ca.der",),
    crl_distribution_points=("http://crl.example.com/1", "http://crl.example.com/2"),
    permitted_dns_domains_critical=True,
    permitted_dns_domains=(".example.com", "example.org"),
    excluded_dns_domains=("bad.example.com",),
    permitted_email_addresses=("example.com", "one@example.org"),
    excluded_email_addresses=(".bad.example",),
    permitted_uri_domains=("example.com",),
    excluded_uri_domains=(".bad.example",),
    permitted_ip_ranges=(AddressRange("10.0.0.0", b"\xff\0\0\0"),),
    excluded_ip_ranges=(AddressRange("2001:db8::", b"\xff" * 4 + bytes(12)),),
    policies=("1.3.6.1.4.1.311.1",),
    policy_identifiers=((2, 5, 29, 32, 0),),
    extra_extensions=(
        Extension((1, 3, 6, 1, 5, 5, 7, 1, 24), bytes.fromhex("3003020105")),
        Extension((1, 2, 3, 4), b"\x05\x00", critical=True),
    ),
    signature_algorithm=12,
)


def _extension(certificate: x509.Certificate, dotted: str) -> x509.Extension[x509.ExtensionType]:
    return certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(dotted))


def _oids(certificate: x509.Certificate) -> list[str]:
    return [extension.oid.dotted_string for extension in certificate.extensions]


def _usages(certificate: x509.Certificate) -> set[str]:
    value = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    more = ("key_agreement", "key_cert_sign", "crl_sign")
    found = {name for name in (*names, *more) if getattr(value, name)}
    if value.key_agreement:
        found |= {name for name in ("encipher_only", "decipher_only") if getattr(value, name)}
    return found


def _subject(certificate: x509.Certificate) -> list[tuple[str, str]]:
    return [(a.oid.dotted_string, str(a.value)) for a in certificate.subject]


def test_without_a_template_the_defaults_hold() -> None:
    certificate = issued()
    issuer = x509.load_der_x509_certificate(coordinator_keys().intermediate_cert)
    assert certificate.version is x509.Version.v3
    assert 1 <= certificate.serial_number < 2**128
    assert certificate.issuer == issuer.subject
    assert certificate.subject.rfc4514_string() == "CN=localhost"
    assert certificate.not_valid_before_utc == START
    assert certificate.not_valid_after_utc == START + timedelta(days=365)
    # A leaf has no subject key identifier.
    assert _oids(certificate) == ["2.5.29.15", "2.5.29.37", "2.5.29.19", "2.5.29.17", "2.5.29.35"]
    assert _usages(certificate) == {"digital_signature"}
    assert _extension(certificate, "2.5.29.15").critical
    constraints = _extension(certificate, "2.5.29.19")
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=False, path_length=None)
    extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [u.dotted_string for u in extended] == ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    authority = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert authority.key_identifier == own.digest


def test_leaf_verifies_by_both_roots(tmp_path: Path) -> None:
    keys = coordinator_keys()
    leaf = generate(ecdsa(), name="web", keys=keys, now=NOW).cert
    openssl_verify(leaf, root=keys.marble_root_cert, folder=tmp_path)
    openssl_verify(leaf, root=keys.root_cert, between=keys.intermediate_cert, folder=tmp_path)
    certificate = x509.load_der_x509_certificate(leaf)
    certificate.verify_directly_issued_by(x509.load_der_x509_certificate(keys.marble_root_cert))
    certificate.verify_directly_issued_by(x509.load_der_x509_certificate(keys.intermediate_cert))


@pytest.mark.parametrize("algorithm", [0, 10, 11, 12])
def test_signature_algorithm_is_that_of_the_curve_or_as_asked(algorithm: int) -> None:
    certificate = issued(T(signature_algorithm=algorithm))
    hash_ = certificate.signature_hash_algorithm
    assert hash_ is not None
    assert hash_.name == {0: "sha256", 10: "sha256", 11: "sha384", 12: "sha512"}[algorithm]


def test_a_p384_coordinator_signs_leaves_with_sha384() -> None:
    keys = coordinator_keys("P-384")
    certificate = x509.load_der_x509_certificate(
        generate(ecdsa(), name="web", keys=keys, now=NOW).cert
    )
    hash_ = certificate.signature_hash_algorithm
    assert hash_ is not None
    assert hash_.name == "sha384"
    certificate.verify_directly_issued_by(x509.load_der_x509_certificate(keys.marble_root_cert))


def test_everything_together_is_in_the_certificate() -> None:
    certificate = issued(EVERYTHING)
    assert _subject(certificate) == [
        ("2.5.4.6", "DE"),
        ("2.5.4.10", "Keyhouse"),
        ("2.5.4.10", "Second"),
        ("2.5.4.11", "Ops"),
        ("2.5.4.7", "Berlin"),
        ("2.5.4.8", "BE"),
        ("2.5.4.9", "Street 1"),
        ("2.5.4.17", "10115"),
        ("2.5.4.3", "Jürgen's CA"),
        ("2.5.4.5", "42-a"),
        ("2.5.4.12", "title"),
        ("1.2.3.4", "own"),
    ]
    assert certificate.not_valid_after_utc == datetime(2031, 2, 3, 2, 5, 6, tzinfo=UTC)
    assert _usages(certificate) == {
        "digital_signature",
        "content_commitment",
        "key_cert_sign",
        "crl_sign",
    }
    extensions = certificate.extensions
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [u.dotted_string for u in extended] == [
        "2.5.29.37.0",
        *(f"1.3.6.1.5.5.7.3.{n}" for n in range(1, 10)),
        "1.3.6.1.4.1.311.10.3.3",
        "2.16.840.1.113730.4.1",
        "1.3.6.1.4.1.311.2.1.22",
        "1.3.6.1.4.1.311.61.1.1",
        "1.2.3.4.5",
    ]
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=3)
    identifier = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert identifier.digest == b"\x01\x02\x03"
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [
        "a.example.com",
        "*.b.example.com",
        "someone@example.com",
        "192.0.2.1",
        "2001:db8::1",
        "spiffe://trust.example/web%20service",
    ]
    access = extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    assert [(a.access_method.dotted_string, a.access_location.value) for a in access] == [
        ("1.3.6.1.5.5.7.48.1", "http://ocsp.example.com"),
        ("1.3.6.1.5.5.7.48.2", "http://ca.example.com/ca.der"),
    ]
    points = extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    assert [[n.value for n in point.full_name or ()] for point in points] == [
        ["http://crl.example.com/1"],
        ["http://crl.example.com/2"],
    ]
    policies = extensions.get_extension_for_class(x509.CertificatePolicies).value
    assert [p.policy_identifier.dotted_string for p in policies] == [
        "1.3.6.1.4.1.311.1",
        "2.5.29.32.0",
    ]
    limits = extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical
    assert [str(n.value) for n in limits.value.permitted_subtrees or ()] == [
        ".example.com",
        "example.org",
        "10.0.0.0/8",
        "example.com",
        "one@example.org",
        "example.com",
    ]
    assert [str(n.value) for n in limits.value.excluded_subtrees or ()] == [
        "bad.example.com",
        "coordinator.example.com",
        "2001:db8::/32",
        "10.1.2.3/32",
        "::fffe:0:0/95",
        ".bad.example",
        ".bad.example",
    ]
    assert not _extension(certificate, "1.3.6.1.5.5.7.1.24").critical
    own = _extension(certificate, "1.2.3.4")
    assert own.critical
    assert isinstance(own.value, x509.UnrecognizedExtension)
    assert own.value.value == b"\x05\x00"


def test_openssl_reads_everything(tmp_path: Path) -> None:
    text = openssl_text(
        generate(ecdsa(EVERYTHING), name="web", keys=coordinator_keys(), now=NOW).cert, tmp_path
    )
    for line in (
        "Signature Algorithm: ecdsa-with-SHA512",
        "Not After : Feb  3 02:05:06 2031 GMT",
        "CA:TRUE, pathlen:3",
        "Digital Signature, Non Repudiation, Certificate Sign, CRL Sign",
        "DNS:a.example.com, DNS:*.b.example.com, email:someone@example.com, IP Address:192.0.2.1",
        "URI:spiffe://trust.example/web%20service",
        "OCSP - URI:http://ocsp.example.com",
        "CA Issuers - URI:http://ca.example.com/ca.der",
        "URI:http://crl.example.com/2",
        "X509v3 Name Constraints: critical",
        "IP:10.0.0.0/255.0.0.0",
        "Policy: X509v3 Any Policy",
        "status_request",
        "1.2.3.4: critical",
    ):
        assert line in text


@pytest.mark.parametrize("field", EVERYTHING.__struct_fields__)
def test_each_field_alone_is_taken(field: str) -> None:
    template = msgspec.structs.replace(T(), **{field: getattr(EVERYTHING, field)})
    if field == "max_path_len":
        template = msgspec.structs.replace(template, is_ca=True)
    assert places_of(template) == []
    issued(template)


@pytest.mark.parametrize(
    ("subject", "dns_names", "name"),
    [
        (Subject(common_name="given"), ("one.example",), "given"),
        (Subject(), ("one.example",), "one.example"),
        (Subject(), ("one.example", "two.example"), "Keyhouse Generated Certificate"),
        (Subject(), (), "Keyhouse Generated Certificate"),
        (Subject(), None, "localhost"),
    ],
)
def test_common_name_has_a_default(
    subject: Subject, dns_names: tuple[str, ...] | None, name: str
) -> None:
    certificate = issued(T(subject=subject, dns_names=dns_names))
    assert certificate.subject.rfc4514_string() == f"CN={name}"


def test_extra_name_replaces_the_plain_field_of_its_type() -> None:
    subject = Subject(
        organization=("plain",),
        common_name="plain",
        extra_names=(NameAttribute((2, 5, 4, 3), "x"), NameAttribute((2, 5, 4, 3), "y")),
    )
    assert _subject(issued(T(subject=subject))) == [
        ("2.5.4.10", "plain"),
        ("2.5.4.3", "x"),
        ("2.5.4.3", "y"),
    ]


def test_empty_lists_leave_the_extensions_out() -> None:
    certificate = issued(T(dns_names=(), ip_addresses=(), ext_key_usage=()))
    assert _oids(certificate) == ["2.5.29.15", "2.5.29.19", "2.5.29.35"]


def test_policies_of_both_fields_are_in_the_certificate_once() -> None:
    template = T(policies=("1.2.3",), policy_identifiers=((1, 2, 3), (2, 5, 4), (2, 5, 4)))
    extensions = issued(template).extensions
    policies = extensions.get_extension_for_class(x509.CertificatePolicies).value
    assert [p.policy_identifier.dotted_string for p in policies] == ["1.2.3", "2.5.4"]


def test_a_ca_may_sign_and_carries_its_identifier() -> None:
    certificate = issued(T(is_ca=True))
    assert _usages(certificate) == {"digital_signature", "key_cert_sign"}
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    bits = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert identifier.digest == hashlib.sha256(bits).digest()[:20]


@pytest.mark.parametrize(
    ("length", "zero", "expected"),
    [(0, False, None), (0, True, 0), (5, False, 5), (5, True, 5), (-1, False, None)],
)
def test_path_length_of_a_ca(length: int, zero: bool, expected: int | None) -> None:  # noqa: FBT001 a table
    certificate = issued(T(is_ca=True, max_path_len=length, max_path_len_zero=zero))
    value = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert value.path_length == expected


@pytest.mark.parametrize("bit", range(9))
def test_each_bit_of_key_usage_has_its_meaning(bit: int) -> None:
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    agreement = {names[4]} if bit > 6 else set()
    mask = 1 << bit | (16 if agreement else 0)
    assert _usages(issued(T(key_usage=mask))) == {names[bit]} | agreement


def test_validity_in_days_is_by_the_calendar() -> None:
    assert issued(valid_for=30).not_valid_after_utc == START + timedelta(days=30)
    assert places_of(T(), valid_for=2_000_000) == []  # about 5,475 years, before the year 9999
    assert places_of(T(), valid_for=3_000_000) == ["ValidFor"]
    assert places_of(T(), valid_for=2**64 - 1) == ["ValidFor"]


def test_zero_time_means_not_given() -> None:
    template = T(not_after="0001-01-01T00:00:00Z")
    assert issued(template, valid_for=7).not_valid_after_utc == START + timedelta(days=7)


def test_last_second_of_the_calendar_can_be_written() -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert issued(T(not_after="9999-12-31T23:59:59Z")).not_valid_after_utc == end


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (Uri("spiffe", "a", "/b"), "spiffe://a/b"),
        (Uri("https", "a.example:8443"), "https://a.example:8443"),
        (Uri("https", "a", "b?c#d%"), "https://a/b%3Fc%23d%25"),
        (Uri("file", "", "/ü"), "file:///%C3%BC"),
        (Uri("a+b-c.1", "[::1]", "/$&+,:;=@"), "a+b-c.1://[::1]/$&+,:;=@"),
    ],
)
def test_uris_are_put_together_as_go_does(parts: Uri, text: str) -> None:
    names = issued(T(uris=(parts,))).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.UniformResourceIdentifier) == [text]


def test_mapped_address_is_written_as_ipv4() -> None:
    names = issued(T(ip_addresses=("::ffff:192.0.2.7",))).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    found = names.value.get_values_for_type(x509.IPAddress)
    assert found == [ipaddress.ip_address("192.0.2.7")]


REFUSED: list[tuple[str, CertificateTemplate]] = [
    ("Cert.Subject.CommonName", T(subject=Subject(common_name="n" * 65))),
    ("Cert.Subject.CommonName", T(subject=Subject(common_name="a\0b"))),
    ("Cert.Subject.CommonName", T(subject=Subject(common_name="\udc80"))),
    ("Cert.Subject.CommonName", T(dns_names=("a" * 60 + ".example",))),
    ("Cert.Subject.Country[1]", T(subject=Subject(country=("DE", "DEU")))),
    ("Cert.Subject.Country[0]", T(subject=Subject(country=("ü1",)))),
    ("Cert.Subject.Country[0]", T(subject=Subject(country=("D1",)))),
    ("Cert.Subject.SerialNumber", T(subject=Subject(serial_number="nr_1"))),
    *(
        (
            "Cert.Subject.ExtraNames[0].Value",
            T(subject=Subject(extra_names=(NameAttribute(type_, value),))),
        )
        for type_, value in (
            ((1, 2, 840, 113549, 1, 9, 1), "jürgen@example.com"),
            ((0, 9, 2342, 19200300, 100, 1, 25), "bücher"),
            ((2, 5, 4, 46), "a_b"),
            ((1, 3, 6, 1, 4, 1, 311, 60, 2, 1, 3), "__"),
        )
    ),
    ("Cert.Subject.Organization[0]", T(subject=Subject(organization=("",)))),
    (
        "Cert.Subject.ExtraNames[0].Type",
        T(subject=Subject(extra_names=(NameAttribute((9, 9), "x"),))),
    ),
    (
        "Cert.Subject.ExtraNames[0].Value",
        T(subject=Subject(extra_names=(NameAttribute((2, 5, 4, 3), ""),))),
    ),
    ("Cert.DNSNames[0]", T(dns_names=("bücher.example", "ok.example"))),
    ("Cert.DNSNames[1]", T(dns_names=("ok", ""))),
    ("Cert.DNSNames[0]", T(dns_names=("a\0.example", "x"))),
    ("Cert.DNSNames[0]", T(dns_names=("a.*.example", "x"))),
    ("Cert.IPAddresses[0]", T(ip_addresses=("10.0.0.0/8",))),
    ("Cert.IPAddresses[0]", T(ip_addresses=("010.0.0.1",))),
    ("Cert.IPAddresses[0]", T(ip_addresses=("fe80::1%eth0",))),
    ("Cert.EmailAddresses[0]", T(email_addresses=("nobody",))),
    ("Cert.EmailAddresses[0]", T(email_addresses=("A <a@b.c>",))),
    ("Cert.URIs[0]", T(uris=(Uri(),))),
    ("Cert.URIs[0]", T(uris=(Uri("", "host", "/a"),))),
    ("Cert.URIs[0]", T(uris=(Uri("1a", "host"),))),
    ("Cert.URIs[0]", T(uris=(Uri("a_b", "host"),))),
    ("Cert.URIs[0]", T(uris=(Uri("https"),))),
    ("Cert.URIs[0]", T(uris=(Uri("a", "ho st"),))),
    ("Cert.URIs[0]", T(uris=(Uri("a", "x", "\udc80"),))),
    # Go cannot read any part of a certificate with one of these URIs.
    *(
        ("Cert.URIs[0]", T(uris=(Uri("a", host, "/b"),)))
        for host in ("a.", ".a", "a..b", "a:x", "a%20b", "a@b.")
    ),
    ("Cert.URIs[0]", T(uris=(Uri("a", "", "b"),))),
    *(
        ("Cert.PermittedDNSDomains[0]", T(permitted_dns_domains=(value,)))
        for value in ("a.", "..a", "http://a", "a@b")
    ),
    *(
        ("Cert.ExcludedURIDomains[0]", T(excluded_uri_domains=(value,)))
        for value in ("a..b", "1.2.3.4", "::1")
    ),
    *(
        ("Cert.PermittedEmailAddresses[0]", T(permitted_email_addresses=(value,)))
        for value in ("@a", "a@.b", "a,b@c")
    ),
    ("Cert.UnknownExtKeyUsage[0]", T(unknown_ext_key_usage=((2, 2**31),))),
    ("Cert.ExtraExtensions[0].Id", T(extra_extensions=(Extension((1, 2, 2**31), b"\5\0"),))),
    ("Cert.KeyUsage", T(key_usage=128)),
    ("Cert.KeyUsage", T(key_usage=512)),
    ("Cert.KeyUsage", T(key_usage=-1)),
    ("Cert.ExtKeyUsage[1]", T(ext_key_usage=(1, 14))),
    ("Cert.ExtKeyUsage[0]", T(ext_key_usage=(-1,))),
    ("Cert.UnknownExtKeyUsage[0]", T(unknown_ext_key_usage=((1,),))),
    ("Cert.UnknownExtKeyUsage[0]", T(unknown_ext_key_usage=((1, 2, -3),))),
    ("Cert.NotAfter", T(not_after="2025-01-01T00:00:00Z")),
    ("Cert.NotAfter", T(not_after="2030-01-01")),
    ("Cert.NotAfter", T(not_after="2030-01-01T00:00:00")),
    ("Cert.NotAfter", T(not_after="2030-13-01T00:00:00Z")),
    ("Cert.NotAfter", T(not_after="9999-12-31T23:59:59-01:00")),
    ("Cert.NotAfter", T(not_after="10000-01-01T00:00:00Z")),
    ("Cert.MaxPathLen", T(max_path_len=1)),
    ("Cert.MaxPathLen", T(is_ca=True, max_path_len=-2)),
    ("Cert.MaxPathLenZero", T(max_path_len_zero=True)),
    ("Cert.OCSPServer[0]", T(ocsp_server=("http://bücher.example",))),
    ("Cert.IssuingCertificateURL[0]", T(issuing_certificate_url=("",))),
    ("Cert.CRLDistributionPoints[0]", T(crl_distribution_points=("a b",))),
    ("Cert.PermittedDNSDomains[0]", T(permitted_dns_domains=("*.example.com",))),
    ("Cert.ExcludedDNSDomains[0]", T(excluded_dns_domains=("",))),
    ("Cert.PermittedEmailAddresses[0]", T(permitted_email_addresses=("ü@example.com",))),
    ("Cert.ExcludedURIDomains[0]", T(excluded_uri_domains=("a b",))),
    (
        "Cert.PermittedIPRanges[0]",
        T(permitted_ip_ranges=(AddressRange("10.0.0.1", b"\xff\0\0\0"),)),
    ),
    (
        "Cert.ExcludedIPRanges[0]",
        T(excluded_ip_ranges=(AddressRange("10.0.0.0", b"\xff\0\xff\0"),)),
    ),
    ("Cert.ExcludedIPRanges[0]", T(excluded_ip_ranges=(AddressRange("10.0.0.0", b"\xff" * 16),))),
    ("Cert.ExcludedIPRanges[0]", T(excluded_ip_ranges=(AddressRange("host", b"\xff" * 4),))),
    ("Cert.Policies[0]", T(policies=("1.x",))),
    ("Cert.Policies[1]", T(policies=("1.2.3", "1.2.3"))),
    ("Cert.PolicyIdentifiers[1]", T(policy_identifiers=((1, 2, 3), (1,)))),
    ("Cert.ExtraExtensions[0].Id", T(extra_extensions=(Extension((), b""),))),
    (
        "Cert.ExtraExtensions[1].Id",
        T(extra_extensions=(Extension((1, 2, 3), b"a"), Extension((1, 2, 3), b"b"))),
    ),
    ("Cert", T(extra_extensions=(Extension((2, 5, 29, 54), b"garbage"),))),
    ("Cert.SignatureAlgorithm", T(signature_algorithm=4)),
    ("Cert.SignatureAlgorithm", T(signature_algorithm=16)),
]


@pytest.mark.parametrize(("place", "template"), REFUSED)
def test_what_a_certificate_cannot_hold_is_found_with_its_place(
    place: str, template: CertificateTemplate
) -> None:
    assert places_of(template) == [place]
    with pytest.raises(InvalidError) as refusal:
        issued(template)
    assert refusal.value.problems == problems_of(template)


@pytest.mark.parametrize("last", [17, 15, 37, 19, 35, 14, 30, 31, 32])
def test_extension_that_keyhouse_sets_is_refused_as_an_extra(last: int) -> None:
    template = T(extra_extensions=(Extension((2, 5, 29, last), b"\x30\x00"),))
    (problem,) = problems_of(template)
    assert problem.at == "Secrets.web.Cert.ExtraExtensions[0].Id"
    assert "Keyhouse sets" in problem.problem


def test_access_to_the_issuer_is_refused_as_an_extra() -> None:
    extra = Extension((1, 3, 6, 1, 5, 5, 7, 1, 1), b"\x30\x00")
    assert places_of(T(extra_extensions=(extra,))) == ["Cert.ExtraExtensions[0].Id"]


def test_marble_type_is_refused_as_an_extra() -> None:
    (problem,) = problems_of(T(extra_extensions=(Extension((1, 3, 9903, 2, 1), b"web"),)))
    assert "marble type" in problem.problem


@pytest.mark.parametrize(
    "name",
    [
        "coordinator.example.com",
        "COORDINATOR.Example.com",
        "coordinator.example.com.",
        "*.example.com",
    ],
)
def test_names_of_the_coordinator_are_refused(name: str) -> None:
    assert places_of(T(dns_names=("free.example.org", name))) == ["Cert.DNSNames[1]"]
    subject = Subject(common_name=name)
    assert places_of(T(subject=subject, dns_names=())) == ["Cert.Subject.CommonName"]
    extra = Subject(extra_names=(NameAttribute((2, 5, 4, 3), name),))
    assert places_of(T(subject=extra, dns_names=())) == ["Cert.Subject.ExtraNames[0].Value"]


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_addresses_of_the_coordinator_are_refused(address: str) -> None:
    assert places_of(T(ip_addresses=("192.0.2.1", address))) == ["Cert.IPAddresses[1]"]


def test_address_of_the_coordinator_written_as_a_name_is_refused() -> None:
    assert places_of(T(dns_names=("10.1.2.3", "x"))) == ["Cert.DNSNames[0]"]


@pytest.mark.parametrize("name", ["localhost", "example.com", "a.coordinator.example.com", "*.com"])
def test_other_names_are_free(name: str) -> None:
    assert places_of(T(dns_names=(name,), ip_addresses=("127.0.0.1", "::1"))) == []


def test_names_under_a_configured_wildcard_are_refused() -> None:
    keys = make_coordinator_keys(
        dns_names=("*.example.com",), ip_addresses=(), curve="P-256", now=NOW, simulated=False
    )
    template = T(dns_names=("a.example.com", "a.b.example.com"))
    (problem,) = trial(ecdsa(template), name="web", keys=keys, now=NOW)
    assert problem.at == "Secrets.web.Cert.DNSNames[0]"


def test_all_problems_come_at_once_and_repeat_no_value() -> None:
    template = T(
        subject=Subject(common_name="hidden" * 20, country=("hidden",)),
        dns_names=("hidden name",),
        not_after="hidden",
        key_usage=512,
    )
    found = problems_of(template)
    assert [problem.at.removeprefix("Secrets.web.Cert.") for problem in found] == [
        "DNSNames[0]",
        "KeyUsage",
        "NotAfter",
        "Subject.CommonName",
        "Subject.Country[0]",
    ]
    assert "hidden" not in "".join(map(str, found))


def test_end_and_days_together_are_refused() -> None:
    assert places_of(T(not_after="2030-01-01T00:00:00Z"), valid_for=1) == ["ValidFor"]


def test_place_of_an_odd_name_is_quoted() -> None:
    (problem,) = trial(ecdsa(T(key_usage=512)), name="my key", keys=coordinator_keys(), now=NOW)
    assert problem.at == 'Secrets["my key"].Cert.KeyUsage'
