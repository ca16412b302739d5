"""Describes the differences between two manifests for people."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from keyhouse.base.printable import at, quoted
from keyhouse.coordinator.update.changes.secrets import upload_may_be_lost
from keyhouse.manifest import Manifest
from keyhouse.manifest.diff import Change
from keyhouse.views.changes import Sign, SignedChange, Summary

_SIGNS: Final[dict[str, Sign]] = {"added": "+", "removed": "-", "changed": "~"}
# Characters of a value in a sentence.
_LONGEST: Final = 200


def signed(change: Change) -> Iterator[SignedChange]:
    """Yield ``change`` with its sign. For a new element, also yield each of its fields."""
    where = at(*filter(None, (change.name,)), *change.field)
    text, sign = _words(where, change), _SIGNS[change.kind]
    if change.kind == "added" and not change.field and isinstance(change.new, dict):
        yield SignedChange(change.section, sign, where)
        for field, value in change.new.items():
            yield SignedChange(change.section, sign, f"{at(change.name, field)}: {_short(value)}")
        return
    yield SignedChange(change.section, sign, text)


def summary(changes: Sequence[Change]) -> Summary:
    """Count the added, removed and changed elements among the differences of two manifests."""
    whole = {(each.section, each.name): each.kind for each in changes if not each.field}
    kinds = [*whole.values()]
    others = {(each.section, each.name) for each in changes} - whole.keys()
    changed = kinds.count("changed") + len(others)
    return Summary(kinds.count("added"), kinds.count("removed"), changed)


def losses(before: Manifest, after: Manifest) -> list[str]:
    """Return sentences about values that an update from ``before`` to ``after`` may lose."""
    return [
        f"secret {quoted(name)}: an uploaded value is lost by an update to this manifest"
        for name in upload_may_be_lost(before, after)
    ]


def _words(where: str, change: Change) -> str:
    if isinstance(change.old, list) and isinstance(change.new, list):
        removed = [f"- {_short(item)}" for item in change.old if item not in change.new]
        added = [f"+ {_short(item)}" for item in change.new if item not in change.old]
        return f"{where}: {', '.join(removed + added) or 'in another order'}"
    if change.kind == "added":
        return f"{where}: {_short(change.new)}"
    if change.kind == "removed":
        return f"{where}: {_short(change.old)}" if change.field else where
    return f"{where}: {_short(change.old)} -> {_short(change.new)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
