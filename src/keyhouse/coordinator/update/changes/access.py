"""Changes of users and roles, with the gained and lost rights of each user."""

from collections.abc import Iterator
from typing import Final

from keyhouse.base.errors import TooLargeError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.update.compare import (
    as_text,
    change,
    differing,
    fields_that_differ,
    listed,
)
from keyhouse.manifest import Action, Manifest, ResourceType, User
from keyhouse.wire.plan import Effect, PlanChange

RIGHTS: Final = 16 * 1024 * 1024
"""Maximum of characters in the resource names of all roles of changed users.

Users and roles multiply, so a small manifest could otherwise fill the memory.
"""

Rights = dict[tuple[ResourceType, Action], set[str]]
"""Rights of a user, each with the names of the resources; empty for the whole manifest."""


def user_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the added, removed and changed users, with the gained and lost rights of each.

    Raises:
        TooLargeError: users and roles have too many combinations.
    """
    roles = {name for name, _, _ in differing(old.roles, new.roles)}
    sizes, new_sizes = _sizes(old), _sizes(new)
    characters_left = RIGHTS
    for name in sorted(old.users.keys() | new.users.keys()):
        before, after = old.users.get(name), new.users.get(name)
        if before == after and after is not None and roles.isdisjoint(after.roles):
            continue
        characters_left -= sum(sizes[role] for role in (before.roles if before else ()))
        characters_left -= sum(new_sizes[role] for role in (after.roles if after else ()))
        if characters_left < 0:
            raise TooLargeError(
                "the plan is too large: the manifests combine too many users and roles",
                hint="update without a plan, or in smaller steps",
            )
        yield from _user(name, before, after)
        yield from _right_changes(name, rights_of(old, before), rights_of(new, after))


def _user(name: str, before: User | None, after: User | None) -> Iterator[PlanChange]:
    if before is None:
        yield change("Users", Effect.USER_ADDED, name, f"user {quoted(name)} is added")
    elif after is None:
        text = f"user {quoted(name)} is removed, and out with the next request"
        yield change("Users", Effect.USER_REMOVED, name, text)
    else:
        for field, was, becomes in fields_that_differ(before, after):
            if field == "Certificate":
                text = f"user {quoted(name)} has another certificate: the old one is nobody's"
                yield change("Users", Effect.USER_CHANGED, name, text, field=field)
            else:
                text = f"user {quoted(name)}: roles from {_roles(was)} to {_roles(becomes)}"
                yield change(
                    "Users", Effect.USER_CHANGED, name, text, field=field, before=was, after=becomes
                )


def _roles(names: tuple[str, ...]) -> str:
    return listed(names) or "none"


def _sizes(manifest: Manifest) -> dict[str, int]:
    return {
        name: 1 + sum(1 + len(each) for each in role.resource_names)
        for name, role in manifest.roles.items()
    }


def rights_of(manifest: Manifest, user: User | None) -> Rights:
    """Return each right of ``user``, with the names of its resources.

    The names are empty for a right on the whole manifest.
    """
    granted: Rights = {}
    for name in user.roles if user else ():
        role = manifest.roles[name]
        for action in role.actions:
            granted.setdefault((role.resource_type, action), set()).update(role.resource_names)
    return {
        right: names
        for right, names in granted.items()
        if names or right[0] is ResourceType.MANIFEST
    }


def _right_changes(user: str, before: Rights, after: Rights) -> Iterator[PlanChange]:
    for right in sorted(before.keys() | after.keys()):
        for what, has, had in (
            (Effect.RIGHT_GAINED, after.get(right), before.get(right)),
            (Effect.RIGHT_LOST, before.get(right), after.get(right)),
        ):
            if has is None or (had is not None and has <= had):
                continue
            names = tuple(sorted(has - (had or set())))
            yield _right(what, user, right, names)


def _right(
    what: Effect, user: str, right: tuple[ResourceType, Action], names: tuple[str, ...]
) -> PlanChange:
    resource, action = right
    verb = "gains" if what is Effect.RIGHT_GAINED else "loses"
    on = f" on {listed(names)}" if names else ""
    text = f"user {quoted(user)} {verb} {action}{on}"
    return change("Users", what, user, text, field=action, after=resource, names=names)


def role_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changed roles. ``user_changes`` yields the gained and lost rights."""
    for name, before, after in differing(old.roles, new.roles):
        if before is None:
            yield change("Roles", Effect.ROLE_ADDED, name, f"role {quoted(name)} is added")
        elif after is None:
            yield change("Roles", Effect.ROLE_REMOVED, name, f"role {quoted(name)} is removed")
        else:
            for field, was, becomes in fields_that_differ(before, after):
                text = f"role {quoted(name)}: {_in_words(field, was, becomes)}"
                yield change("Roles", Effect.ROLE_CHANGED, name, text, field=field)


def _in_words(field: str, was: object, becomes: object) -> str:
    """Return the change of a field as text; for a list, the added and the removed items."""
    if not (isinstance(was, tuple) and isinstance(becomes, tuple)):
        return f"{field} from {as_text(was)} to {as_text(becomes)}"
    new, removed = sorted(set(becomes) - set(was)), sorted(set(was) - set(becomes))
    parts = [f"with {listed(tuple(new))}"] if new else []
    parts += [f"without {listed(tuple(removed))}"] if removed else []
    return f"{field} {' and '.join(parts)}" if parts else f"{field} in another order"
