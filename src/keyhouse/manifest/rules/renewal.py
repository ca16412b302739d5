"""Rules for ``Marbles.X.Renewal`` and ``Config.Trust``: renewed certificates of workloads."""

from typing import Final

from keyhouse.base.errors import Findings, Problem
from keyhouse.base.printable import Place, at, quoted
from keyhouse.manifest.document import ManifestDocument, MarbleDocument
from keyhouse.manifest.indexes import index_templates
from keyhouse.manifest.model import VALID_MINUTES, Manifest, OnChange, OnEnd
from keyhouse.manifest.rules.references import unknown
from keyhouse.manifest.templates import TemplateSource
from keyhouse.wire.json_decoder import nearest

ALLOWED_MINUTES: Final = (10, 7 * 24 * 60)
ALLOWED_OVERLAP: Final = (0, 30 * 24)  # hours
SIGNALS: Final = ("HUP", "USR1", "USR2", "TERM")


def check_renewals(manifest: ManifestDocument, findings: Findings) -> None:
    """Check ``Renewal`` of each marble type, and ``Config.Trust.OverlapHours``.

    After an update, workloads trust the former marble root for ``OverlapHours``.
    """
    for name, marble in manifest.marbles.items():
        if marble.renewal is not None:
            _check_renewal(("Marbles", name), marble, findings)
    trust = manifest.config.trust
    if trust is None:
        return
    here: Place = ("Config", "Trust", "OverlapHours")
    low, high = ALLOWED_OVERLAP
    if not low <= trust.overlap_hours <= high:
        problem = f"is {trust.overlap_hours}, must be {low} to {high}"
        findings.refuse(here, problem, "write the number of hours")
    elif trust.overlap_hours and all(each.renewal is None for each in manifest.marbles.values()):
        problem = "has no effect without a marble type with Renewal"
        findings.warn(here, problem, "add Renewal to a type, or remove OverlapHours")


def _check_renewal(place: Place, marble: MarbleDocument, findings: Findings) -> None:
    renewal, here = marble.renewal, (*place, "Renewal")
    if renewal is None:
        return
    low, high = ALLOWED_MINUTES
    minutes = renewal.valid_minutes
    if minutes and not low <= minutes <= high:
        problem = f"is {minutes}, must be {low} to {high}"
        hint = f"use 0 for the default of {VALID_MINUTES} minutes"
        findings.refuse((*here, "ValidMinutes"), problem, hint)
    elif minutes > VALID_MINUTES:
        problem = f"is {minutes}: other workloads accept a revoked workload for up to this time"
        findings.warn((*here, "ValidMinutes"), problem, f"use {VALID_MINUTES} or less")
    if renewal.on_end not in {"", *OnEnd}:
        hint = nearest(renewal.on_end, tuple(OnEnd))
        findings.refuse((*here, "OnEnd"), unknown(renewal.on_end), hint)
    _check_on_change((*here, "OnChange"), renewal.on_change, findings)
    _check_effect((*here, "OnChange"), marble, renewal.on_change, findings)
    if marble.tls:
        problem = "is not possible together with TLS tags, whose keys are in one variable"
        findings.refuse(here, problem, "remove the tags, or remove Renewal")


def _check_effect(
    here: Place, marble: MarbleDocument, on_change: OnChange, findings: Findings
) -> None:
    """Warn about a reload in ``on_change`` that never happens without further parameters."""
    given = marble.parameters
    if (on_change.signal or on_change.command) and not given.files:
        problem = "has no effect without Files: a running program receives nothing else"
        findings.warn(here, problem, "write the certificate to a file, or use Restart")
    if on_change.restart and not (given.files or given.env or given.argv):
        problem = "has no effect without Files, Env or Argv: a renewal alone never restarts"
        findings.warn(here, problem, "add parameters, or remove Restart")


def _check_on_change(here: Place, given: OnChange, findings: Findings) -> None:
    if (bool(given.signal) + bool(given.command) + given.restart) > 1:
        problem = "has more than one kind of reload"
        findings.refuse(here, problem, "keep only Signal, Command or Restart")
    if given.signal and given.signal not in SIGNALS:
        findings.refuse((*here, "Signal"), unknown(given.signal), nearest(given.signal, SIGNALS))
    if given.command and not given.command[0].startswith("/"):
        problem = "does not begin with an absolute path"
        findings.refuse((*here, "Command", 0), problem, "write a path such as /usr/sbin/nginx")
    for index, argument in enumerate(given.command):
        if "\0" in argument:
            problem = "holds a zero byte, which no program can receive"
            findings.refuse((*here, "Command", index), problem, "remove the zero byte")


def problems_of_parameters(manifest: Manifest) -> list[Problem]:
    """Return problems of templates in marble types with ``Renewal``.

    Such a template must not use a certificate secret that is neither shared nor user-defined. The
    coordinator makes a new key for such a secret at each use. So a change of any value in the files
    of a running workload would also replace this key.
    """
    renewable = [name for name, each in sorted(manifest.marbles.items()) if each.renewal]
    if not renewable:
        return []
    templates = index_templates(manifest)
    problems: list[Problem] = []
    for name in renewable:
        own = templates.marbles[name]
        for secret in sorted(
            own.names(TemplateSource.SECRETS) | own.names(TemplateSource.PREVIOUS)
        ):
            definition = manifest.secrets[secret]
            is_stored = definition.shared or definition.user_defined
            if definition.type.is_certificate and not is_stored:
                problem = (
                    f"reads {quoted(secret)}, a certificate of each marble: this is not yet"
                    " possible with Renewal"
                )
                hint = "use MarbleCert, or a Shared certificate"
                problems.append(Problem(at("Marbles", name, "Parameters"), problem, hint))
    return problems
