"""Rules for ``Users``, ``Roles`` and ``RecoveryKeys``."""

from collections.abc import Mapping
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from keyhouse.base import rsa_keys
from keyhouse.base.client_keys import has_costly_key
from keyhouse.base.errors import BadRequestError, Findings
from keyhouse.base.printable import Place, quoted
from keyhouse.manifest.convert import first_block, ignored_part
from keyhouse.manifest.document import ManifestDocument, RoleDocument, SecretDocument
from keyhouse.manifest.model import Action, ResourceType
from keyhouse.manifest.rules.references import SPELLING, refuse_undefined, unknown
from keyhouse.transparency.approval import signs_approvals
from keyhouse.wire.json_decoder import nearest

MOST_RECOVERY_KEYS = 255  # shares are points over GF(256), without 0

_USUAL_KEYS = f"use a key of P-256, or of RSA with {rsa_keys.LARGEST} bits at most"


def check_users(manifest: ManifestDocument, now: datetime, findings: Findings) -> None:
    """Check that each user has an X.509 certificate of their own, and only defined roles.

    Certificates are compared by their DER.
    """
    owners: dict[bytes, str] = {}
    transparency = manifest.config.transparency
    must_sign = transparency is not None and transparency.signed_approvals
    for name in sorted(manifest.users):
        user = manifest.users[name]
        here = ("Users", name, "Certificate")
        for index, role in enumerate(user.roles):
            if role not in manifest.roles:
                place = ("Users", name, "Roles", index)
                refuse_undefined(findings, place, "the role ", role, "Roles", manifest.roles)
        if not user.certificate:
            findings.refuse(here, "is missing", "write the user's certificate as PEM text")
            continue
        der = _certificate(here, user.certificate, now, findings)
        if der is not None and owners.setdefault(der, name) != name:
            problem = f"is the certificate of the user {quoted(owners[der])} as well"
            findings.refuse(here, problem, "give each user a certificate of their own")
        if der is not None and must_sign and not signs_approvals(der):
            problem = (
                "has a key that cannot sign approvals, but SignedApprovals requires signatures"
            )
            findings.warn(here, problem, "use a key of P-256, RSA or Ed25519")


def _certificate(here: Place, pem: str, now: datetime, findings: Findings) -> bytes | None:
    try:
        der = first_block(pem, "CERTIFICATE")
    except BadRequestError as refusal:
        findings.refuse(here, refusal.message, refusal.hint)
        return None
    certificate = parse_certificate(der)
    if certificate is None:
        findings.refuse(here, "is not an X.509 certificate", "write the user's certificate as PEM")
        return None
    _warn_of_ignored(here, pem, findings)
    if has_costly_key(der):
        problem = "has a key that TLS does not accept: the key cannot identify the user"
        findings.warn(here, problem, _USUAL_KEYS)
    if _has_expired(certificate, now):
        problem = "has expired; the certificate still identifies the user"
        findings.warn(here, problem, "replace the certificate with an update")
    return der


def _has_expired(certificate: x509.Certificate, now: datetime) -> bool:
    try:
        return certificate.not_valid_after_utc < now
    except ValueError:  # the year 0 is outside the range of datetime
        return True


def _warn_of_ignored(here: Place, pem: str, findings: Findings) -> None:
    if ignored := ignored_part(pem):
        findings.warn(here, ignored, "write only one PEM block")


def parse_certificate(der: bytes) -> x509.Certificate | None:
    """Return the parsed certificate; None if ``der`` is invalid or has trailing bytes."""
    try:
        return x509.load_der_x509_certificate(der)
    except Exception:  # noqa: BLE001  hostile bytes, many classes of errors, one answer
        return None


def check_roles(manifest: ManifestDocument, findings: Findings) -> None:
    """Check resource types, resource names and actions of all roles, also of unused roles."""
    for name, role in manifest.roles.items():
        place = ("Roles", name)
        if role.resource_type == ResourceType.PACKAGES:
            _check_actions(place, role, (Action.UPDATE_SECURITY_VERSION,), findings)
            _check_names(place, role, manifest.packages, "Packages", findings)
        elif role.resource_type == ResourceType.SECRETS:
            _check_actions(place, role, (Action.READ_SECRET, Action.WRITE_SECRET), findings)
            _check_names(place, role, manifest.secrets, "Secrets", findings)
            _check_secret_actions(place, role, manifest.secrets, findings)
        elif role.resource_type == ResourceType.MANIFEST:
            _check_actions(place, role, (Action.UPDATE_MANIFEST,), findings)
            if role.resource_names:
                problem = "must be empty for the type Manifest"
                findings.refuse((*place, "ResourceNames"), problem, "remove the names")
        elif role.resource_type == ResourceType.MARBLES:
            _check_actions(place, role, (Action.REVOKE_WORKLOAD,), findings)
            _check_names(place, role, manifest.marbles, "Marbles", findings)
        else:
            hint = nearest(role.resource_type, tuple(ResourceType))
            findings.refuse((*place, "ResourceType"), unknown(role.resource_type), hint)


def _check_actions(
    place: Place, role: RoleDocument, known: tuple[Action, ...], findings: Findings
) -> None:
    folded = {action.lower(): action for action in known}
    for index, action in enumerate(role.actions):
        here = (*place, "Actions", index)
        meant = folded.get(action.lower()) if action.isascii() else None
        if meant is None:
            problem = f"is {quoted(action)}, which is not an action on {role.resource_type}"
            findings.refuse(here, problem, nearest(action, known))
        elif action != meant:
            findings.warn(here, f"is read as {meant}", SPELLING)


def _check_names(
    place: Place,
    role: RoleDocument,
    defined: Mapping[str, object],
    section: str,
    findings: Findings,
) -> None:
    for index, name in enumerate(role.resource_names):
        if name not in defined:
            refuse_undefined(findings, (*place, "ResourceNames", index), "", name, section, defined)


def _check_secret_actions(
    place: Place, role: RoleDocument, secrets: Mapping[str, SecretDocument], findings: Findings
) -> None:
    actions = {action.lower() for action in role.actions}
    for index, name in enumerate(role.resource_names):
        here = (*place, "ResourceNames", index)
        secret = secrets.get(name)
        if secret is None or secret.user_defined:
            continue
        if Action.WRITE_SECRET.lower() in actions:
            problem = f"allows to write {quoted(name)}, which the coordinator generates"
            findings.refuse(here, problem, "remove the name, or set UserDefined of the secret")
        if Action.READ_SECRET.lower() in actions and not secret.shared:
            problem = f"allows to read {quoted(name)}, which has a different value in each marble"
            findings.refuse(here, problem, "remove the name, or set Shared of the secret")


def check_recovery_keys(keys: Mapping[str, str], findings: Findings) -> None:
    """Check that recovery keys are at most 255 different RSA public keys in PEM.

    A key under two names would give its holder two shares. Then fewer people than
    ``RecoveryThreshold`` could recover. Keys with the same modulus count as equal, because the same
    person can decrypt for both.
    """
    if len(keys) > MOST_RECOVERY_KEYS:
        problem = f"has {len(keys)} keys, must have at most {MOST_RECOVERY_KEYS}"
        findings.refuse(("RecoveryKeys",), problem, "remove recovery keys")
        return
    owners: dict[int, str] = {}
    for name in sorted(keys):
        here = ("RecoveryKeys", name)
        try:
            der = first_block(keys[name], "PUBLIC KEY")
        except BadRequestError as refusal:
            findings.refuse(here, refusal.message, refusal.hint)
            continue
        key = _rsa_key(der)
        problem = key if isinstance(key, str) else _key_problem(key)
        if isinstance(key, str) or problem:
            findings.refuse(here, problem, "use an RSA key of 3072 or 4096 bits")
            continue
        _warn_of_ignored(here, keys[name], findings)
        owner = owners.setdefault(key.public_numbers().n, name)
        if owner != name:
            hint = "give each holder a separate key, because a key may not have two shares"
            findings.refuse(here, f"is the same key as {quoted(owner)}", hint)


def _rsa_key(der: bytes) -> RSAPublicKey | str:
    """Return the RSA key in ``der``; for any other bytes, the problem as text."""
    try:
        key = load_der_public_key(der)
    except Exception:  # noqa: BLE001  hostile bytes, many classes of errors, one answer
        return "is not a public key"
    return key if isinstance(key, RSAPublicKey) else "is not an RSA key"


def _key_problem(key: RSAPublicKey) -> str:
    least, most = rsa_keys.SMALLEST, rsa_keys.LARGEST_OF_HOLDERS
    if not least <= key.key_size <= most:
        return f"has {key.key_size} bits, must have {least} to {most}"
    exponent = key.public_numbers().e
    # With exponent 1, nothing would be encrypted.
    if exponent < 3 or exponent % 2 == 0:  # noqa: PLR2004  the smallest odd exponent that encrypts
        return "has a public exponent that does not encrypt"
    return ""
