"""The full check of a manifest: its rules, and a trial of issuing its certificates."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from keyhouse.authority import CoordinatorKeys, StoredSecret, import_secret, trial
from keyhouse.base.errors import MOST, InvalidError, Problem, reported
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

    The check covers all templates. It also issues certificates on trial under the intermediate CA
    in ``keys``. A certificate must not have the names of the coordinator. ``building`` is called
    with the definition of a certificate. The result False means: the caller issues the certificate
    right afterwards, so no trial is necessary.
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
    """Return the problems of the trial; none if the manifest cannot be decoded.

    A manifest with too many generated certificates gets no trial. The rules refuse such a manifest,
    and an attacker must not make the coordinator issue that number.
    """
    try:
        manifest = decode(raw)
    except InvalidError:
        return []
    generated = (
        definition for definition in manifest.secrets.values() if not definition.user_defined
    )
    if sum(definition.type.is_certificate for definition in generated) > MOST_COST:
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
            is_tried = building(definition)
            problems += trial(definition, name=name, keys=keys, now=now, building=is_tried)
    return problems


def _initial_problems(name: str, definition: SecretDefinition) -> list[Problem]:
    """Return the problems of the first value of the user-defined secret ``name``.

    The manifest gives this value in ``definition``.
    """
    try:
        initial_secret(name, definition)
    except InvalidError as invalid:
        return [
            replace(problem, at=at("Secrets", name, _FIELDS.get(problem.at, problem.at)))
            for problem in invalid.problems
        ]
    return []


def initial_secret(name: str, definition: SecretDefinition) -> StoredSecret | None:
    """Return the value that a manifest gives to a user-defined secret; None without a value.

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
    """Return the problems of the rules (``invalid``) and of the trial (``more``) as one error.

    At a place in the manifest with two problems, the problem of the rules wins.
    """
    known = {problem.at for problem in invalid.problems}
    further = (found for found in more if found.at not in known)
    return InvalidError("the manifest", reported((*invalid.problems, *further)))
