"""Files with omitted parts. An omission needs no key: any holder of the file can make it."""

from random import Random
from typing import Final

from msgspec.structs import replace

from keyhouse.evidence.bundle import Entry, Evidence, Hidden
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tree import leaf_hash
from support.evidence import Maker
from support.forger.draft import Draft
from support.forger.kind import Forge, Kind

__all__ = ["OMISSIONS"]

_KINDS: Final = (
    *("log-begun", "manifest-set", "started", "recovered", "update-proposed", "update-approved"),
    *("update-cancelled", "manifest-updated", "packages-updated", "secrets-uploaded", "anchor"),
)


def _hidden(kind: str) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        places = draft.of(kind)
        if not places:
            return False
        place = chance.choice(places)

        def hide(_maker: Maker, found: Evidence) -> Evidence:
            entries: list[Entry] = list(found.entries)
            entry = entries[place]
            assert isinstance(entry, bytes)
            entries[place] = Hidden(leaf_hash(entry))
            return replace(found, entries=tuple(entries))

        draft.changes.append(hide)
        return True

    return forge


def _cut(kind: str) -> Forge:
    """Return a forgery: remove an entry, and keep all signatures."""

    def forge(draft: Draft, chance: Random) -> bool:
        places = draft.of(kind)
        if not places:
            return False
        place = chance.choice(places)
        draft.changes.append(
            lambda _, found: replace(
                found, entries=(*found.entries[:place], *found.entries[place + 1 :])
            )
        )
        return True

    return forge


def _lost(what: str) -> Forge:
    """Return a forgery: delete an object named by a leaf. The first bytes identify the object."""
    begins = {"approval": b'{"payload"', "quote": b"\3\0", "update": b'{"Packages": {"app": {"Sec'}

    def forge(draft: Draft, chance: Random) -> bool:
        def lose(_maker: Maker, found: Evidence) -> Evidence:
            names = [
                name for name, raw in sorted(found.objects.items()) if raw.startswith(begins[what])
            ]
            if what == "update":
                names = [each for each in names if b"Users" not in found.objects[each]]
            gone = chance.choice(names)
            return replace(
                found, objects={name: raw for name, raw in found.objects.items() if name != gone}
            )

        needed = {"approval": ("update-proposed", "packages-updated"), "quote": ("started",)}
        draft.changes.append(lose)
        return bool(draft.of(*needed.get(what, ("packages-updated",))))

    return forge


def _lost_manifest(kind: str) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        places = draft.of(kind)
        if not places:
            return False
        draft.lost.add(draft.said[chance.choice(places)]["manifest"])
        return True

    return forge


def _lost_collateral(draft: Draft, chance: Random) -> bool:
    del chance
    draft.changes.append(_without_collateral)
    return True


def _without_collateral(maker: Maker, found: Evidence) -> Evidence:
    gone = object_name(maker.collateral)
    return replace(
        found, objects={name: raw for name, raw in found.objects.items() if name != gone}
    )


OMISSIONS: Final = [
    *(Kind(f"omission: {kind} is hidden", "nobody", _hidden(kind)) for kind in _KINDS),
    *(Kind(f"omission: {kind} is cut out", "nobody", _cut(kind)) for kind in _KINDS),
    *(
        Kind(f"omission: {what} is deleted", "nobody", _lost(what))
        for what in ("approval", "quote", "update")
    ),
    *(
        Kind(f"omission: manifest of {kind} is deleted", "nobody", _lost_manifest(kind))
        for kind in ("manifest-set", "update-proposed", "manifest-updated")
    ),
    Kind("omission: collateral is deleted", "nobody", _lost_collateral),
]
