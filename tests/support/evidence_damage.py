"""Rules that damage an evidence file.

The rules of ``FILES`` change the file only; each rule names the step that must refuse the file.
The rules of ``HISTORIES`` change leaves. The holders of the keys then sign everything again.
"""

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from keyhouse.evidence.errors import Step
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tree import leaf_hash
from support.evidence import Said

__all__ = ["FILES", "HISTORIES", "changed", "file_of"]

Document = dict[str, Any]
_OTHER: Final = "0" * 64


def file_of(document: Document) -> bytes:
    """Return ``document`` in the canonical form of an evidence file."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def changed(raw: bytes, change: Callable[[Document], object]) -> bytes:
    """Return the evidence file ``raw`` after ``change``."""
    document = json.loads(raw)
    change(document)
    return file_of(document)


def _field(name: str, value: object) -> Callable[[bytes], bytes]:
    return lambda raw: changed(raw, lambda document: document.update({name: value}))


def _in(*path: str | int, to: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    """Return a rule: replace the value at ``path`` by ``to(value)``."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to(document[path[-1]])

    return lambda raw: changed(raw, change)


def _flipped(text: str) -> str:
    """Return the base64 ``text`` with a bit changed in the middle of its bytes."""
    raw = bytearray(b64decode(text))
    raw[len(raw) // 2] ^= 1
    return b64encode(raw).decode()


def _hidden(text: str) -> dict[str, str]:
    return {"hidden": b64encode(leaf_hash(b64decode(text))).decode()}


def _without_lines(*names: str) -> Callable[[str], str]:
    """Return a function: remove the signatures of ``names`` from a note."""
    return lambda note: "".join(
        line for line in note.splitlines(keepends=True) if not any(name in line for name in names)
    )


def _bad_signature(name: str) -> Callable[[str], str]:
    """Return a function: damage the signature of ``name`` in a note."""

    def damaged(line: str) -> str:
        if not line.startswith("\N{EM DASH} ") or name not in line:
            return line
        *words, data = line.split()
        return " ".join((*words, _flipped(data))) + "\n"

    return lambda note: "".join(map(damaged, note.splitlines(keepends=True)))


def _object(kind: str, field: str, document: Document) -> str:
    """Return the object name in ``field`` of the first leaf of ``kind``."""
    said = [json.loads(b64decode(entry)) for entry in document["entries"]]
    return next(str(each[field]) for each in said if each["kind"] == kind)


def _swap(document: Document) -> None:
    entries = document["entries"]
    entries[4], entries[5] = entries[5], entries[4]


def _start_quote_as_head(document: Document) -> None:
    document["head"]["quote"] = document["objects"][_object("started", "quote", document)]


def _manifest_as_collateral(document: Document) -> None:
    document["head"]["collateral"] = _object("manifest-set", "manifest", document)


def _other_manifest(document: Document) -> None:
    name = _object("manifest-set", "manifest", document)
    raw = b64decode(document["objects"].pop(name)) + b" "
    document["objects"][object_name(raw)] = b64encode(raw).decode()
    document["objects"][name] = b64encode(raw).decode()


def _extension(note: str) -> str:
    return note.replace("\n\n", "\nextension\n\n", 1)


FILES: Final[dict[str, tuple[Callable[[bytes], bytes], Step]]] = {
    "empty": (lambda raw: raw[:0], Step.FILE),
    "not JSON": (lambda raw: raw[:-3], Step.FILE),
    "a space": (lambda raw: raw.replace(b'":', b'": ', 1), Step.FILE),
    "no newline": (lambda raw: raw[:-1], Step.FILE),
    "another order": (
        lambda raw: (json.dumps(json.loads(raw), separators=(",", ":"))[:-1] + ',"a":1}').encode(),
        Step.FILE,
    ),
    "a repeated field": (lambda raw: b'{"made":1,' + raw[1:], Step.FILE),
    "an unknown field": (_field("more", 1), Step.FILE),
    "another version": (
        _field("mediaType", "application/vnd.keyhouse.evidence.v2+json"),
        Step.FILE,
    ),
    "no time": (lambda raw: changed(raw, lambda document: document.pop("made")), Step.FILE),
    "a disclosure": (_field("disclosures", [1]), Step.FILE),
    "an entry that is a number": (_in("entries", 3, to=lambda _: 1), Step.FILE),
    "a short hidden hash": (_in("entries", 3, to=lambda _: {"hidden": "AAAA"}), Step.FILE),
    "stray bits in base64": (_in("head", "nonce", to=lambda text: text[:-2] + "B="), Step.FILE),
    "an object with another content": (lambda raw: changed(raw, _other_manifest), Step.FILE),
    "half of a gzip member": (lambda raw: gzip.compress(raw)[:-9], Step.FILE),
    "two gzip members": (lambda raw: gzip.compress(raw) + gzip.compress(b""), Step.FILE),
    "a damaged gzip member": (
        lambda raw: bytes(b ^ (n == 200) for n, b in enumerate(gzip.compress(raw))),
        Step.FILE,
    ),
    "another root": (
        lambda raw: changed(raw, lambda found: found.update(root=found["intermediate"])),
        Step.DEPLOYMENT,
    ),
    "another origin": (_field("origin", "log.example.org/other"), Step.LOG_KEY),
    "a damaged signature of the root": (_in("log", "signature", to=_flipped), Step.LOG_KEY),
    "another log key": (_in("log", "key", to=lambda key: key[:-4] + "AAA="), Step.LOG_KEY),
    "a damaged intermediate": (_in("intermediate", to=_flipped), Step.LOG_KEY),
    "the root as intermediate": (
        lambda raw: changed(raw, lambda found: found.update(intermediate=found["root"])),
        Step.HISTORY,
    ),
    "a changed entry": (_in("entries", 3, to=_flipped), Step.TREE),
    "an entry less": (lambda raw: changed(raw, lambda found: found["entries"].pop(3)), Step.TREE),
    "an entry twice": (
        lambda raw: changed(raw, lambda found: found["entries"].insert(3, found["entries"][3])),
        Step.TREE,
    ),
    "an entry more": (
        lambda raw: changed(raw, lambda found: found["entries"].append(found["entries"][3])),
        Step.TREE,
    ),
    "entries swapped": (lambda raw: changed(raw, _swap), Step.TREE),
    "no entries": (_field("entries", []), Step.TREE),
    "no checkpoints": (_field("checkpoints", []), Step.TREE),
    "no last checkpoint": (_in("checkpoints", to=lambda found: found[:-1]), Step.TREE),
    "checkpoints in another order": (_in("checkpoints", to=lambda found: found[::-1]), Step.TREE),
    "a checkpoint that the log did not sign": (
        _in("checkpoints", 1, to=_bad_signature("keyhouse/")),
        Step.TREE,
    ),
    "a checkpoint with an extension": (_in("checkpoints", 2, to=_extension), Step.TREE),
    "a checkpoint of another size": (
        _in("checkpoints", 0, to=lambda note: note.replace("\n3\n", "\n4\n", 1)),
        Step.TREE,
    ),
    "a checkpoint that is no note": (_in("checkpoints", 1, to=lambda note: note[:-1]), Step.TREE),
    "one witness": (
        _in("checkpoints", 2, to=_without_lines("example/a", "example/c")),
        Step.WITNESSES,
    ),
    "a damaged cosignature": (
        _in("checkpoints", 2, to=_bad_signature("example/a")),
        Step.WITNESSES,
    ),
    "a damaged cosignature of ML-DSA": (
        _in("checkpoints", 0, to=_bad_signature("example/c")),
        Step.WITNESSES,
    ),
    "another nonce": (_in("head", "nonce", to=_flipped), Step.HARDWARE),
    "a damaged quote": (_in("head", "quote", to=_flipped), Step.HARDWARE),
    "the quote of a start": (lambda raw: changed(raw, _start_quote_as_head), Step.HARDWARE),
    "no collateral": (_in("head", "collateral", to=lambda _: _OTHER), Step.HARDWARE),
    "a manifest as collateral": (lambda raw: changed(raw, _manifest_as_collateral), Step.HARDWARE),
    "a hidden beginning": (_in("entries", 0, to=_hidden), Step.HISTORY),
    "a hidden proposal": (_in("entries", 5, to=_hidden), Step.HISTORY),
    "a hidden update": (_in("entries", 7, to=_hidden), Step.HISTORY),
}  # fmt: skip


def _said(number: int, **fields: object) -> Callable[[list[Said]], object]:
    return lambda said: said[number].update(fields)


HISTORIES: Final[dict[str, Callable[[list[Said]], object]]] = {
    "no beginning": lambda said: said.pop(0),
    "two beginnings": lambda said: said.insert(1, said[0]),
    "another origin in the log": _said(0, origin="log.example.org/other"),
    "another root in the log": _said(0, root=_OTHER),
    "no first manifest": lambda said: said.pop(1),
    "an unknown manifest": _said(1, manifest=_OTHER),
    "other holders": _said(1, recovery={"holders": 1, "threshold": 1}),
    "another code": _said(2, unique=_OTHER),
    "another product": _said(2, product=99),
    "another platform": _said(2, platform="sgx"),
    "an unknown kind": _said(3, kind="forgotten"),
    "an unknown field": _said(3, more=1),
    "another version of leaves": _said(3, v=2),
    "an uploader without permission": lambda said: said[3]["uploads"][0].__setitem__(2, ["shared"]),
    "an unknown uploader": lambda said: said[3]["uploads"][0].__setitem__(0, "nobody"),
    "another certificate": lambda said: said[3]["uploads"][0].__setitem__(1, _OTHER),
    "a lowered version": _said(4, versions=[["app", "2"]]),
    "a version that nobody signed": _said(4, versions=[["app", "5"]]),
    "another base of packages": _said(4, base=_OTHER),
    "an agreement that nobody signed": _said(6, approval=""),
    "another base": _said(5, base=_OTHER),
    "fewer who agree": _said(5, needed=1),
    "another pending manifest": _said(6, manifest=_OTHER),
    "another number missing": _said(6, missing=1),
    "no agreement": lambda said: said.pop(6),
    "no update": lambda said: said.pop(7),
    "no proposal": lambda said: said.pop(5),
    "a proposal twice": lambda said: said.insert(6, said[5]),
    "another new manifest": _said(7, manifest=_OTHER),
    "another old manifest": _said(7, base=_OTHER),
    "another intermediate": _said(7, intermediate=_OTHER),
    "a time that runs back": _said(8, time=1),
    "a position that runs back": _said(10, at=f"1.1.{'0' * 64}"),
    "a quote that is no quote": _said(10, quote="1" * 64),
}
