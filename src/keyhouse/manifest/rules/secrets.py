"""Rules for ``Secrets``: types, sizes, templates, and the cost of generated values.

``keyhouse.authority`` finds out by trial whether a template can become a certificate. This module
finds fields of templates without an effect, and dangerous fields.
"""

from typing import Final

import msgspec
from cryptography import x509

from keyhouse.base.errors import Findings
from keyhouse.base.printable import Place
from keyhouse.manifest.document import (
    ManifestDocument,
    SecretDocument,
    TemplateDocument,
    UriDocument,
    has_content,
)
from keyhouse.manifest.rules.access import parse_certificate
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.secret_types import CertificateTemplate, SecretType, Uri, size_problem

MOST_BYTES = 16 * 1024 * 1024  # of generated symmetric keys in one manifest
MOST_COST: Final = 64 * 256
"""Maximum cost of all generated keys, in units of a P-256 key.

So the number of generated certificates is bounded as well.
"""

RSA_2048_COST: Final = 256
_COST = {SecretType.CERT_ECDSA: 1, SecretType.CERT_ED25519: 1}
_COST_OF_LARGE_CURVES = 4  # chosen: P-384 and P-521 cost a few times P-256


def secret_types(manifest: ManifestDocument) -> dict[str, SecretType | None]:
    """Return the type of each secret by name; None for an unknown type."""
    return {
        name: SecretType(secret.type) if secret.type in _TYPES else None
        for name, secret in manifest.secrets.items()
    }


_TYPES = {kind.value for kind in SecretType}


def key_cost(kind: SecretType, size: int) -> int:
    """Return the cost of generating a key, in 1/256 of the cost of an RSA-2048 key.

    The cost of RSA grows with the third power of the size. A key of 8192 bits costs as much as 64
    keys of 2048 bits, and this is the limit of a manifest (``MOST_COST``). So a manifest cannot
    have two such keys. An elliptic-curve key costs little more than its certificate.
    """
    if kind is SecretType.CERT_RSA:
        return max(1, RSA_2048_COST * size**3 // 2048**3)
    if kind is SecretType.CERT_ECDSA and size > 256:  # noqa: PLR2004  the curve P-256
        return _COST_OF_LARGE_CURVES
    return _COST.get(kind, 0)


def check_secrets(manifest: ManifestDocument, findings: Findings) -> None:
    """Check names, types, sizes, values and templates of secrets, and the cost of making all keys.

    The coordinator's full check of a manifest also tries to issue each certificate.
    """
    total_bytes = total_cost = 0
    for name, secret in manifest.secrets.items():
        place = ("Secrets", name)
        if not name:
            findings.refuse(place, "has an empty name", "name the secret")
        if secret.type not in _TYPES:
            problem = "is missing" if not secret.type else "is not a type of secret"
            findings.refuse((*place, "Type"), problem, nearest(secret.type, tuple(SecretType)))
            continue
        kind = SecretType(secret.type)
        fits = _check_size(place, kind, secret, findings)
        _check_values(place, kind, secret, findings)
        _check_certificate(place, kind, secret, findings)
        if fits and not secret.user_defined:
            total_bytes += secret.size // 8 if kind is SecretType.SYMMETRIC_KEY else 0
            total_cost += key_cost(kind, secret.size)
    if total_bytes > MOST_BYTES:
        problem = f"require {total_bytes} bytes of generated keys, must be at most {MOST_BYTES}"
        findings.refuse(("Secrets",), problem, "use smaller or fewer keys")
    if total_cost > MOST_COST:
        problem = "require generated certificates that cost more than 64 RSA-2048 keys"
        findings.refuse(("Secrets",), problem, "use cert-ecdsa, or smaller RSA keys")


def _check_size(place: Place, kind: SecretType, secret: SecretDocument, findings: Findings) -> bool:
    """Return whether the size fits the kind of secret. Add a problem for any other size."""
    here = (*place, "Size")
    if kind is SecretType.PLAIN:
        if not secret.user_defined:
            hint = "set UserDefined: a user uploads the data"
            problem = "must be true: plain data is never generated"
            findings.refuse((*place, "UserDefined"), problem, hint)
        if secret.size:
            findings.warn(here, "has no effect on plain data", "remove Size")
        return secret.user_defined
    shared, user_defined = secret.shared, secret.user_defined
    problem = size_problem(kind, secret.size, shared=shared, user_defined=user_defined)
    if problem:
        findings.refuse(here, problem, "give the size in bits")
    return not problem


def _check_values(
    place: Place, kind: SecretType, secret: SecretDocument, findings: Findings
) -> None:
    """Check ``Private`` and ``Public``, the first value of a secret. No message has their bytes."""
    for field, value in (("Private", secret.private), ("Public", secret.public)):
        if value is None or not len(value):
            continue
        if not secret.user_defined:
            problem = "is given for a secret that is generated"
            findings.refuse((*place, field), problem, f"remove {field}, or set UserDefined")
            continue
        hint = "upload the value instead"
        findings.warn((*place, field), "can be read by everyone who reads the manifest", hint)
        if kind is SecretType.SYMMETRIC_KEY and 8 * len(value) != secret.size:
            problem = f"has {8 * len(value)} bits, must have {secret.size} (Size)"
            findings.refuse((*place, field), problem, "change the value or Size")
    if not secret.public or not secret.user_defined:
        return
    if kind.is_certificate:
        problem = "has no effect: the public key comes from Cert"
        findings.warn((*place, "Public"), problem, "remove Public")
    elif secret.private != secret.public:
        problem = "differs from Private, must be equal for keys and plain data"
        findings.refuse((*place, "Public"), problem, "remove Public")


def _check_certificate(
    place: Place, kind: SecretType, secret: SecretDocument, findings: Findings
) -> None:
    cert = secret.cert
    if cert == b"":
        problem = "is an empty string"
        findings.refuse((*place, "Cert"), problem, "remove Cert, or write a template")
        cert = None
    # Without Private there is no first value that could include a certificate.
    is_value = secret.user_defined and secret.private and not isinstance(cert, TemplateDocument)
    if not kind.is_certificate or (secret.user_defined and not is_value):
        for field, value in (("Cert", cert), ("ValidFor", secret.valid_for)):
            if value:
                problem = "has no effect: no certificate is made for this secret"
                findings.warn((*place, field), problem, f"remove {field}")
    if not kind.is_certificate:
        return
    if secret.user_defined:
        _check_unused(place, cert, secret.valid_for, findings)
    elif cert is not None:
        _check_template((*place, "Cert"), cert, findings)


def _check_unused(
    place: Place, cert: TemplateDocument | bytes | None, valid_for: int, findings: Findings
) -> None:
    """Refuse contradictions in ``cert`` and ``valid_for`` of a secret with uploaded values.

    Both have no effect there.
    """
    if isinstance(cert, bytes) and parse_certificate(cert) is None:
        hint = "write the base64 of a DER certificate, or an object"
        findings.refuse((*place, "Cert"), "is not an X.509 certificate", hint)
        return
    ends = isinstance(cert, bytes) or (cert is not None and has_content(cert.not_after))
    if ends and valid_for:
        hint = "remove ValidFor or NotAfter"
        findings.refuse((*place, "ValidFor"), "is ambiguous: NotAfter is given as well", hint)


def _check_template(place: Place, template: TemplateDocument | bytes, findings: Findings) -> None:
    """Check the certificate template at ``place``, an object or DER.

    Warn of fields without an effect, and of the rights of a CA.
    """
    if isinstance(template, bytes):
        if _is_ca(template):
            _warn_of_ca(place, findings)
        return
    for field, spelled in _IGNORED.items():
        if has_content(getattr(template, field)):
            findings.warn(
                (*place, spelled),
                "has no effect: the coordinator decides this field",
                f"remove {spelled}",
            )
    if has_content(template.subject.names):
        findings.warn((*place, "Subject", "Names"), "has no effect", "write ExtraNames instead")
    if template.is_ca:
        _warn_of_ca((*place, "IsCA"), findings)
    _check_uris(place, template, findings)


def _additional_fields(
    document: type[msgspec.Struct], model: type[msgspec.Struct]
) -> dict[str, str]:
    """Return the JSON names of the fields of ``document`` that ``model`` lacks, by Python name."""
    fields = msgspec.structs.fields(document)
    known = model.__struct_fields__
    return {each.name: each.encode_name for each in fields if each.name not in known}


_IGNORED = _additional_fields(TemplateDocument, CertificateTemplate)
_UNSUPPORTED_URI_FIELDS = _additional_fields(UriDocument, Uri)


def _check_uris(place: Place, template: TemplateDocument, findings: Findings) -> None:
    """Refuse unsupported parts of a URI: without such a part, the URI would be a different URI."""
    for index, uri in enumerate(template.uris):
        for field, spelled in _UNSUPPORTED_URI_FIELDS.items():
            if has_content(getattr(uri, field)):
                problem = "is not supported in a certificate's URI"
                hint = f"remove {spelled}; a URI may have Scheme, Host and Path"
                findings.refuse((*place, "URIs", index, spelled), problem, hint)


def _warn_of_ca(here: Place, findings: Findings) -> None:
    problem = (
        "makes a CA: anyone who has its key can issue certificates below the deployment's root, for"
        " all names but the coordinator's own"
    )
    hint = "remove it if no workload issues certificates, or limit it with PermittedDNSDomains"
    findings.warn(here, problem, hint)


def _is_ca(der: bytes) -> bool:
    try:
        extensions = x509.load_der_x509_certificate(der).extensions
        return extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # noqa: BLE001  hostile bytes; what cannot be a template is refused elsewhere
        return False
