"""The extensions of a generated certificate, from its template."""

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, ExtensionOID

from keyhouse.authority.keys import CoordinatorKeys
from keyhouse.authority.library import attempt, attempt_each
from keyhouse.authority.x509.fields import MARBLE_TYPE, from_arcs
from keyhouse.authority.x509.host_names import (
    is_dns_name,
    read_address,
    takes_own_address,
    takes_own_name,
)
from keyhouse.authority.x509.name_constraints import name_constraints
from keyhouse.base.errors import Findings
from keyhouse.base.key_usages import KEY_USAGES, key_usage
from keyhouse.base.printable import Place
from keyhouse.wire.secret_types import CertificateTemplate, Uri

Wanted = tuple[x509.ExtensionType, bool]
"""An extension, and whether it is critical."""

DEFAULT_DNS_NAMES: Final = ("localhost",)
DEFAULT_IP_ADDRESSES: Final = ("127.0.0.1", "::1")

_DIGITAL_SIGNATURE: Final = 1  # Go's x509.KeyUsage, which templates use
_KEY_AGREEMENT: Final = 16  # Go's x509.KeyUsage
_KEY_CERT_SIGN: Final = 32  # Go's x509.KeyUsage
_ONLY: Final = 128 | 256  # encipherOnly and decipherOnly in Go's x509.KeyUsage

# The index in this list is the manifest's number of the extended key usage.
EXTENDED_USAGES: Final = tuple(
    x509.ObjectIdentifier(text)
    for text in (
        "2.5.29.37.0",
        "1.3.6.1.5.5.7.3.1",
        "1.3.6.1.5.5.7.3.2",
        "1.3.6.1.5.5.7.3.3",
        "1.3.6.1.5.5.7.3.4",
        "1.3.6.1.5.5.7.3.5",
        "1.3.6.1.5.5.7.3.6",
        "1.3.6.1.5.5.7.3.7",
        "1.3.6.1.5.5.7.3.8",
        "1.3.6.1.5.5.7.3.9",
        "1.3.6.1.4.1.311.10.3.3",
        "2.16.840.1.113730.4.1",
        "1.3.6.1.4.1.311.2.1.22",
        "1.3.6.1.4.1.311.61.1.1",
    )
)
_DEFAULT_EXTENDED_USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)

KEYHOUSE_SETS: Final = frozenset(
    {
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_INFORMATION_ACCESS,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.CERTIFICATE_POLICIES,
        ExtensionOID.NAME_CONSTRAINTS,
        ExtensionOID.CRL_DISTRIBUTION_POINTS,
    }
)
"""Extensions with their own fields in a template, or set by the coordinator."""

_NOT_AN_OID: Final = "is not an object identifier"
_ARCS: Final = "write it as a list of integers, such as [1, 3, 6, 1, 4, 1, 311]"
_UNLIMITED: Final = -1  # Go programs write -1 for "no limit" in MaxPathLen


# Go, for example, cannot parse a certificate with any other host in a URI.
_URI_LABEL: Final = r"[A-Za-z0-9!$&'()*+,;=_~-]+"
_URI_HOST: Final = re.compile(
    rf"(?:{_URI_LABEL}(?:\.{_URI_LABEL})*|\[[0-9A-Fa-f:.]{{2,45}}\])(?::[0-9]{{0,5}})?"
)


def extensions(
    template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings
) -> tuple[Wanted, ...]:
    """Return all extensions of ``template`` except both key identifiers (subject, authority).

    Problems of the template are added to ``findings``.
    """
    access = _information_access(template, findings)
    names = _alternative_names(template, keys, findings)
    policies = _policies(template, findings)
    constraints = name_constraints(template, keys, findings)
    points = _revocation_lists(template, findings)
    usages = _extended_key_usage(template, findings)
    wanted: tuple[tuple[x509.ExtensionType | None, bool], ...] = (
        (_key_usage(template, findings), True),
        (usages, False),
        (_basic_constraints(template, findings), True),
        (access, False),
        (names, False),
        (policies, False),
        constraints,
        (points, False),
        *_extra(template, findings),
    )
    return tuple((value, critical) for value, critical in wanted if value is not None)


def uri(value: Uri) -> str:
    """Return the text of a URI. Raises ``ValueError`` for a part with invalid characters.

    The path is percent-encoded, as in the interface's Go clients.
    """
    scheme_rest = value.scheme[1:].translate({ord(c): None for c in "+-."})
    if not (value.scheme[:1].isalpha() and value.scheme.isascii()):
        raise ValueError("a scheme begins with a letter")
    if scheme_rest and not scheme_rest.isalnum():
        raise ValueError("a scheme has letters, digits and + - . only")
    if value.host and not _URI_HOST.fullmatch(value.host):
        raise ValueError("the host has invalid characters")
    if not value.host and not value.path.startswith("/"):
        raise ValueError("without a host, the path must begin with /")
    path = quote(value.path, safe="/$&+,:;=@")
    separator = "/" if value.host and path and not path.startswith("/") else ""
    return f"{value.scheme}://{value.host}{separator}{path}"


def _key_usage(template: CertificateTemplate, findings: Findings) -> x509.KeyUsage | None:
    default = _DIGITAL_SIGNATURE | (_KEY_CERT_SIGN if template.is_ca else 0)
    mask = template.key_usage or default
    if not 0 < mask < 1 << len(KEY_USAGES):
        findings.refuse(
            ("Cert", "KeyUsage"),
            f"is {mask}, has bits without a meaning",
            "use a sum of 1, 2, 4 ... 256",
        )
        return None
    if mask & _ONLY and not mask & _KEY_AGREEMENT:
        hint = "add 16 (keyAgreement)"
        problem = "has encipherOnly or decipherOnly without keyAgreement"
        findings.refuse(("Cert", "KeyUsage"), problem, hint)
        return None
    return key_usage(*(name for bit, name in enumerate(KEY_USAGES) if mask >> bit & 1))


def _extended_key_usage(
    template: CertificateTemplate, findings: Findings
) -> x509.ExtendedKeyUsage | None:
    known: list[x509.ObjectIdentifier] = []
    if template.ext_key_usage is None:
        known.extend(_DEFAULT_EXTENDED_USAGES)
    for position, number in enumerate(template.ext_key_usage or ()):
        if 0 <= number < len(EXTENDED_USAGES):
            known.append(EXTENDED_USAGES[number])
        else:
            here, most = ("Cert", "ExtKeyUsage", position), len(EXTENDED_USAGES) - 1
            findings.refuse(here, "is not a known usage", f"use 0 to {most}, or UnknownExtKeyUsage")
    given = template.unknown_ext_key_usage
    known.extend(oid for _, oid in _oids(given, "UnknownExtKeyUsage", findings))
    return x509.ExtendedKeyUsage(known) if known else None


def _oids(
    given: Iterable[tuple[int, ...]], field: str, findings: Findings
) -> Iterator[tuple[Place, x509.ObjectIdentifier]]:
    return attempt_each(findings, from_arcs, given, field, _NOT_AN_OID, _ARCS)


def _basic_constraints(
    template: CertificateTemplate, findings: Findings
) -> x509.BasicConstraints | None:
    length = template.max_path_len
    if length < _UNLIMITED:
        findings.refuse(("Cert", "MaxPathLen"), "is negative", "use 0 or more")
        return None
    if length == _UNLIMITED or (length == 0 and not template.max_path_len_zero):
        return x509.BasicConstraints(ca=template.is_ca, path_length=None)
    if not template.is_ca:
        here = ("Cert", "MaxPathLen" if length else "MaxPathLenZero")
        findings.refuse(
            here, "is given for a certificate that is not a CA", "set IsCA, or remove it"
        )
        return None
    return x509.BasicConstraints(ca=True, path_length=length)


def _information_access(
    template: CertificateTemplate, findings: Findings
) -> x509.AuthorityInformationAccess | None:
    found = [
        x509.AccessDescription(method, location)
        for field, method, values in (
            ("OCSPServer", AuthorityInformationAccessOID.OCSP, template.ocsp_server),
            (
                "IssuingCertificateURL",
                AuthorityInformationAccessOID.CA_ISSUERS,
                template.issuing_certificate_url,
            ),
        )
        for location in _locations(values, field, findings)
    ]
    return x509.AuthorityInformationAccess(found) if found else None


def _revocation_lists(
    template: CertificateTemplate, findings: Findings
) -> x509.CRLDistributionPoints | None:
    locations = _locations(template.crl_distribution_points, "CRLDistributionPoints", findings)
    points = [
        x509.DistributionPoint([location], relative_name=None, reasons=None, crl_issuer=None)
        for location in locations
    ]
    return x509.CRLDistributionPoints(points) if points else None


def _locations(
    values: tuple[str, ...], field: str, findings: Findings
) -> Iterator[x509.UniformResourceIdentifier]:
    hint = "use ASCII without spaces, such as http://example.com/ca.crl"
    return (url for _, url in attempt_each(findings, _url, values, field, "is not a URL", hint))


def _url(text: str) -> x509.UniformResourceIdentifier:
    if not text or not all("!" <= c <= "~" for c in text):
        raise ValueError("the URL is empty, or has other characters than visible ASCII")
    return x509.UniformResourceIdentifier(text)


def _policies(template: CertificateTemplate, findings: Findings) -> x509.CertificatePolicies | None:
    found: list[x509.ObjectIdentifier] = []
    hint = "write it with dots, such as 1.3.6.1.4.1.311.1"
    for here, oid in attempt_each(
        findings, x509.ObjectIdentifier, template.policies, "Policies", _NOT_AN_OID, hint
    ):
        if oid in found:
            findings.refuse(here, "repeats a policy", "remove one of the two")
        else:
            found.append(oid)
    for _, oid in _oids(template.policy_identifiers, "PolicyIdentifiers", findings):
        if oid not in found:  # Go writes each policy in both fields
            found.append(oid)
    policies = [x509.PolicyInformation(each, policy_qualifiers=None) for each in found]
    return x509.CertificatePolicies(policies) if policies else None


def _alternative_names(
    template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings
) -> x509.SubjectAlternativeName | None:
    names: list[x509.GeneralName] = [
        *_dns_names(template, keys, findings),
        *_emails(template, findings),
        *_addresses(template, keys, findings),
        *_uris(template, findings),
    ]
    return x509.SubjectAlternativeName(names) if names else None


def _dns_names(
    template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings
) -> Iterator[x509.GeneralName]:
    given = DEFAULT_DNS_NAMES if template.dns_names is None else template.dns_names
    for position, name in enumerate(given):
        here = ("Cert", "DNSNames", position)
        if not is_dns_name(name):
            hint = "use ASCII, international names as xn--..., a wildcard only as first label"
            findings.refuse(here, "is not a DNS name", hint)
        elif takes_own_name(keys, name):
            hint = "choose a name that no client uses for the coordinator"
            findings.refuse(here, "is, or covers, a name of the coordinator itself", hint)
        else:
            yield x509.DNSName(name)


def _addresses(
    template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings
) -> Iterator[x509.GeneralName]:
    given = DEFAULT_IP_ADDRESSES if template.ip_addresses is None else template.ip_addresses
    problem = "is not an IP address"
    hint = "write it like 192.0.2.1 or 2001:db8::1, without a zone or prefix"
    for here, address in attempt_each(findings, read_address, given, "IPAddresses", problem, hint):
        if takes_own_address(keys, str(address)):
            findings.refuse(
                here, "is an address of the coordinator itself", "choose another address"
            )
        else:
            yield x509.IPAddress(address)


def _emails(template: CertificateTemplate, findings: Findings) -> Iterator[x509.GeneralName]:
    given, field = template.email_addresses, "EmailAddresses"
    problem, hint = "is not an e-mail address", "write it like someone@example.com"
    return (name for _, name in attempt_each(findings, _email, given, field, problem, hint))


def _email(text: str) -> x509.RFC822Name:
    local, _, domain = text.rpartition("@")
    if not local or not domain or not all("!" <= c <= "~" for c in text):
        raise ValueError(
            "a part of the address is missing, or has other characters than visible ASCII"
        )
    return x509.RFC822Name(text)


def _uris(template: CertificateTemplate, findings: Findings) -> Iterator[x509.GeneralName]:
    hint = (
        'write "Scheme", "Host" such as a.example:443, and "Path"; without "Host", a "Path"'
        " that begins with /"
    )
    texts = attempt_each(findings, uri, template.uris, "URIs", "is not a URI", hint)
    return (x509.UniformResourceIdentifier(text) for _, text in texts)


def _extra(
    template: CertificateTemplate, findings: Findings
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    seen: set[x509.ObjectIdentifier] = set()
    for position, extra in enumerate(template.extra_extensions):
        here = ("Cert", "ExtraExtensions", position, "Id")
        identifier = attempt(findings, from_arcs, extra.id, here, _NOT_AN_OID, _ARCS)
        if identifier is None:
            continue
        if identifier == MARBLE_TYPE:
            findings.refuse(
                here,
                "is the extension for the marble type, which only marble certificates have",
                "remove the extension",
            )
        elif identifier in KEYHOUSE_SETS:
            findings.refuse(
                here,
                "is an extension that Keyhouse sets",
                "remove the extension, and use the fields of the template",
            )
        elif identifier in seen:
            findings.refuse(here, "repeats an extension", "remove one of the two")
        else:
            seen.add(identifier)
            yield x509.UnrecognizedExtension(identifier, extra.value), extra.critical
