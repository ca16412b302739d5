"""The name constraints of a generated CA certificate."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509

from keyhouse.authority.findings import Findings
from keyhouse.wire.definitions import AddressRange, CertificateTemplate

__all__ = ["name_constraints"]

_FULL_LENGTHS: Final = {4: 32, 16: 128}


def name_constraints(
    template: CertificateTemplate, findings: Findings
) -> x509.NameConstraints | None:
    """Return the extension, or ``None`` if the template constrains nothing."""
    permitted = [
        *_texts(template.permitted_dns_domains, "PermittedDNSDomains", x509.DNSName, findings),
        *_ranges(template.permitted_ip_ranges, "PermittedIPRanges", findings),
        *_texts(
            template.permitted_email_addresses,
            "PermittedEmailAddresses",
            x509.RFC822Name,
            findings,
        ),
        *_texts(
            template.permitted_uri_domains,
            "PermittedURIDomains",
            x509.UniformResourceIdentifier,
            findings,
        ),
    ]
    excluded = [
        *_texts(template.excluded_dns_domains, "ExcludedDNSDomains", x509.DNSName, findings),
        *_ranges(template.excluded_ip_ranges, "ExcludedIPRanges", findings),
        *_texts(
            template.excluded_email_addresses, "ExcludedEmailAddresses", x509.RFC822Name, findings
        ),
        *_texts(
            template.excluded_uri_domains,
            "ExcludedURIDomains",
            x509.UniformResourceIdentifier,
            findings,
        ),
    ]
    if not permitted and not excluded:
        return None
    return x509.NameConstraints(permitted or None, excluded or None)


def _texts(
    values: tuple[str, ...],
    field: str,
    kind: Callable[[str], x509.GeneralName],
    findings: Findings,
) -> Iterator[x509.GeneralName]:
    for position, value in enumerate(values):
        at = f"Cert.{field}[{position}]"
        if not value or "*" in value or not _is_plain(value):
            hint = "write a domain such as example.com, without a wildcard"
            findings.add(at, "cannot be a name constraint", hint)
            continue
        name = findings.attempt(
            kind,
            value,
            at,
            "cannot be a name constraint",
            "write a domain such as example.com, or an address such as a@example.com",
        )
        if name is not None:
            yield name


def _ranges(
    values: tuple[AddressRange, ...], field: str, findings: Findings
) -> Iterator[x509.GeneralName]:
    for position, value in enumerate(values):
        network = findings.attempt(
            _network,
            value,
            f"Cert.{field}[{position}]",
            "is not a range of IP addresses",
            "give the first address of the range, and a mask of as many bytes without gaps",
        )
        if network is not None:
            yield x509.IPAddress(network)


def _network(value: AddressRange) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address = ipaddress.ip_address(value.ip)
    full = _FULL_LENGTHS.get(len(value.mask), 0)
    if full != address.max_prefixlen:
        raise ValueError("address and mask are of different lengths")
    mask = int.from_bytes(value.mask)
    prefix = mask.bit_count()
    if mask != ((1 << prefix) - 1) << (full - prefix):
        raise ValueError("the mask has gaps")
    # Refuses host bits: an address below the mask says that something else was meant.
    return type(ipaddress.ip_network(value.ip))((value.ip, prefix), strict=True)


def _is_plain(value: str) -> bool:
    return all("!" <= c <= "~" for c in value)
