"""Indexes of a manifest, for fast answers: permissions of users, and templates that read a secret.

The identity of a user is an exact certificate, and names are exact. Users have no permission by
default.
"""

from collections.abc import Iterable, Iterator

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.printable import Place, at, quoted
from keyhouse.manifest.model import Action, EncodedContent, Manifest
from keyhouse.manifest.templates import (
    SecretValue,
    Template,
    TemplateCall,
    TemplateSource,
    member_bytes,
    parse,
)


class Permissions:
    """The permissions of a manifest's users, prepared for fast answers about a user.

    Users with the same role refer to the same set of resource names. So memory and preparation grow
    with the size of the manifest. The time of an answer depends on the requested names, and on the
    roles of this user.
    """

    __slots__ = ("_granted", "_users")

    def __init__(self, manifest: Manifest) -> None:
        # Keys are the exact bytes. Certificates are public, so the time of a look-up reveals
        # nothing. Python's hash of bytes is keyed, so nobody can construct colliding certificates.
        self._users = {user.certificate: name for name, user in manifest.users.items()}
        names = {name: frozenset(role.resource_names) for name, role in manifest.roles.items()}
        self._granted: dict[str, dict[Action, list[frozenset[str]]]] = {}
        for user_name, user in manifest.users.items():
            granted = self._granted[user_name] = {}
            for role in dict.fromkeys(user.roles):
                for action in set(manifest.roles[role].actions):
                    granted.setdefault(action, []).append(names[role])

    def find_user(self, certificate: bytes) -> str | None:
        """Return the name of the user with exactly this certificate (DER), or None.

        ``certificate``: the leaf certificate of the client's connection.
        """
        return self._users.get(certificate)

    def allows(self, user: str, action: Action, resources: Iterable[str] = ()) -> bool:
        """Return whether ``user`` has the permission for ``action`` on each of ``resources``.

        Without resources, return whether a role of the user permits the action at all. Callers
        check ``UpdateManifest`` in this way, because this action has no resource names.
        """
        return action in self._granted.get(user, {}) and not self.refused(user, action, resources)

    def refused(self, user: str, action: Action, resources: Iterable[str]) -> tuple[str, ...]:
        """Return the names in ``resources`` for which ``user`` lacks ``action``, sorted."""
        missing = set(resources)
        for names in self._granted.get(user, {}).get(action, ()):
            missing -= names
        return tuple(sorted(missing))

    def holders(self, action: Action) -> tuple[str, ...]:
        """Return the names of users with a role that permits ``action``, sorted."""
        return tuple(sorted(name for name, granted in self._granted.items() if action in granted))


class MarbleTemplates(msgspec.Struct, frozen=True):
    """The parsed ``Files`` and ``Env`` of one marble type."""

    files: dict[str, Template]
    env: dict[str, Template]

    def names(self, source: TemplateSource) -> frozenset[str]:
        """Return the names of the values that these templates use, from ``source`` alone."""
        templates = (*self.files.values(), *self.env.values())
        return frozenset(
            call.name for template in templates for call in template.calls if call.source is source
        )


class TemplateIndex(msgspec.Struct, frozen=True):
    """The templates of all marble types, and for each secret the calls in templates that use it.

    ``marbles``: templates by marble type. ``readers``: by secret, each call with its place in the
    manifest.
    """

    marbles: dict[str, MarbleTemplates]
    readers: dict[str, dict[TemplateCall, Place]]  # the first place of equal calls

    def check_upload(self, name: str, value: SecretValue) -> tuple[Problem, ...]:
        """Return the problems that templates would have with ``value`` as the secret ``name``.

        The place of each problem is ``secrets.<name>``. The check includes templates that read
        ``name`` by ``.Previous.Secrets``.
        """
        readers = self.readers.get(name)
        if not readers:
            return ()
        problems = []
        for call, where in readers.items():
            content = member_bytes(value, call.member)
            if not content:
                what = _MEMBERS.get(call.member, "value")
                problems.append(_refused(name, f"has no {what}", where))
            elif call.function == "string" and 0 in content:
                problems.append(_refused(name, "holds a zero byte", where))
        return tuple(sorted(set(problems)))


_MEMBERS = {"Cert": "certificate", "Public": "public key", "Private": "private key"}


def index_templates(manifest: Manifest) -> TemplateIndex:
    """Return the index of all templates of ``manifest``, which must have passed the check.

    Marble types are processed in sorted order, so the first place of a call is always the same.
    Raises ``BadRequestError`` for an invalid template.
    """
    parsed: dict[bytes, Template] = {}  # many marbles have equal templates
    marbles = {name: _marble(manifest, name, parsed) for name in sorted(manifest.marbles)}
    readers: dict[str, dict[TemplateCall, Place]] = {}
    for call, where in _calls(marbles):
        if call.source is not TemplateSource.MARBLERUN:
            readers.setdefault(call.name, {}).setdefault(call, where)
    return TemplateIndex(marbles, readers)


def _marble(manifest: Manifest, name: str, parsed: dict[bytes, Template]) -> MarbleTemplates:
    parameters = manifest.marbles[name].parameters
    return MarbleTemplates(
        files={path: _template(entry, parsed) for path, entry in sorted(parameters.files.items())},
        env={name: _template(entry, parsed) for name, entry in sorted(parameters.env.items())},
    )


def _template(entry: EncodedContent, parsed: dict[bytes, Template]) -> Template:
    if entry.no_templates:
        return Template((entry.data,) if entry.data else ())
    template = parsed.get(entry.data)
    if template is None:
        template = parsed[entry.data] = parse(entry.data)
    return template


def _calls(marbles: dict[str, MarbleTemplates]) -> Iterator[tuple[TemplateCall, Place]]:
    for marble, templates in marbles.items():
        for section, members in (("Files", templates.files), ("Env", templates.env)):
            for name, template in members.items():
                for call in template.calls:
                    yield call, ("Marbles", marble, "Parameters", section, name)


def _refused(name: str, problem: str, where: Place) -> Problem:
    return Problem(
        at("secrets", name),
        f"{problem}, but {at(*where)} reads it",
        f"upload {quoted(name)} with this part, and without zero bytes for the function string",
    )
