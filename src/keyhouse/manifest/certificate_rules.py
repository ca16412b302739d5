"""Rules for certificate templates: all that can be judged without building the certificate."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_address, ip_network

from keyhouse.manifest.findings import Findings, Place
from keyhouse.manifest.written import WrittenTemplate, WrittenUri, has_content
from keyhouse.wire.definitions import AddressRange, CertificateTemplate, Oid, Subject, Uri

__all__ = ["check_not_after", "check_template", "parse_time", "warn_of_ca"]

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d{1,18})?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_time(text: str) -> datetime | None:
    """Return the instant of an RFC 3339 timestamp with zone, in UTC, whole seconds, or None.

    Fractions are dropped: certificates have none. The last second is that of the year 9999.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes = found[7], int(found[8] or 0), int(found[9] or 0)
    if hours > 23 or minutes > 59:  # noqa: PLR2004  RFC 3339, time-numoffset
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    zone = timezone(-offset if sign == "-" else offset)
    try:
        return datetime(*map(int, found.groups()[:6]), tzinfo=zone).astimezone(UTC)  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return None


def check_not_after(
    place: Place, written: str | None, valid_for: int, now: datetime, findings: Findings
) -> None:
    """Refuse an end of validity that is no time, past, or beyond the year 9999."""
    if written is not None:
        end = parse_time(written)
        if end is None:
            problem = "is no time with zone as in RFC 3339, or beyond the year 9999"
            findings.refuse((*place, "Cert", "NotAfter"), problem, "such as 2035-01-01T00:00:00Z")
        elif end <= now:
            findings.refuse((*place, "Cert", "NotAfter"), "is in the past")
    elif valid_for > (datetime.max.replace(tzinfo=UTC) - now).days:
        findings.refuse((*place, "ValidFor"), "ends beyond the year 9999")


def check_template(place: Place, template: WrittenTemplate, findings: Findings) -> None:
    """Check a template; ``place`` is that of its ``Cert``."""
    _check_subject((*place, "Subject"), template.subject, findings)
    _check_names(place, template, findings)
    _check_usages(place, template, findings)
    _check_extensions(place, template, findings)
    _check_ranges(place, "PermittedIPRanges", template.permitted_ip_ranges, findings)
    _check_ranges(place, "ExcludedIPRanges", template.excluded_ip_ranges, findings)
    _check_path_length(place, template, findings)
    if template.signature_algorithm not in {0, 10, 11, 12}:
        problem = "is no signature that the coordinator's key can make"
        findings.refuse((*place, "SignatureAlgorithm"), problem, "10, 11, 12, or left out")
    for field, spelled in _IGNORED.items():
        if has_content(getattr(template, field)):
            findings.warn(
                (*place, spelled), "has no effect: the coordinator decides it", "remove it"
            )
    if has_content(template.subject.names):
        findings.warn((*place, "Subject", "Names"), "has no effect", "use ExtraNames")
    if template.is_ca:
        warn_of_ca((*place, "IsCA"), findings)


def warn_of_ca(here: Place, findings: Findings) -> None:
    """Warn of a generated certificate that is a CA."""
    problem = (
        "makes a CA: whoever has its key can issue certificates below the deployment's root, for"
        " all names but the coordinator's own"
    )
    hint = "remove it if no workload issues certificates, or limit it with PermittedDNSDomains"
    findings.warn(here, problem, hint)


_IGNORED = {
    field: spelled
    for field, spelled in zip(
        WrittenTemplate.__struct_fields__, WrittenTemplate.__struct_encode_fields__, strict=True
    )
    if field not in {*CertificateTemplate.__struct_fields__, "policy_identifiers"}
}
_OF_OTHER_URIS = {
    field: spelled
    for field, spelled in zip(
        WrittenUri.__struct_fields__, WrittenUri.__struct_encode_fields__, strict=True
    )
    if field not in Uri.__struct_fields__
}
_LONGEST_NAME = 64  # RFC 5280, ub-common-name
_COUNTRY = re.compile(r"[A-Za-z]{2}", re.ASCII)


def _check_subject(place: Place, subject: Subject, findings: Findings) -> None:
    if len(subject.common_name) > _LONGEST_NAME:
        problem = f"has more than {_LONGEST_NAME} characters"
        findings.refuse((*place, "CommonName"), problem, "put names of hosts into DNSNames")
    for index, country in enumerate(subject.country):
        if not _COUNTRY.fullmatch(country):
            findings.refuse((*place, "Country", index), "is not two letters", 'such as "DE"')
    for index, attribute in enumerate(subject.extra_names):
        _check_oid((*place, "ExtraNames", index, "Type"), attribute.type, findings)


def _check_names(place: Place, template: WrittenTemplate, findings: Findings) -> None:
    texts = {
        "DNSNames": template.dns_names or (),
        "EmailAddresses": template.email_addresses,
        "OCSPServer": template.ocsp_server,
        "IssuingCertificateURL": template.issuing_certificate_url,
        "CRLDistributionPoints": template.crl_distribution_points,
    }
    for field, values in texts.items():
        for index, value in enumerate(values):
            if not value or not value.isascii() or not value.isprintable():
                problem = "is empty or holds other than printable ASCII characters"
                findings.refuse((*place, field, index), problem, "write hosts as xn-- names")
    for index, address in enumerate(template.ip_addresses or ()):
        if not _is_address(address):
            findings.refuse((*place, "IPAddresses", index), "is no IP address")
    for index, uri in enumerate(template.uris):
        if not uri.scheme:
            problem = "has no Scheme, so it is no URI"
            findings.refuse((*place, "URIs", index, "Scheme"), problem)
        for field, spelled in _OF_OTHER_URIS.items():
            if has_content(getattr(uri, field)):
                problem = "is not supported in a certificate's URI"
                findings.refuse((*place, "URIs", index, spelled), problem, "Scheme, Host, Path are")


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text).packed)
    except ValueError:
        return False


_KEY_AGREEMENT, _ENCIPHER_ONLY, _DECIPHER_ONLY = 16, 128, 256
_ALL_KEY_USAGES = 511
_LAST_EXT_KEY_USAGE = 13


def _check_usages(place: Place, template: WrittenTemplate, findings: Findings) -> None:
    usage = template.key_usage
    if not 0 <= usage <= _ALL_KEY_USAGES:
        findings.refuse((*place, "KeyUsage"), "has bits beyond decipherOnly (256)")
    elif usage & (_ENCIPHER_ONLY | _DECIPHER_ONLY) and not usage & _KEY_AGREEMENT:
        problem = "has encipherOnly or decipherOnly without keyAgreement"
        findings.refuse((*place, "KeyUsage"), problem, f"add {_KEY_AGREEMENT}")
    for index, number in enumerate(template.ext_key_usage or ()):
        if not 0 <= number <= _LAST_EXT_KEY_USAGE:
            problem = f"is no usage from 0 to {_LAST_EXT_KEY_USAGE}"
            findings.refuse((*place, "ExtKeyUsage", index), problem, "UnknownExtKeyUsage has OIDs")
    for index, oid in enumerate(template.unknown_ext_key_usage):
        _check_oid((*place, "UnknownExtKeyUsage", index), oid, findings)


_SET_BY_FIELDS = {
    (2, 5, 29, 14): "SubjectKeyId",
    (2, 5, 29, 15): "KeyUsage",
    (2, 5, 29, 17): "DNSNames, IPAddresses, EmailAddresses and URIs",
    (2, 5, 29, 19): "IsCA and MaxPathLen",
    (2, 5, 29, 30): "the Permitted and Excluded fields",
    (2, 5, 29, 31): "CRLDistributionPoints",
    (2, 5, 29, 32): "Policies",
    (2, 5, 29, 37): "ExtKeyUsage and UnknownExtKeyUsage",
    (1, 3, 6, 1, 5, 5, 7, 1, 1): "OCSPServer and IssuingCertificateURL",
}
_AUTHORITY_KEY_ID = (2, 5, 29, 35)
_MARBLE_TYPE = (1, 3, 9903, 2, 1)  # a certificate with it would pass for a workload's own


def _check_extensions(place: Place, template: WrittenTemplate, findings: Findings) -> None:
    for index, text in enumerate(template.policies):
        oid = tuple(map(int, text.split("."))) if _DOTTED.fullmatch(text) else ()
        _check_oid((*place, "Policies", index), oid, findings)
    for index, oid in enumerate(template.policy_identifiers):
        _check_oid((*place, "PolicyIdentifiers", index), oid, findings)
    seen = set()
    for index, extension in enumerate(template.extra_extensions):
        here = (*place, "ExtraExtensions", index, "Id")
        _check_oid(here, extension.id, findings)
        if extension.id in _SET_BY_FIELDS:
            hint = f"use {_SET_BY_FIELDS[extension.id]}"
            findings.refuse(here, "is an extension that the coordinator sets", hint)
        elif extension.id in {_AUTHORITY_KEY_ID, _MARBLE_TYPE}:
            findings.refuse(here, "is an extension that only the coordinator sets", "remove it")
        elif extension.id in seen:
            findings.refuse(here, "is given twice")
        seen.add(extension.id)


_DOTTED = re.compile(r"(?:0|[1-9][0-9]{0,38})(?:\.(?:0|[1-9][0-9]{0,38})){1,63}", re.ASCII)
_FEWEST_ARCS, _MOST_ARCS = 2, 64
_SECOND_ARCS = 40  # below the first arcs 0 and 1 (X.660)


def _check_oid(here: Place, oid: Oid, findings: Findings) -> None:
    good = (
        _FEWEST_ARCS <= len(oid) <= _MOST_ARCS
        and min(oid) >= 0
        and (oid[0] == 2 or (oid[0] < 2 and oid[1] < _SECOND_ARCS))  # noqa: PLR2004  joint-iso-itu-t
    )
    if not good:
        findings.refuse(here, "is no object identifier")


def _check_ranges(
    place: Place, field: str, ranges: Iterable[AddressRange], findings: Findings
) -> None:
    for index, written in enumerate(ranges):
        if not _is_network(written):
            problem = "is no IP range: address, mask bytes of the same length, no host bits"
            findings.refuse((*place, field, index), problem, "10.0.0.0 with the mask /wAAAA==")


def _is_network(written: AddressRange) -> bool:
    if not _is_address(written.ip):
        return False
    address, mask = ip_address(written.ip), int.from_bytes(written.mask)
    width = address.max_prefixlen
    prefix = mask.bit_count()
    if 8 * len(written.mask) != width or mask != ((1 << prefix) - 1) << (width - prefix):
        return False
    try:
        return bool(ip_network((address.packed, prefix)).version)
    except ValueError:
        return False


def _check_path_length(place: Place, template: WrittenTemplate, findings: Findings) -> None:
    if template.max_path_len < -1:
        findings.refuse((*place, "MaxPathLen"), "is negative", "-1 or 0 means: no limit")
    elif template.max_path_len > 0 and not template.is_ca:
        findings.refuse((*place, "MaxPathLen"), "is given without IsCA", "set IsCA or remove it")
