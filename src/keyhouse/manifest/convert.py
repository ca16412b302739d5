"""Converts a manifest document into a manifest, and its PEM texts into DER.

After the check, no conversion fails.
"""

import binascii
import re
from contextlib import suppress
from functools import cache

import msgspec

from keyhouse.base.errors import BadRequestError, InvalidError, Problem
from keyhouse.base.secret import Secret
from keyhouse.manifest import document, model
from keyhouse.manifest.model import Manifest
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.json_decoder import decode as decode_json
from keyhouse.wire.json_parser import UnreadableError
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import (
    CertificateTemplate,
    SecretDefinition,
    SecretType,
    Subject,
    Uri,
)


def decode(raw: bytes) -> Manifest:
    """Return the manifest of bytes that passed the ``check`` of this or any earlier version.

    The rules are not checked again, and unknown fields are ignored: a later version may have
    stricter rules. Raises ``InvalidError`` for bytes that were never a valid manifest.
    """
    try:
        return manifest_of(_document(raw), raw)
    except UnreadableError as failure:
        raise InvalidError("the manifest", failure.problems) from failure
    except (KeyError, ValueError, BadRequestError) as failure:
        problem = Problem("", "never passed a check", "restore the state from a backup")
        raise InvalidError("the manifest", [problem]) from failure


def _document(raw: bytes) -> document.ManifestDocument:
    """Return the decoded manifest ``raw``, equal to the result of ``decode_json``.

    The decoder of msgspec takes a tenth of the time of ``decode_json``, but only accepts known
    fields in the declared spelling. Most manifests have this form. For all other manifests, this
    function calls ``decode_json``.
    """
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return _exact_decoder().decode(raw)
    return decode_json(raw, document.ManifestDocument)


@cache
def _exact_decoder() -> "msgspec.json.Decoder[document.ManifestDocument]":
    return msgspec.json.Decoder(document.ManifestDocument, dec_hook=_secret_value)


def _secret_value(kind: type, value: object) -> Secret:
    if kind is not Secret or not isinstance(value, str):
        raise ValueError
    return Secret(decode_base64(value))


def manifest_of(written: document.ManifestDocument, raw: bytes) -> Manifest:
    """Return the manifest of the document ``written``, which was decoded from ``raw``.

    The result also holds ``raw``, unchanged.
    """
    return Manifest(
        raw=raw,
        packages={name: _package(package) for name, package in written.packages.items()},
        infrastructures=written.infrastructures,
        marbles={name: _marble(marble) for name, marble in written.marbles.items()},
        secrets=_secrets(written.secrets),
        users={
            name: model.User(first_block(user.certificate, "CERTIFICATE"), user.roles)
            for name, user in written.users.items()
        },
        roles={name: _role(role) for name, role in written.roles.items()},
        recovery_keys={
            name: model.HolderPublicKey(pem, first_block(pem, "PUBLIC KEY"))
            for name, pem in written.recovery_keys.items()
        },
        tls=written.tls,
        config=_config(written.config),
    )


def decode_entry(entry: str | document.EntryDocument) -> model.EncodedContent:
    """Return the decoded content of a file or variable, from its entry in the manifest.

    Raises ``BadRequestError`` for an unknown encoding, and for content that cannot be decoded.
    """
    if isinstance(entry, str):
        return model.EncodedContent(entry.encode())
    encoding = entry.encoding.lower() if entry.encoding.isascii() else ""
    if encoding == "string":
        return model.EncodedContent(entry.data.encode(), entry.no_templates)
    if encoding == "base64":
        return model.EncodedContent(decode_base64(entry.data), entry.no_templates)
    if encoding != "hex":
        raise BadRequestError("Encoding is unknown", hint="use string, base64 or hex")
    try:
        return model.EncodedContent(binascii.unhexlify(entry.data), entry.no_templates)
    except ValueError:
        raise BadRequestError(
            "is not hex", hint="write two hex digits for each byte, and no other characters"
        ) from None


def certificate_template(written: document.TemplateDocument) -> CertificateTemplate:
    """Return the certificate template ``written`` without the fields that have no effect."""
    subject = Subject(**{name: getattr(written.subject, name) for name in _SUBJECT})
    values = {name: getattr(written, name) for name in _TEMPLATE}
    uris = tuple(Uri(uri.scheme, uri.host, uri.path) for uri in written.uris)
    return CertificateTemplate(**{**values, "subject": subject, "uris": uris})


_SUBJECT = Subject.__struct_fields__
_TEMPLATE = CertificateTemplate.__struct_fields__


def _package(package: Package) -> Package:
    changed = package.vms_in_lower_case()
    for name in ("unique_id", "signer_id"):
        given: str = getattr(package, name)
        if given != given.lower():
            changed[name] = given.lower()
    return msgspec.structs.replace(package, **changed) if changed else package


def _marble(marble: document.MarbleDocument) -> model.MarbleDefinition:
    written = marble.parameters
    return model.MarbleDefinition(
        package=marble.package,
        max_activations=marble.max_activations,
        parameters=model.MarbleParameters(
            files={path: decode_entry(entry) for path, entry in written.files.items()},
            env={name: decode_entry(entry) for name, entry in written.env.items()},
            argv=written.argv,
        ),
        tls=marble.tls,
        disable_secret_binding=marble.disable_secret_binding,
        renewal=None if marble.renewal is None else _renewal(marble.renewal),
    )


def _renewal(given: model.Renewal) -> model.Renewal:
    """Return the ``Renewal`` of a marble type, with defaults in place of absent values."""
    return model.Renewal(
        valid_minutes=given.valid_minutes or model.VALID_MINUTES,
        on_change=given.on_change,
        on_end=given.on_end or model.OnEnd.KEEP.value,
    )


def _secrets(written: dict[str, document.SecretDocument]) -> dict[str, SecretDefinition]:
    """Return the definitions of secrets by name.

    To save memory, equal definitions without a certificate or value are the same object.
    """
    known: dict[tuple[object, ...], SecretDefinition] = {}
    definitions = {}
    for name, secret in written.items():
        if secret.cert or secret.private or secret.public:
            definitions[name] = _secret(secret)
            continue
        key = (secret.type, secret.size, secret.shared, secret.user_defined, secret.valid_for)
        if (definition := known.get(key)) is None:
            definition = known[key] = _secret(secret)
        definitions[name] = definition
    return definitions


def _secret(secret: document.SecretDocument) -> SecretDefinition:
    template = secret.cert if isinstance(secret.cert, document.TemplateDocument) else None
    return SecretDefinition(
        type=_SECRET_TYPES[secret.type],
        size=secret.size,
        shared=secret.shared,
        user_defined=secret.user_defined,
        cert=None if template is None else certificate_template(template),
        cert_der=secret.cert if isinstance(secret.cert, bytes) else b"",
        valid_for=secret.valid_for,
        private=secret.private or None,
        public=secret.public or None,
    )


def _role(role: document.RoleDocument) -> model.Role:
    return model.Role(
        resource_type=model.ResourceType(role.resource_type),
        resource_names=role.resource_names,
        actions=tuple(_ACTIONS[action.lower()] for action in role.actions),
    )


def _config(config: document.ConfigDocument) -> model.Config:
    return model.Config(
        seal_mode=model.SealMode(config.seal_mode or model.SealMode.PRODUCT_KEY),
        feature_gates=tuple(sorted({_GATES[gate.lower()] for gate in config.feature_gates})),
        update_threshold=config.update_threshold,
        recovery_threshold=config.recovery_threshold,
        rotate_root_secret=config.rotate_root_secret,
        replicas=None if config.replicas is None else _replicas(config.replicas),
        transparency=None if config.transparency is None else _transparency(config.transparency),
        trust=config.trust,
    )


def _replicas(replicas: model.Replicas) -> model.Replicas:
    """Return ``Config.Replicas`` with sorted lists and lower-case hex.

    So two manifests with the same meaning have equal values, and a plan shows no change.
    """
    code = {_package(package) for package in replicas.code}
    return model.Replicas(
        code=tuple(sorted(code, key=msgspec.json.encode)),
        accepted_tcb_statuses=tuple(sorted(set(replicas.accepted_tcb_statuses))),
        platforms=tuple(sorted({platform.lower() for platform in replicas.platforms})),
    )


def _transparency(given: model.Transparency) -> model.Transparency:
    """Return ``Config.Transparency`` with defaults in place of absent values."""
    return model.Transparency(
        witnesses=given.witnesses,
        serve=given.serve or model.ServeCondition.ALWAYS.value,
        lease_seconds=given.lease_seconds or model.LEASE_SECONDS,
        lease_operations=given.lease_operations or model.LEASE_OPERATIONS,
        anchor_before=tuple(sorted(set(given.anchor_before))),
        signed_approvals=given.signed_approvals,
        origin=given.origin,
    )


_SECRET_TYPES = {str(each): each for each in SecretType}
_ACTIONS = {action.lower(): action for action in model.Action}
_GATES = {gate.lower(): gate for gate in model.FeatureGate}


_BEGIN = r"^-----BEGIN ([A-Z0-9 ]{1,64})-----[ \t]*\r?$"


def first_block(text: str, label: str) -> bytes:
    """Return the DER bytes of the first PEM block in ``text``, which must have the type ``label``.

    Text before and after the block is ignored (``ignored_part`` reports it). Header lines are
    refused. Raises ``BadRequestError``; its message never quotes ``text``.
    """
    begin = re.search(_BEGIN, text, re.MULTILINE)
    if begin is None:
        hint = f"write a PEM text, which has a line -----BEGIN {label}-----"
        raise BadRequestError("is not a PEM text", hint=hint)
    if begin[1] != label:
        raise BadRequestError(
            f"is a PEM block of another type than {label}", hint=_HINTS.get(label, "")
        )
    body, end, _ = text[begin.end() :].partition(f"-----END {label}-----")
    if not end:
        raise BadRequestError(f"has no line -----END {label}-----", hint="copy the whole PEM text")
    return decode_base64("".join(body.split()))


def ignored_part(text: str) -> str:
    """Return a warning about text that ``first_block`` ignores; "" if there is no such text.

    ``first_block`` must have accepted ``text``.
    """
    begin = re.search(_BEGIN, text, re.MULTILINE)
    if begin is None:
        return ""
    after = text[begin.end() :].partition(f"-----END {begin[1]}-----")[2]
    if "-----BEGIN " in after:
        return "has more than one PEM block, and only the first block counts"
    if after.strip() or text[: begin.start()].strip():
        return "has text around its PEM block, which has no effect"
    return ""


_HINTS = {
    "CERTIFICATE": "put the certificate first",
    "PUBLIC KEY": "convert the form RSA PUBLIC KEY: openssl rsa -RSAPublicKey_in -pubout",
}
