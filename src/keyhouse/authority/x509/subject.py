"""The distinguished name of a generated certificate."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from keyhouse.authority.library import attempt
from keyhouse.authority.x509.fields import from_arcs
from keyhouse.base.errors import Findings
from keyhouse.base.printable import Place
from keyhouse.wire.secret_types import Subject

GENERIC_NAME: Final = "Keyhouse Generated Certificate"

# (attribute, JSON name, field), in the order of the attributes in the certificate.
PLURAL: Final = (
    (NameOID.COUNTRY_NAME, "Country", "country"),
    (NameOID.ORGANIZATION_NAME, "Organization", "organization"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "OrganizationalUnit", "organizational_unit"),
    (NameOID.LOCALITY_NAME, "Locality", "locality"),
    (NameOID.STATE_OR_PROVINCE_NAME, "Province", "province"),
    (NameOID.STREET_ADDRESS, "StreetAddress", "street_address"),
    (NameOID.POSTAL_CODE, "PostalCode", "postal_code"),
)
_HINTS: Final = {
    NameOID.COUNTRY_NAME: "use a code of two letters, such as DE",
    NameOID.JURISDICTION_COUNTRY_NAME: "use a code of two letters, such as DE",
    NameOID.COMMON_NAME: "use 1 to 64 bytes of UTF-8",
}
_COUNTRY: Final = r"[A-Za-z]{2}"
# Attributes of other types than UTF8String: X.520, RFC 5280 4.1.2.4. The library writes any text
# under these types, and clients then refuse the whole certificate.
_PRINTABLE: Final = frozenset(
    {
        NameOID.COUNTRY_NAME,
        NameOID.JURISDICTION_COUNTRY_NAME,
        NameOID.SERIAL_NUMBER,
        NameOID.DN_QUALIFIER,
    }
)
_ASCII: Final = frozenset({NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT})


def common_name(subject: Subject, dns_names: tuple[str, ...]) -> str:
    """Return the common name of a certificate: of ``subject``, or by default from ``dns_names``.

    The default is the DNS name if there is exactly one, else a generic name.
    """
    if subject.common_name:
        return subject.common_name
    return dns_names[0] if len(dns_names) == 1 else GENERIC_NAME


def subject_name(subject: Subject, name: str, findings: Findings) -> x509.Name:
    """Return the distinguished name with ``name`` as its common name.

    Each value becomes a relative distinguished name of its own. An attribute in ``ExtraNames``
    replaces the plain field of the same type. Source: ``docs/reference/manifest.md``, "Secrets".
    """
    extra = tuple(_extra_attributes(subject, findings))
    overridden = {each.oid for each in extra}
    plain = (
        attribute(identifier, value, here, findings)
        for identifier, here, value in _plain_values(subject, name)
        if identifier not in overridden
    )
    return x509.Name([each for each in (*plain, *extra) if each is not None])


def _plain_values(
    subject: Subject, name: str
) -> Iterator[tuple[x509.ObjectIdentifier, Place, str]]:
    for identifier, json_name, field in PLURAL:
        values: tuple[str, ...] = getattr(subject, field)
        for position, value in enumerate(values):
            yield identifier, ("Cert", "Subject", json_name, position), value
    yield NameOID.COMMON_NAME, ("Cert", "Subject", "CommonName"), name
    if subject.serial_number:
        yield NameOID.SERIAL_NUMBER, ("Cert", "Subject", "SerialNumber"), subject.serial_number


def _extra_attributes(subject: Subject, findings: Findings) -> Iterator[x509.NameAttribute[str]]:
    for position, extra in enumerate(subject.extra_names):
        here = ("Cert", "Subject", "ExtraNames", position)
        identifier = attempt(
            findings,
            from_arcs,
            extra.type,
            (*here, "Type"),
            "is not an object identifier",
            "write it as a list of integers, such as [2, 5, 4, 12]",
        )
        if identifier is not None:
            made = attribute(identifier, extra.value, (*here, "Value"), findings)
            if made is not None:
                yield made


def attribute(
    identifier: x509.ObjectIdentifier, value: str, here: Place, findings: Findings
) -> x509.NameAttribute[str] | None:
    """Return an attribute of a distinguished name.

    For an invalid ``value``, add a problem at ``here`` and return None.
    """
    if (identifier in _PRINTABLE and not _is_printable(value)) or (
        identifier in _ASCII and not value.isascii()
    ):
        letters = "use letters, digits and ' ( ) + , - . / : = ?"
        hint = "use only ASCII" if identifier in _ASCII else _HINTS.get(identifier, letters)
        findings.refuse(here, "has characters that a certificate cannot hold here", hint)
        return None
    if identifier == NameOID.COUNTRY_NAME and not re.fullmatch(_COUNTRY, value):
        findings.refuse(here, "is not a country code", _HINTS[NameOID.COUNTRY_NAME])
        return None
    hint = _HINTS.get(identifier, "use Unicode text of at least one character")
    # A lone surrogate has no encoding. For some readers a NUL ends the name.
    if not value or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        findings.refuse(here, "cannot be in a certificate", hint)
        return None
    make = partial(x509.NameAttribute, identifier)
    return attempt(findings, make, value, here, "cannot be in a certificate", hint)


def _is_printable(value: str) -> bool:
    # PrintableString, X.680 41.4: the only string type of these attributes.
    return all(c.isascii() and (c.isalnum() or c in " '()+,-./:=?") for c in value)
