"""Apply the changes of a mutating policy to an object, as the API server applies them.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/,
https://kubernetes.io/docs/reference/using-api/server-side-apply/, "Merge strategy", and RFC 6902.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from keyhouse.base.errors import BrokenError

Object = dict[str, Any]

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumeMounts": "mountPath",
}
"""The member that identifies the items of a list.

Source: ``x-kubernetes-list-map-keys`` in the OpenAPI document of Kubernetes.
"""


class ChangeError(BrokenError):
    """A policy makes a change that the webhook does not know."""


def apply_configuration(target: Mapping[str, Any], change: Mapping[str, Any]) -> Object:
    """Return the object ``target`` with the members of ``change``, an apply configuration.

    Objects are merged. Lists are merged by the key of their items, such as ``name``. Raises
    ``ChangeError`` for a list without such a key.
    """
    made = dict(target)
    for name, value in change.items():
        before = made.get(name)
        if isinstance(value, Mapping):
            made[name] = apply_configuration(before or {}, value)
        elif isinstance(value, list):
            made[name] = _merge_list(name, before or [], value)
        else:
            made[name] = value
    return made


def _merge_list(name: str, before: Sequence[Any], change: Sequence[Any]) -> list[Any]:
    if name not in _KEYS:
        raise ChangeError(
            f"the policy of the chart merges the list {name}, whose elements have no key;"
            " expected a JSONPatch"
        )
    key = _KEYS[name]
    changes = {each[key]: each for each in change}
    kept = [
        apply_configuration(each, changes.pop(each[key])) if each[key] in changes else each
        for each in before
    ]
    return [*kept, *changes.values()]


def apply_patch(target: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> Object:
    """Return the object ``target`` after ``operations``, the operations of a JSON patch.

    Raises ``ChangeError`` for an operation other than ``add``.
    """
    made: Object = copy.deepcopy(dict(target))
    for each in operations:
        *parents, last = _unescaped(each["path"])
        place: Any = made
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if each["op"] != "add" or not isinstance(place, dict | list):
            raise ChangeError(
                f"the policy of the chart makes the change {each['op']} {each['path']}, which the"
                " webhook does not support"
            )
        if isinstance(place, dict):
            place[last] = each["value"]
        else:
            place.insert(len(place) if last == "-" else int(last), each["value"])
    return made


def _unescaped(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Object]:
    """Return a JSON patch that changes the object ``before`` into ``after``.

    The function compares the members, and the members of these members. A deeper difference
    replaces the whole member of the second level, because ``add`` also replaces a present member.
    A member that is missing in ``after`` stays: no change of a policy removes a member.
    """
    made: list[Object] = []
    for part, inner in after.items():
        if before.get(part) == inner:
            continue
        if not isinstance(inner, Mapping) or part not in before:
            made.append({"op": "add", "path": f"/{part}", "value": inner})
            continue
        made += [
            {"op": "add", "path": f"/{part}/{name}", "value": value}
            for name, value in inner.items()
            if before[part].get(name) != value
        ]
    return made
