"""What a certificate template says in vain, or should not say lightly.

Whether a certificate can be made of it is found by trying, in ``keyhouse.authority``.
"""

import msgspec
from cryptography import x509

from keyhouse.base.findings import Findings
from keyhouse.base.place import Place
from keyhouse.manifest.document import TemplateDocument, UriDocument, has_content
from keyhouse.wire.secret_types import CertificateTemplate, Uri


def check_template(place: Place, template: TemplateDocument | bytes, findings: Findings) -> None:
    """Check what the template (an object, or a certificate in DER) at ``place`` loses or allows."""
    if isinstance(template, bytes):
        if _is_ca(template):
            _warn_of_ca(place, findings)
        return
    for field, spelled in _IGNORED.items():
        if has_content(getattr(template, field)):
            findings.warn(
                (*place, spelled), "has no effect: the coordinator decides it", "remove it"
            )
    if has_content(template.subject.names):
        findings.warn((*place, "Subject", "Names"), "has no effect", "use ExtraNames")
    if template.is_ca:
        _warn_of_ca((*place, "IsCA"), findings)
    _check_uris(place, template, findings)


def _beyond(document: type[msgspec.Struct], model: type[msgspec.Struct]) -> dict[str, str]:
    """Return the fields of ``document`` that ``model`` has not, and how they are spelled."""
    fields = msgspec.structs.fields(document)
    known = model.__struct_fields__
    return {each.name: each.encode_name for each in fields if each.name not in known}


_IGNORED = _beyond(TemplateDocument, CertificateTemplate)
_OF_OTHER_URIS = _beyond(UriDocument, Uri)


def _check_uris(place: Place, template: TemplateDocument, findings: Findings) -> None:
    """Refuse parts of a URI that would be lost, which would make it another URI."""
    for index, uri in enumerate(template.uris):
        for field, spelled in _OF_OTHER_URIS.items():
            if has_content(getattr(uri, field)):
                problem = "is not supported in a certificate's URI"
                findings.refuse((*place, "URIs", index, spelled), problem, "Scheme, Host, Path are")


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
