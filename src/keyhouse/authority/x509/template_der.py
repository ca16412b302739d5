"""Converts a certificate in a manifest into a certificate template.

The field ``Cert`` of a secret is a template (an object), or the base64 of a DER certificate. Such a
certificate is used like a template: the coordinator issues a new certificate with the same subject,
end of validity and extensions.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtensionOID, NameOID

from keyhouse.authority.library import attempt
from keyhouse.authority.x509.extensions import EXTENDED_USAGES, KEYHOUSE_SETS, uri
from keyhouse.authority.x509.fields import arcs
from keyhouse.authority.x509.subject import PLURAL
from keyhouse.base.errors import Findings
from keyhouse.base.key_usages import KEY_USAGES
from keyhouse.wire.secret_types import (
    AddressRange,
    CertificateTemplate,
    Extension,
    NameAttribute,
    Subject,
    Uri,
)

# Extensions about the original certificate and its issuer, which cannot apply to a new certificate:
# the authority key identifier, and the timestamps and the poison of transparency logs.
_ABOUT_THE_ORIGINAL: Final = frozenset(
    {
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
        ExtensionOID.PRECERT_SIGNED_CERTIFICATE_TIMESTAMPS,
        ExtensionOID.SIGNED_CERTIFICATE_TIMESTAMPS,
        ExtensionOID.PRECERT_POISON,
    }
)
_HINT: Final = "write the template as an object"


class _CannotCarryError(ValueError):
    """The certificate has a part without a field in certificate templates."""


def template_from_certificate(der: bytes, findings: Findings) -> CertificateTemplate | None:
    """Return the certificate ``der`` as a template. Problems are added to ``findings``.

    Subject, end of validity and extensions are used. An extension without its own field becomes an
    extra extension. Key, serial number, issuer and signature are not used.
    """
    certificate = attempt(
        findings,
        x509.load_der_x509_certificate,
        der,
        ("Cert",),
        "is not a certificate",
        "write the base64 of exactly one DER certificate",
    )
    if certificate is None:
        return None
    return attempt(
        findings, _read, certificate, ("Cert",), "has contents that a template cannot carry", _HINT
    )


def _read(certificate: x509.Certificate) -> CertificateTemplate:
    template = CertificateTemplate(
        subject=_subject(certificate.subject),
        not_after=certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    extra: list[Extension] = []
    for extension in certificate.extensions:
        if extension.oid in _ABOUT_THE_ORIGINAL:
            continue
        if extension.oid in KEYHOUSE_SETS:
            template = _with_extension(template, extension.value, critical=extension.critical)
        else:
            value = extension.value.public_bytes()
            extra.append(Extension(arcs(extension.oid), value, extension.critical))
    return msgspec.structs.replace(template, extra_extensions=tuple(extra))


def _subject(name: x509.Name) -> Subject:
    plain = {identifier: field for identifier, _, field in PLURAL}
    plural: dict[str, tuple[str, ...]] = {}
    single: dict[str, str] = {}
    extra: list[NameAttribute] = []
    for attribute in name:
        if not isinstance(attribute.value, str):
            raise _CannotCarryError
        if attribute.oid in plain:
            field = plain[attribute.oid]
            plural[field] = (*plural.get(field, ()), attribute.value)
        elif attribute.oid == NameOID.COMMON_NAME and "common_name" not in single:
            single["common_name"] = attribute.value
        elif attribute.oid == NameOID.SERIAL_NUMBER and "serial_number" not in single:
            single["serial_number"] = attribute.value
        elif attribute.oid in {NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER}:
            # The second of its kind; as an extra name it would replace the first.
            raise _CannotCarryError
        else:
            extra.append(NameAttribute(arcs(attribute.oid), attribute.value))
    return Subject(
        common_name=single.get("common_name", ""),
        serial_number=single.get("serial_number", ""),
        extra_names=tuple(extra),
        **plural,
    )


def _with_extension(
    template: CertificateTemplate, value: x509.ExtensionType, *, critical: bool
) -> CertificateTemplate:
    replace = msgspec.structs.replace
    match value:
        case x509.KeyUsage():
            found = replace(template, key_usage=_key_usage(value))
        case x509.ExtendedKeyUsage():
            known = tuple(EXTENDED_USAGES.index(u) for u in value if u in EXTENDED_USAGES)
            unknown = tuple(arcs(u) for u in value if u not in EXTENDED_USAGES)
            found = replace(template, ext_key_usage=known, unknown_ext_key_usage=unknown)
        case x509.BasicConstraints():
            length = value.path_length
            found = replace(
                template, is_ca=value.ca, max_path_len=length or 0, max_path_len_zero=length == 0
            )
        case x509.SubjectKeyIdentifier():
            found = replace(template, subject_key_id=value.digest)
        case x509.AuthorityInformationAccess():
            found = _with_access(template, value)
        case x509.SubjectAlternativeName():
            found = _with_names(template, value)
        case x509.CertificatePolicies():
            found = replace(template, policies=tuple(_policies(value)))
        case x509.NameConstraints():
            found = _with_constraints(template, value, critical=critical)
        case x509.CRLDistributionPoints():
            found = replace(template, crl_distribution_points=tuple(_points(value)))
        case _:
            raise _CannotCarryError
    return found


def _key_usage(value: x509.KeyUsage) -> int:
    # The library raises an error for the last two usages without keyAgreement.
    known = KEY_USAGES if value.key_agreement else KEY_USAGES[:-2]
    return sum(getattr(value, name) << bit for bit, name in enumerate(known))


def _with_access(
    template: CertificateTemplate, value: x509.AuthorityInformationAccess
) -> CertificateTemplate:
    methods = {AuthorityInformationAccessOID.OCSP, AuthorityInformationAccessOID.CA_ISSUERS}
    if any(entry.access_method not in methods for entry in value):
        raise _CannotCarryError

    def of(method: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(_url(e.access_location) for e in value if e.access_method == method)

    return msgspec.structs.replace(
        template,
        ocsp_server=of(AuthorityInformationAccessOID.OCSP),
        issuing_certificate_url=of(AuthorityInformationAccessOID.CA_ISSUERS),
    )


def _with_names(
    template: CertificateTemplate, value: x509.SubjectAlternativeName
) -> CertificateTemplate:
    kinds = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    if not all(isinstance(name, kinds) for name in value):
        raise _CannotCarryError
    uris = value.get_values_for_type(x509.UniformResourceIdentifier)
    addresses = value.get_values_for_type(x509.IPAddress)
    # As in the interface's Go programs, an empty list of DNS names means "not given".
    return msgspec.structs.replace(
        template,
        dns_names=tuple(value.get_values_for_type(x509.DNSName)) or None,
        ip_addresses=tuple(str(address) for address in addresses) or None,
        email_addresses=tuple(value.get_values_for_type(x509.RFC822Name)),
        uris=tuple(_uri(text) for text in uris),
    )


def _uri(text: str) -> Uri:
    parts = urlsplit(text)
    found = Uri(scheme=parts.scheme, host=parts.netloc, path=unquote(parts.path))
    if uri(found) != text:
        raise _CannotCarryError
    return found


def _policies(value: x509.CertificatePolicies) -> Iterator[str]:
    for policy in value:
        if policy.policy_qualifiers:
            raise _CannotCarryError
        yield policy.policy_identifier.dotted_string


def _points(value: x509.CRLDistributionPoints) -> Iterator[str]:
    for point in value:
        if point.full_name is None or len(point.full_name) != 1:
            raise _CannotCarryError
        if point.reasons is not None or point.crl_issuer is not None:
            raise _CannotCarryError
        yield _url(point.full_name[0])


def _url(name: x509.GeneralName) -> str:
    if not isinstance(name, x509.UniformResourceIdentifier):
        raise _CannotCarryError
    return name.value


def _with_constraints(
    template: CertificateTemplate, value: x509.NameConstraints, *, critical: bool
) -> CertificateTemplate:
    permitted = _subtrees(value.permitted_subtrees or ())
    excluded = _subtrees(value.excluded_subtrees or ())
    return msgspec.structs.replace(
        template,
        permitted_dns_domains_critical=critical,
        permitted_dns_domains=permitted.dns,
        permitted_email_addresses=permitted.emails,
        permitted_uri_domains=permitted.uris,
        permitted_ip_ranges=permitted.ranges,
        excluded_dns_domains=excluded.dns,
        excluded_email_addresses=excluded.emails,
        excluded_uri_domains=excluded.uris,
        excluded_ip_ranges=excluded.ranges,
    )


class _Subtrees(msgspec.Struct, frozen=True):
    dns: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]
    ranges: tuple[AddressRange, ...]


def _subtrees(names: Sequence[x509.GeneralName]) -> _Subtrees:
    dns = tuple(n.value for n in names if isinstance(n, x509.DNSName))
    emails = tuple(n.value for n in names if isinstance(n, x509.RFC822Name))
    uris = tuple(n.value for n in names if isinstance(n, x509.UniformResourceIdentifier))
    ranges = tuple(_range(n) for n in names if isinstance(n, x509.IPAddress))
    if len(names) != len(dns) + len(emails) + len(uris) + len(ranges):
        raise _CannotCarryError
    return _Subtrees(dns, emails, uris, ranges)


def _range(name: x509.IPAddress) -> AddressRange:
    network = name.value
    if not isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network):
        raise _CannotCarryError
    return AddressRange(str(network.network_address), network.netmask.packed)
