"""False files: their certificates, keys, objects and encoding."""

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from keyhouse.authority import make_coordinator_keys, sign_log_key
from keyhouse.evidence.bundle import CertifiedLogKey, Evidence
from support.evidence import BEGUN, Maker
from support.evidence_damage import changed
from support.forger.draft import Draft
from support.forger.kind import Forge, Kind

__all__ = ["FILES"]

_OTHERS: Final = make_coordinator_keys(
    dns_names=("localhost",), ip_addresses=(), curve="P-256", now=BEGUN, simulated=True
)


def _evidence(change: Callable[[Maker, Evidence], Evidence]) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        draft.changes.append(change)
        return True

    return forge


def _with(**fields: Any) -> Forge:
    return _evidence(lambda _, found: replace(found, **fields))


def _bytes(change: Callable[[bytes], bytes]) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        draft.rewrites.append(change)
        return True

    return forge


def _document(change: Callable[[dict[str, Any]], Any]) -> Forge:
    return _bytes(lambda raw: changed(raw, change))


def _key_by_other(maker: Maker, found: Evidence) -> Evidence:
    return replace(
        found, log=CertifiedLogKey(str(maker.key), sign_log_key(_OTHERS, str(maker.key)))
    )


def _under_other(maker: Maker, found: Evidence) -> Evidence:
    del maker
    key = found.log.key
    return replace(
        found, root=_OTHERS.root_cert, log=CertifiedLogKey(key, sign_log_key(_OTHERS, key))
    )


def _other_object(found: dict[str, Any]) -> None:
    name = min(found["objects"])
    found["objects"][name] = "AAAA"


def _upper(found: dict[str, Any]) -> None:
    found["objects"] = {name.upper(): raw for name, raw in found["objects"].items()}


_FORGERIES: Final[dict[str, tuple[str, Forge]]] = {
    "another root": ("coordinator", _evidence(_under_other)),
    "a root that is the intermediate": (
        "nobody", _evidence(lambda _, found: replace(found, root=found.intermediate)),
    ),
    "an intermediate of another root": ("nobody", _with(intermediate=_OTHERS.intermediate_cert)),
    "an intermediate that is the root": (
        "nobody", _evidence(lambda _, found: replace(found, intermediate=found.root)),
    ),
    "an intermediate that is no certificate": ("nobody", _with(intermediate=b"0")),
    "a log key that another root signed": ("nobody", _evidence(_key_by_other)),
    "a log key that nobody signed": (
        "nobody",
        _evidence(lambda maker, found: replace(found, log=CertifiedLogKey(str(maker.key), b"0"))),
    ),
    "a log key of another name": ("nobody", _with(origin="log.example.org/other")),
    "a log key that is no key": ("nobody", _with(log=CertifiedLogKey("a", b"0"))),
    "no entries": ("nobody", _with(entries=())),
    "an entry more": (
        "nobody",
        _evidence(lambda _, found: replace(found, entries=(*found.entries, found.entries[-1]))),
    ),
    "entries in another order": (
        "nobody", _evidence(lambda _, found: replace(found, entries=found.entries[::-1])),
    ),
    "an entry that is changed": (
        "nobody",
        _evidence(lambda _, found: replace(found, entries=(b"{}", *found.entries[1:]))),
    ),
    "no objects": ("nobody", _with(objects={})),
    "an object of another name": ("nobody", _document(_other_object)),
    "names of objects in capital letters": ("nobody", _document(_upper)),
    "a space": ("nobody", _bytes(lambda raw: raw.replace(b":", b": ", 1))),
    "no newline": ("nobody", _bytes(lambda raw: raw[:-1])),
    "two newlines": ("nobody", _bytes(lambda raw: raw + b"\n")),
    "a byte order mark": ("nobody", _bytes(lambda raw: b"\xef\xbb\xbf" + raw)),
    "another order of fields": (
        "nobody",
        _bytes(
            lambda raw: json.dumps(
                dict(reversed(json.loads(raw).items())), separators=(",", ":")
            ).encode()
            + b"\n"
        ),
    ),
    "a field twice": ("nobody", _bytes(lambda raw: b'{"made":1,' + raw[1:])),
    "an unknown field": ("nobody", _document(lambda found: found.update(more=1))),
    "a field less": ("nobody", _document(lambda found: found.pop("made"))),
    "another version": (
        "nobody",
        _document(
            lambda found: found.update(mediaType="application/vnd.keyhouse.evidence.v2+json")
        ),
    ),
    "a disclosure": ("nobody", _document(lambda found: found.update(disclosures=[{}]))),
    "a time below zero": ("nobody", _document(lambda found: found.update(made=-1))),
    "an escaped letter": ("nobody", _bytes(lambda raw: raw.replace(b"made", b"\\u006dade", 1))),
    "two files": ("nobody", _bytes(lambda raw: raw + raw)),
    "two gzip members": ("nobody", _bytes(lambda raw: gzip.compress(raw) + gzip.compress(b""))),
    "half a gzip member": ("nobody", _bytes(lambda raw: gzip.compress(raw)[:-9])),
    "gzip in gzip": ("nobody", _bytes(lambda raw: gzip.compress(gzip.compress(raw)))),
    "gzip with more behind it": ("nobody", _bytes(lambda raw: gzip.compress(raw) + b"0")),
    "nothing": ("nobody", _bytes(lambda _: b"")),
    "base64 with a newline": (
        "nobody",
        _document(lambda found: found["head"].update(quote=found["head"]["quote"] + "\n")),
    ),
    "base64 of the URL alphabet": (
        "nobody", _document(lambda found: found["head"].update(nonce="_" * 43 + "=")),
    ),
    "base64 with stray bits": (
        "nobody", _document(lambda found: found["head"].update(nonce="A" * 42 + "B=")),
    ),
}  # fmt: skip

FILES: Final = [
    Kind(f"file: {name}", holder, forge) for name, (holder, forge) in _FORGERIES.items()
]
