"""The full check of a manifest: its rules, and a trial building of the certificates it asks for."""

from datetime import datetime

from keyhouse import manifest as manifests
from keyhouse.authority import CoordinatorKeys, trial
from keyhouse.manifest import Checked
from keyhouse.wire.errors import Invalid, Problem

__all__ = ["check_fully"]


def check_fully(raw: bytes, *, keys: CoordinatorKeys, now: datetime) -> Checked:
    """Return the manifest and its warnings, or raise ``Invalid`` with every problem at once.

    ``keys`` are the coordinator's: certificates are built on trial under its intermediate CA, and
    may not carry its own names.
    """
    try:
        checked = manifests.check(raw, now=now)
    except Invalid as invalid:
        raise _merged(invalid, _trial_of(raw, keys, now)) from None
    problems = _trials(checked.manifest, keys, now)
    if problems:
        raise Invalid("the manifest", problems)
    return checked


def _trial_of(raw: bytes, keys: CoordinatorKeys, now: datetime) -> list[Problem]:
    """Return what the trial finds, as far as the manifest can be read at all."""
    try:
        return _trials(manifests.decode(raw), keys, now)
    except Invalid:
        return []


def _trials(manifest: manifests.Manifest, keys: CoordinatorKeys, now: datetime) -> list[Problem]:
    return [
        problem
        for name, definition in sorted(manifest.secrets.items())
        if definition.type.is_certificate and not definition.user_defined
        for problem in trial(definition, name=name, keys=keys, now=now)
    ]


def _merged(invalid: Invalid, more: list[Problem]) -> Invalid:
    """Return all findings; where a rule and the trial both object to one place, the rule's."""
    known = {problem.at for problem in invalid.problems}
    return Invalid(
        "the manifest", [*invalid.problems, *(found for found in more if found.at not in known)]
    )
