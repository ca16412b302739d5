"""Leaves with a false value, by the holder of the coordinator's keys."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from support.evidence import Said
from support.forger.draft import Draft
from support.forger.honest import certificate_of
from support.forger.kind import Kind, at_a_leaf

__all__ = ["LEAVES"]

Change = Callable[[Draft, int, Said, Random], Any]
_OTHER: Final = "0" * 64
_BIG: Final = str(2**64)
_EVERY: Final = (
    *("log-begun", "manifest-set", "started", "recovered", "update-proposed", "update-approved"),
    *("update-cancelled", "manifest-updated", "packages-updated", "secrets-uploaded", "anchor"),
)
_DECIDED: Final = ("update-proposed", "update-approved", "update-cancelled", "packages-updated")


def _set(**fields: Any) -> Change:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        before = copy.deepcopy(leaf)
        leaf.update(fields)
        return leaf != before

    return change


def _plus(name: str, more: int) -> Change:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        leaf[name] += more
        return bool(leaf[name] >= 0)

    return change


def _first_upload(place: int, value: Any) -> Change:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["uploads"] = copy.deepcopy(leaf["uploads"])
        leaf["uploads"][0][place] = value

    return change


def _earlier(_draft: Draft, place: int, leaf: Said, _chance: Random) -> bool:
    leaf["time"] = _draft.said[place - 1]["time"] - 1 if place else 0
    return place > 0


def _at_back(draft: Draft, place: int, leaf: Said, _chance: Random) -> bool:
    before = [each["at"] for each in draft.said[:place] if each.get("at")]
    if not before or leaf["kind"] == "recovered":
        return False
    previous = draft.said[place - 1]
    if previous["kind"] == "recovered":
        return False
    leaf["at"] = before[-1]
    return True


def _instance_again(draft: Draft, place: int, leaf: Said, _chance: Random) -> bool:
    before = [each["instance"] for each in draft.said[:place] if each["kind"] == "started"]
    leaf["instance"] = before[0] if before else ""
    return bool(before)


def _by_other(name: str) -> Change:
    """Return a change: the user ``name`` decides and signs."""

    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
        if not leaf["user"]:
            return False
        leaf.update(user=name, certificate=certificate_of(name))
        return True

    return change


def _lowered(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
    leaf["versions"] = [["app", "0"]]
    return True


def _flip_public(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> bool:
    leaf["public"] = False
    return True


def _holder_twice(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
    leaf["holders"] = [leaf["holders"][0]] * 2


def _without_field(_draft: Draft, _place: int, leaf: Said, chance: Random) -> None:
    optional = {"public", "quote", "approval", "intermediate", "manifest"}
    names = [each for each in sorted(leaf) if each not in optional and not each.startswith("_")]
    name = chance.choice([each for each in names if each not in {"kind", "time", "user"}])
    leaf["_raw"] = lambda raw, name=name: _less(raw, name)


def _less(raw: bytes, name: str) -> bytes:
    said = json.loads(raw)
    said.pop(name, None)
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _raw(change: Callable[[bytes], bytes]) -> Change:
    def changed(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["_raw"] = change

    return changed


_PREVIOUS: Final = {"origin": "a", "size": 1, "root": _OTHER, "reason": "lost"}

_CHANGES: Final[dict[tuple[str, str], Change]] = {
    ("log-begun", "another origin"): _set(origin="log.example.org/other"),
    ("log-begun", "another root"): _set(root=_OTHER),
    ("log-begun", "another key"): _set(key="a+00000000+AAAA"),
    ("log-begun", "another platform"): _set(platform="sgx"),
    ("log-begun", "a log before"): _set(previous=_PREVIOUS),
    ("log-begun", "lines that are missing"): _set(imported=_OTHER),
    ("log-begun", "a manifest in force"): _set(manifest=_OTHER, intermediate=_OTHER, public=False),
    ("manifest-set", "another manifest"): _set(manifest=_OTHER, public=True),
    ("manifest-set", "another manifest that is not public"): _set(manifest=_OTHER, public=False),
    ("manifest-set", "not public"): _flip_public,
    ("manifest-set", "other holders"): _set(recovery={"holders": 9, "threshold": 2}),
    ("manifest-set", "a threshold of 0"): _set(recovery={"holders": 3, "threshold": 0}),
    ("manifest-updated", "another base"): _set(base=_OTHER),
    ("manifest-updated", "another manifest"): _set(manifest=_OTHER, public=True),
    ("manifest-updated", "another manifest that is not public"): _set(
        manifest=_OTHER, public=False
    ),
    ("manifest-updated", "not public"): _flip_public,
    ("manifest-updated", "other holders"): _set(recovery={"holders": 9, "threshold": 2}),
    ("started", "a position that runs back"): _at_back,
    ("started", "an instance again"): _instance_again,
    ("started", "another platform"): _set(platform="tdx"),
    ("started", "other code"): _set(unique="4f" * 32),
    ("started", "another signer"): _set(signer="4f" * 32),
    ("started", "another product"): _set(product=3),
    ("started", "a lower version"): _set(svn=0),
    ("started", "no code"): _set(unique="", signer="", product=0, svn=0),
    ("started", "no quote"): _set(quote=""),
    ("started", "no collateral"): _set(collateral=""),
    ("started", "a quote that is missing"): _set(quote=_OTHER),
    ("started", "collateral that is missing"): _set(collateral=_OTHER),
    ("started", "other code and no quote"): _set(unique="4f" * 32, quote=""),
    ("started", "other code and a missing quote"): _set(unique="4f" * 32, quote=_OTHER),
    ("started", "other code and no collateral"): _set(unique="4f" * 32, collateral=""),
    ("started", "no code and no quote"): _set(unique="", signer="", product=0, svn=0, quote=""),
    ("recovered", "nobody"): _set(holders=[]),
    ("recovered", "strangers"): _set(holders=["mallory", "eve"]),
    ("recovered", "too few"): _set(holders=["rk0"]),
    ("recovered", "one twice"): _holder_twice,
    ("recovered", "another position"): _set(at=f"1.99.{_OTHER}"),
    ("recovered", "no position"): _set(at=""),
    ("update-proposed", "nobody has to agree"): _set(needed=0),
    ("update-proposed", "one more has to agree"): _plus("needed", 1),
    ("update-proposed", "one less has to agree"): _plus("needed", -1),
    ("update-proposed", "very many have to agree"): _set(needed=2**53 - 1),
    ("update-proposed", "another base"): _set(base=_OTHER),
    ("update-proposed", "a missing manifest"): _set(manifest=_OTHER, public=True),
    ("update-proposed", "a manifest that is not public"): _set(manifest=_OTHER, public=False),
    ("update-proposed", "not public"): _flip_public,
    ("update-approved", "another manifest"): _set(manifest=_OTHER),
    ("update-approved", "one more missing"): _plus("missing", 1),
    ("update-approved", "one less missing"): _plus("missing", -1),
    ("update-cancelled", "another manifest"): _set(manifest=_OTHER),
    ("update-cancelled", "by nobody"): _set(user="", certificate="", approval=""),
    ("update-cancelled", "by nobody with an approval"): _set(
        user="", certificate="", _signer="alice"
    ),
    ("update-cancelled", "by nobody with a missing approval"): _set(
        user="", certificate="", approval=_OTHER
    ),
    ("packages-updated", "another base"): _set(base=_OTHER),
    ("packages-updated", "no package"): _set(versions=[]),
    ("packages-updated", "a lower version"): _lowered,
    ("packages-updated", "a version of 65 bits"): _set(versions=[["app", _BIG]]),
    ("packages-updated", "the largest version"): _set(versions=[["app", str(2**64 - 1)]]),
    ("packages-updated", "an unknown package"): _set(versions=[["other", "9"]]),
    ("packages-updated", "a package twice"): _set(versions=[["app", "8"], ["app", "9"]]),
    ("packages-updated", "a version with a zero in front"): _set(versions=[["app", "09"]]),
    ("packages-updated", "a secret"): _set(versions=[["note", "9"]]),
    ("packages-updated", "one package more"): _set(versions=[["app", "9"], ["other", "9"]]),
    ("secrets-uploaded", "no upload"): _set(uploads=[]),
    ("secrets-uploaded", "no name"): _first_upload(2, []),
    ("secrets-uploaded", "another name"): _first_upload(2, ["shared"]),
    ("secrets-uploaded", "a name more"): _first_upload(2, ["note", "shared"]),
    ("secrets-uploaded", "a stranger"): _first_upload(0, "mallory"),
    ("secrets-uploaded", "a user without the right"): _first_upload(0, "alice"),
    ("secrets-uploaded", "another certificate"): _first_upload(1, _OTHER),
    ("secrets-uploaded", "the certificate of another"): _first_upload(1, certificate_of("alice")),
    ("anchor", "a position that runs back"): _at_back,
    ("anchor", "no position"): _set(at=""),
    ("anchor", "a nonce of 15 bytes"): _set(nonce="0" * 30),
    **{(kind, "of a stranger"): _by_other("mallory") for kind in _DECIDED},
    **{(kind, "of a writer"): _by_other("writer") for kind in _DECIDED},
    **{(kind, "of a name in other letters"): _set(user="ALICE") for kind in _DECIDED},
    **{(kind, "with another certificate"): _set(certificate=_OTHER) for kind in _DECIDED},
    **{
        (kind, "with the certificate of another"): _set(certificate=certificate_of("writer"))
        for kind in _DECIDED
    },
    **{(kind, "of a releaser"): _by_other("releaser") for kind in _DECIDED[:3]},
    **{(kind, "at an earlier time"): _earlier for kind in _EVERY[1:]},
    **{(kind, "of version 2"): _set(v=2) for kind in _EVERY},
    **{(kind, "with an unknown field"): _set(more=1) for kind in _EVERY},
    **{(kind, "without a field"): _without_field for kind in _EVERY},
    **{(kind, "with a space"): _raw(lambda raw: raw.replace(b":", b": ", 1)) for kind in _EVERY},
    **{(kind, "with a newline"): _raw(lambda raw: raw + b"\n") for kind in _EVERY},
    **{
        (kind, "with a field twice"): _raw(lambda raw: raw[:-1] + b',"v":1}') for kind in _EVERY
    },
    **{
        (kind, "with a time as text"): _raw(lambda raw: raw.replace(b'"time":', b'"time":"",', 1))
        for kind in _EVERY
    },
    **{
        (kind, "with a time in the next century"): _set(time=2**53 - 1) for kind in _EVERY[-2:]
    },
}  # fmt: skip

LEAVES: Final = [
    Kind(f"{kind}: {name}", "coordinator", at_a_leaf((kind,), change))
    for (kind, name), change in _CHANGES.items()
]
