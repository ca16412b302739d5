"""The name constraints of a generated CA certificate."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509

from keyhouse.authority.keys import CoordinatorKeys
from keyhouse.authority.library import attempt_each
from keyhouse.authority.x509.host_names import own_domains, own_networks
from keyhouse.base.errors import Findings
from keyhouse.wire.secret_types import AddressRange, CertificateTemplate

# Go 1.26 compares ::ffff:10.1.2.3 only with a constraint in the IPv6 form of an IPv4 address, and
# Go 1.27 reads no such constraint. But if a certificate permits any addresses, Go 1.26 refuses
# ::ffff:10.1.2.3, because no permitted network contains this form.
_ALL_ADDRESSES: Final[list[x509.GeneralName]] = [
    x509.IPAddress(ipaddress.ip_network("0.0.0.0/0")),
    x509.IPAddress(ipaddress.ip_network("::/0")),
]

_FULL_LENGTHS: Final = {4: 32, 16: 128}

# RFC 5280 4.2.1.10. A beginning dot means hosts below the domain. Go, for example, cannot parse a
# certificate with an invalid constraint.
_LABEL: Final = r"[A-Za-z0-9_-]{1,63}"
_DOMAIN: Final = rf"\.?{_LABEL}(?:\.{_LABEL})*"
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAILBOX: Final = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
_ADDRESS: Final = r"[0-9]+(?:\.[0-9]+){3}"


def name_constraints(
    template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings
) -> tuple[x509.NameConstraints | None, bool]:
    """Return the extension NameConstraints (None without constraints), and whether it is critical.

    The names and addresses of the coordinator are always excluded for a CA, even if its template
    permits them. The extension is then critical: a client without support for constraints must
    refuse the chain.
    """
    own_names, own_addresses = _own(template, keys)
    permitted_addresses = list(_ranges(template.permitted_ip_ranges, "PermittedIPRanges", findings))
    if own_addresses and not permitted_addresses:
        permitted_addresses = _ALL_ADDRESSES
    permitted = [
        *_texts(template.permitted_dns_domains, "PermittedDNSDomains", _dns_domain, findings),
        *permitted_addresses,
        *_texts(template.permitted_email_addresses, "PermittedEmailAddresses", _mail, findings),
        *_texts(template.permitted_uri_domains, "PermittedURIDomains", _uri_domain, findings),
    ]
    excluded = [
        *_texts(template.excluded_dns_domains, "ExcludedDNSDomains", _dns_domain, findings),
        *own_names,
        *_ranges(template.excluded_ip_ranges, "ExcludedIPRanges", findings),
        *own_addresses,
        *_texts(template.excluded_email_addresses, "ExcludedEmailAddresses", _mail, findings),
        *_texts(template.excluded_uri_domains, "ExcludedURIDomains", _uri_domain, findings),
    ]
    critical = template.is_ca or template.permitted_dns_domains_critical
    if not permitted and not excluded:
        return None, critical
    return x509.NameConstraints(permitted or None, list(dict.fromkeys(excluded)) or None), critical


def _own(
    template: CertificateTemplate, keys: CoordinatorKeys
) -> tuple[list[x509.DNSName], list[x509.IPAddress]]:
    """Return the domains and the networks of the coordinator that a CA must not sign for.

    To exclude wildcards that cover a name of the coordinator, the whole domain around the name is
    excluded. But a template with permitted DNS domains may need this domain for its CA. Then only
    the name itself is excluded.
    """
    if not template.is_ca:
        return [], []
    domains = own_domains(keys, wildcards=not template.permitted_dns_domains)
    return [x509.DNSName(domain) for domain in domains], [
        x509.IPAddress(network) for network in own_networks(keys)
    ]


def _texts(
    values: tuple[str, ...],
    field: str,
    kind: Callable[[str], x509.GeneralName],
    findings: Findings,
) -> Iterator[x509.GeneralName]:
    problem = "cannot be a name constraint"
    hint = (
        "write a domain such as example.com or .example.com, without a wildcard; of e-mail also"
        " an address such as a@example.com"
    )
    return (name for _, name in attempt_each(findings, kind, values, field, problem, hint))


def _dns_domain(text: str) -> x509.DNSName:
    if not re.fullmatch(_DOMAIN, text):
        raise ValueError("the text is not a domain")
    return x509.DNSName(text)


def _uri_domain(text: str) -> x509.UniformResourceIdentifier:
    if not re.fullmatch(_DOMAIN, text) or re.fullmatch(_ADDRESS, text):
        raise ValueError("the text is not a domain")
    return x509.UniformResourceIdentifier(text)


def _mail(text: str) -> x509.RFC822Name:
    if not re.fullmatch(_DOMAIN, text) and not re.fullmatch(_MAILBOX, text):
        raise ValueError("the text is neither a domain nor an e-mail address")
    return x509.RFC822Name(text)


def _ranges(
    values: tuple[AddressRange, ...], field: str, findings: Findings
) -> Iterator[x509.GeneralName]:
    problem = "is not a range of IP addresses"
    hint = "write the first address of the range, and a mask of as many bytes without gaps"
    made = attempt_each(findings, _network, values, field, problem, hint)
    return (x509.IPAddress(network) for _, network in made)


def _network(value: AddressRange) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address = ipaddress.ip_address(value.ip)
    if "%" in value.ip:
        raise ValueError("a certificate cannot hold the zone of an IP address")
    full = _FULL_LENGTHS.get(len(value.mask), 0)
    if full != address.max_prefixlen:
        raise ValueError("address and mask have different lengths")
    mask = int.from_bytes(value.mask)
    prefix = mask.bit_count()
    if mask != ((1 << prefix) - 1) << (full - prefix):
        raise ValueError("the mask has gaps")
    # Refuses host bits, because an address below the mask means a mistake in the range.
    return type(ipaddress.ip_network(value.ip))((value.ip, prefix), strict=True)
