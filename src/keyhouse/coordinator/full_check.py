"""The full check of a manifest: its rules, and a trial run of issuing its certificates."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from keyhouse.authority import CoordinatorKeys, StoredSecret, import_secret, trial
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.findings import MOST, reported
from keyhouse.base.printable import at
from keyhouse.manifest import Manifest, decode
from keyhouse.manifest.check import Checked, check
from keyhouse.manifest.rules.secrets import MOST_COST
from keyhouse.wire.secret_types import SecretDefinition, UserSecret


def check_fully(
    raw: bytes,
    *,
    keys: CoordinatorKeys,
    now: datetime,
    building: Callable[[SecretDefinition], bool] = lambda _definition: True,
) -> Checked:
    """Return the manifest and its warnings, or raise ``InvalidError`` with every problem at once.

    ``keys`` are the coordinator's: certificates are issued on trial under its intermediate CA, and
    may not have its own names. All templates are checked. A caller that issues some certificates
    itself right afterwards selects with ``building`` which others are issued on trial.
    """
    try:
        checked = check(raw, now=now)
    except InvalidError as invalid:
        raise _merged(invalid, _trial_of(raw, keys, now)) from None
    problems = _trials(checked.manifest, keys, now, building)
    if problems:
        raise InvalidError("the manifest", reported(problems))
    return checked


def _trial_of(raw: bytes, keys: CoordinatorKeys, now: datetime) -> list[Problem]:
    """Return the problems that the trial finds; none if the manifest cannot be decoded.

    None either if it asks for more certificates than may be generated, for which it is refused:
    nobody gets so many issued on trial.
    """
    try:
        manifest = decode(raw)
    except InvalidError:
        return []
    generated = (one for one in manifest.secrets.values() if not one.user_defined)
    if sum(one.type.is_certificate for one in generated) > MOST_COST:
        return []
    return _trials(manifest, keys, now, lambda _definition: True)


def _trials(
    manifest: Manifest,
    keys: CoordinatorKeys,
    now: datetime,
    building: Callable[[SecretDefinition], bool],
) -> list[Problem]:
    problems: list[Problem] = []
    for name, definition in sorted(manifest.secrets.items()):
        if len(problems) > MOST:
            break
        if definition.user_defined:
            problems += _initial_problems(name, definition)
        elif definition.type.is_certificate:
            built = building(definition)
            problems += trial(definition, name=name, keys=keys, now=now, building=built)
    return problems


def _initial_problems(name: str, definition: SecretDefinition) -> list[Problem]:
    """Return why the value that a manifest gives to a user-defined secret is invalid."""
    try:
        initial_secret(name, definition)
    except InvalidError as invalid:
        return [
            replace(problem, at=at("Secrets", name, _FIELDS.get(problem.at, problem.at)))
            for problem in invalid.problems
        ]
    return []


def initial_secret(name: str, definition: SecretDefinition) -> StoredSecret | None:
    """Return the value that a manifest gives to a user-defined secret; None without one.

    Raises:
        InvalidError: the value does not fit the definition.
    """
    if definition.private is None:
        return None
    if definition.type.is_certificate:
        upload = UserSecret(cert=definition.cert_der, private=definition.private)
    else:
        upload = UserSecret(key=definition.private)
    return import_secret(definition, upload, name=name)


_FIELDS = {"key": "Private", "private": "Private", "cert": "Cert", "public": "Public"}


def _merged(invalid: InvalidError, more: list[Problem]) -> InvalidError:
    """Return all problems; if a rule and the trial both found one at a place, that of the rule."""
    known = {problem.at for problem in invalid.problems}
    others = (found for found in more if found.at not in known)
    return InvalidError("the manifest", reported((*invalid.problems, *others)))
