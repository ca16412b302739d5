"""Invalid manifests. A coordinator without the check of manifests accepts them; users sign them."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from keyhouse.transparency.leaf import object_name
from support.evidence import Said
from support.forger.draft import Draft
from support.forger.kind import Forge, Kind

__all__ = ["MANIFESTS"]


def _changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    def changed(raw: bytes) -> bytes:
        document = json.loads(raw)
        change(document)
        return json.dumps(document).encode()

    return changed


def _config(**fields: Any) -> Callable[[bytes], bytes]:
    return _changed(lambda found: found["Config"].update(fields))


def _user(name: str, **fields: Any) -> Callable[[bytes], bytes]:
    return _changed(lambda found: found["Users"][name].update(fields))


def _role(name: str, **fields: Any) -> Callable[[bytes], bytes]:
    return _changed(lambda found: found["Roles"][name].update(fields))


def _before_end(text: bytes) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:-1] + text + b"}"


def _one_certificate(found: dict[str, Any]) -> None:
    found["Users"]["bob"]["Certificate"] = found["Users"]["alice"]["Certificate"]


def _one_more_user(found: dict[str, Any]) -> None:
    found["Users"]["dora"] = dict(found["Users"]["alice"])


_CHANGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "a section twice": _before_end(b', "Config": {"UpdateThreshold": 1}'),
    "a section twice, in other letters": _before_end(b', "CONFIG": {"UpdateThreshold": 1}'),
    "users twice": _before_end(b', "Users": {}'),
    "a field of the configuration twice": lambda raw: raw.replace(
        b'"UpdateThreshold":', b'"UpdateThreshold": 1, "UpdateThreshold":', 1
    ),
    "a field of the configuration twice, in other letters": lambda raw: raw.replace(
        b'"UpdateThreshold":', b'"updatethreshold": 1, "UpdateThreshold":', 1
    ),
    "a user twice": lambda raw: raw.replace(b'"Users": {', b'"Users": {"alice": {}, ', 1),
    "a role twice": lambda raw: raw.replace(b'"Roles": {', b'"Roles": {"admin": {}, ', 1),
    "a package twice": lambda raw: raw.replace(b'"Packages": {', b'"Packages": {"app": {}, ', 1),
    "one certificate of two users": _changed(_one_certificate),
    "a user more with the certificate of another": _changed(_one_more_user),
    "an unknown section": _before_end(b', "More": {}'),
    "an unknown field of a user": _user("alice", More=1),
    "an unknown field of a role": _role("admin", More=1),
    "an unknown field of the configuration": _config(More=1),
    "a threshold above the number of users": _config(UpdateThreshold=9),
    "a threshold below zero": _config(UpdateThreshold=-1),
    "a threshold that is a fraction": _config(UpdateThreshold=1.5),
    "a threshold that is a text": _config(UpdateThreshold="2"),
    "a threshold of recovery of one": _config(RecoveryThreshold=1),
    "a threshold of recovery above the holders": _config(RecoveryThreshold=9),
    "a user without a certificate": _user("alice", Certificate=""),
    "a certificate that is no certificate": _user(
        "alice",
        Certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ),
    "a certificate under another word": _changed(
        lambda found: found["Users"]["alice"].update(
            Certificate=found["Users"]["alice"]["Certificate"].replace("CERTIFICATE", "NOTHING")
        )
    ),
    "a role that does not exist": _user("alice", Roles=["king"]),
    "a role of an unknown type": _role("admin", ResourceType="Everything"),
    "an unknown action": _role("admin", Actions=["UpdateManifest", "Everything"]),
    "an action of another type": _role("admin", Actions=["WriteSecret"]),
    "names of manifests": _role("admin", ResourceNames=["note"]),
    "a role on a secret that does not exist": _role("write", ResourceNames=["other"]),
    "a role on a package that does not exist": _role("release", ResourceNames=["other"]),
    "a role that writes a generated secret": _role("write", ResourceNames=["note", "shared"]),
    "users that are a list": _changed(lambda found: found.update(Users=[])),
    "a list": lambda _: b"[]",
    "not JSON": lambda raw: raw[:-1],
    "two JSON values": lambda raw: raw + b" {}",
    "a byte that is not UTF-8": lambda raw: raw.replace(b"alice", b"alic\xff", 1),
    "nothing": lambda _: b"",
    "another name of the log": _changed(
        lambda found: found["Config"]["Transparency"].update(Origin="log.example.org/other")
    ),
}


def _of_first(change: Callable[[bytes], bytes]) -> Forge:
    """Return a forgery with a changed first manifest in the whole history."""

    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        leaf = draft.said[1]
        if leaf["kind"] != "manifest-set":
            return False
        return _replaced(draft, leaf["manifest"], change)

    return forge


def _of_update(change: Callable[[bytes], bytes]) -> Forge:
    """Return a forgery with a changed manifest of an update in the whole history."""

    def forge(draft: Draft, chance: Random) -> bool:
        new = [draft.said[each] for each in draft.of("manifest-updated")]
        new = [each for each in new if each["manifest"] != draft.said[1].get("manifest")]
        return bool(new) and _replaced(draft, chance.choice(new)["manifest"], change)

    return forge


def _replaced(draft: Draft, name: str, change: Callable[[bytes], bytes]) -> bool:
    """Replace a manifest in all leaves; everybody signs the new manifest."""
    raw = change(draft.objects[name])
    if raw == draft.objects[name]:
        return False
    new = object_name(raw)
    draft.objects[new] = raw
    for place, leaf in enumerate(draft.said):
        draft.said[place] = _renamed(leaf, name, new)
    return True


def _renamed(leaf: Said, old: str, new: str) -> Said:
    return {field: new if value == old else value for field, value in leaf.items()}


MANIFESTS: Final = [
    *(
        Kind(f"first manifest: {name}", "coordinator", _of_first(change))
        for name, change in _CHANGES.items()
    ),
    *(
        Kind(f"new manifest: {name}", "coordinator", _of_update(change))
        for name, change in _CHANGES.items()
    ),
]
