"""Generated leaf and CA certificates, from a manifest's template."""

from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from keyhouse.authority.keys import (
    CoordinatorKeys,
    certificate_of,
    generate_key,
    private_key_of,
    sign_certificate,
    signature_hash,
)
from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.x509.extensions import DEFAULT_DNS_NAMES, extensions
from keyhouse.authority.x509.fields import (
    end_of_validity,
    key_identifier,
    random_serial,
    whole_second,
)
from keyhouse.authority.x509.host_names import takes_own_name
from keyhouse.authority.x509.subject import common_name, subject_name
from keyhouse.authority.x509.template_der import template_from_certificate
from keyhouse.base.errors import Findings, InvalidError, Problem, TooManyError
from keyhouse.base.printable import Place
from keyhouse.wire.secret_types import CertificateTemplate, SecretDefinition, Subject

_COMMON_NAME: Final = (2, 5, 4, 3)  # CN, X.520

_Hash = hashes.SHA256 | hashes.SHA384 | hashes.SHA512

# The ECDSA numbers of Go's x509.SignatureAlgorithm.
_ALGORITHMS: Final[dict[int, type[_Hash]]] = {
    10: hashes.SHA256,
    11: hashes.SHA384,
    12: hashes.SHA512,
}


class CertificatePlan(msgspec.Struct, frozen=True):
    """The parts of a generated certificate that do not depend on its key."""

    subject: x509.Name
    start: datetime
    end: datetime
    extensions: tuple[tuple[x509.ExtensionType, bool], ...]
    subject_key_id: bytes
    is_ca: bool
    algorithm: _Hash
    # Extra extensions are bytes. Invalid bytes appear only when the whole certificate is parsed.
    must_be_read_back: bool


def plan_certificate(
    definition: SecretDefinition, *, keys: CoordinatorKeys, now: datetime
) -> CertificatePlan | tuple[Problem, ...]:
    """Return a plan of the certificate in ``definition``, or every problem, sorted by place.

    ``issue`` makes the certificate of a plan. Places are relative to the secret
    (``Cert.Subject.CommonName``). Source: ``docs/reference/manifest.md``, "Secrets".
    """
    findings, plan = Findings(), None
    with suppress(TooManyError):
        plan = _plan(definition, keys, now, findings)
    problems = tuple(sorted(set(findings.problems)))
    return problems if plan is None or problems else plan


def issue(
    plan: CertificatePlan, public_key: CertificatePublicKeyTypes, keys: CoordinatorKeys
) -> bytes:
    """Return a certificate (DER) over ``public_key``, signed by the intermediate key.

    The certificate verifies against the marble root, and against the root by way of the
    intermediate. Raises ``InvalidError`` for problems that only the combined parts show.
    """
    try:
        der = _build(plan, public_key, keys)
        if plan.must_be_read_back:
            tuple(x509.load_der_x509_certificate(der).extensions)
    except LIBRARY_REFUSALS:
        problem = Problem("Cert", "cannot be encoded as a certificate", "simplify the template")
        raise InvalidError("a certificate cannot be made", [problem]) from None
    return der


def template_problems(
    definition: SecretDefinition, *, keys: CoordinatorKeys, now: datetime, building: bool
) -> tuple[Problem, ...]:
    """Return every reason why the certificate in ``definition`` cannot be issued; empty: none.

    With ``building``, the check also makes a certificate over a temporary key, because no reason
    depends on the key. Without ``building``, only the single parts are checked.
    """
    plan = plan_certificate(definition, keys=keys, now=now)
    if isinstance(plan, tuple):
        return plan
    if not building:
        return ()
    try:
        issue(plan, _temporary_key(), keys)
    except InvalidError as refusal:
        return refusal.problems
    return ()


@lru_cache(maxsize=1)
def _temporary_key() -> ec.EllipticCurvePublicKey:
    return generate_key("P-256").public_key()


def _plan(
    definition: SecretDefinition, keys: CoordinatorKeys, now: datetime, findings: Findings
) -> CertificatePlan | None:
    template = _template(definition, findings)
    if template is None:
        return None
    dns_names = DEFAULT_DNS_NAMES if template.dns_names is None else template.dns_names
    shown = common_name(template.subject, dns_names)
    _refuse_own_names(template.subject, shown, keys, findings)
    return CertificatePlan(
        subject=subject_name(template.subject, shown, findings),
        start=whole_second(now),
        end=end_of_validity(template.not_after, definition.valid_for, now, findings),
        extensions=extensions(template, keys, findings),
        subject_key_id=template.subject_key_id,
        is_ca=template.is_ca,
        algorithm=_algorithm(template, keys, findings),
        must_be_read_back=bool(template.extra_extensions),
    )


def _refuse_own_names(
    subject: Subject, common_name: str, keys: CoordinatorKeys, findings: Findings
) -> None:
    """Refuse a common name that is a name of the coordinator.

    For a certificate without DNS names, some clients compare the common name with a host name.
    ``common_name`` is the common name of ``subject``, or its default. A common name in
    ``ExtraNames`` replaces this name, so both are checked.
    """
    names: dict[Place, str] = {("CommonName",): common_name} | {
        ("ExtraNames", position, "Value"): extra.value
        for position, extra in enumerate(subject.extra_names)
        if extra.type == _COMMON_NAME
    }
    hint = "choose a name that no client uses for the coordinator"
    for place, name in names.items():
        if takes_own_name(keys, name):
            here = ("Cert", "Subject", *place)
            findings.refuse(here, "is, or covers, a name of the coordinator itself", hint)


def _template(definition: SecretDefinition, findings: Findings) -> CertificateTemplate | None:
    if definition.cert_der:
        return template_from_certificate(definition.cert_der, findings)
    return definition.cert or CertificateTemplate()


def _algorithm(template: CertificateTemplate, keys: CoordinatorKeys, findings: Findings) -> _Hash:
    if template.signature_algorithm == 0:
        return signature_hash(keys.curve)
    algorithm = _ALGORITHMS.get(template.signature_algorithm)
    if algorithm is None:
        findings.refuse(
            ("Cert", "SignatureAlgorithm"),
            "is not possible with the coordinator's key",
            "leave it out, or use 10, 11, 12 (ECDSA with SHA-256, SHA-384, SHA-512)",
        )
        return signature_hash(keys.curve)
    return algorithm()


def _build(
    plan: CertificatePlan, public_key: CertificatePublicKeyTypes, keys: CoordinatorKeys
) -> bytes:
    issuer = certificate_of(keys.intermediate_cert)
    builder = (
        x509.CertificateBuilder()
        .issuer_name(issuer.subject)
        .subject_name(plan.subject)
        .public_key(public_key)
        .serial_number(random_serial())
        .not_valid_before(plan.start)
        .not_valid_after(plan.end)
    )
    for value, critical in (*plan.extensions, *_key_identifiers(plan, public_key, issuer)):
        builder = builder.add_extension(value, critical=critical)
    return sign_certificate(builder, private_key_of(keys.intermediate_key), plan.algorithm)


def _key_identifiers(
    plan: CertificatePlan, public_key: CertificatePublicKeyTypes, issuer: x509.Certificate
) -> tuple[tuple[x509.ExtensionType, bool], ...]:
    issuer_id = key_identifier(issuer.public_key())
    authority = x509.AuthorityKeyIdentifier(
        issuer_id, authority_cert_issuer=None, authority_cert_serial_number=None
    )
    own_id = plan.subject_key_id or (key_identifier(public_key) if plan.is_ca else b"")
    if not own_id:
        return ((authority, False),)
    return ((x509.SubjectKeyIdentifier(own_id), False), (authority, False))
