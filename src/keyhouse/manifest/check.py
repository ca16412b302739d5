"""The full check of a manifest, with every problem at once."""

from contextlib import suppress
from datetime import datetime

import msgspec

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.findings import Findings, TooManyError, reported
from keyhouse.base.printable import at
from keyhouse.manifest.convert import manifest_of
from keyhouse.manifest.document import ManifestDocument
from keyhouse.manifest.model import Manifest
from keyhouse.manifest.rules.access import check_recovery_keys, check_roles, check_users
from keyhouse.manifest.rules.config import check_config
from keyhouse.manifest.rules.marbles import check_marbles
from keyhouse.manifest.rules.packages import check_infrastructures, check_packages
from keyhouse.manifest.rules.renewal import check_renewals, problems_of_parameters
from keyhouse.manifest.rules.secrets import check_secrets, secret_types
from keyhouse.manifest.rules.tls import check_tls
from keyhouse.manifest.template_index import index_templates
from keyhouse.wire.json_decoder import Read, read
from keyhouse.wire.json_parser import UnreadableError

MAX_BYTES = 16 * 1024 * 1024  # of one manifest


class Checked(msgspec.Struct, frozen=True):
    """A manifest that passed ``check``, with warnings for its author, sorted by place."""

    manifest: Manifest
    warnings: tuple[Problem, ...]


def check(raw: bytes, *, now: datetime) -> Checked:
    """Return the manifest in ``raw`` after a check of its JSON and of all rules of each section.

    ``now`` is UTC. Raises ``InvalidError`` with every problem (up to 1,000), sorted by place. If a
    part has the wrong JSON type, the rules are not applied, because their problems would mislead.
    The error then has wrong types, unknown fields and repeated keys. This function does not check
    whether a template can become a certificate.
    """
    written = read_document(raw)
    findings = Findings()
    with suppress(TooManyError):
        _apply_rules(written.value, now, findings)
    if written.problems or findings.problems:
        raise InvalidError("the manifest", reported((*written.problems, *findings.problems)))
    manifest = manifest_of(written.value, raw)
    if manifest.is_living and (problems := problems_of_parameters(manifest)):
        raise InvalidError("the manifest", problems)
    _check_initial_values(manifest)
    return Checked(manifest, tuple(sorted(set(findings.warnings))))


def _check_initial_values(manifest: Manifest) -> None:
    """Refuse a first value of a secret if a template with this secret cannot use the value.

    The template function ``string`` cannot use a value with a zero byte.
    """
    given = {
        name: definition.private.reveal()
        for name, definition in manifest.secrets.items()
        if definition.private is not None and not definition.type.is_certificate
    }
    if not given:
        return
    readers = index_templates(manifest).readers
    problems = [
        Problem(at("Secrets", name, "Private"), f"holds a zero byte, but {at(*where)} reads it")
        for name, content in sorted(given.items())
        for call, where in readers.get(name, {}).items()
        if call.function == "string" and 0 in content
    ]
    if problems:
        raise InvalidError("the manifest", problems)


def read_document(raw: bytes) -> Read[ManifestDocument]:
    """Return the decoded manifest ``raw``, with unknown fields and repeated keys as problems.

    Raises ``InvalidError`` for more than 16 MiB, and for a part of the wrong JSON type.
    """
    if len(raw) > MAX_BYTES:
        problem = f"has {len(raw)} bytes, at most {MAX_BYTES} are read"
        raise InvalidError("the manifest", [Problem("", problem)])
    try:
        return read(raw, ManifestDocument)
    except UnreadableError as failure:
        raise InvalidError("the manifest", failure.problems) from failure


def _apply_rules(manifest: ManifestDocument, now: datetime, findings: Findings) -> None:
    check_packages(manifest.packages, findings)
    check_infrastructures(manifest.infrastructures, findings)
    check_marbles(manifest, secret_types(manifest), findings)
    check_tls(manifest, findings)
    check_users(manifest, now, findings)
    check_roles(manifest, findings)
    check_secrets(manifest, findings)
    check_recovery_keys(manifest.recovery_keys, findings)
    check_config(manifest, findings)
    renews = any(marble.renewal is not None for marble in manifest.marbles.values())
    if renews or manifest.config.trust is not None:
        check_renewals(manifest, findings)
