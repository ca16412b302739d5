"""Garbage for the Client API: bytes, JSON, and valid requests with a damaged part."""

import copy
import json
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote

from hypothesis import strategies as st

from support.peers.answers import FOREIGN, b64, with_web_certificate
from support.samples.deployment import user

NAMES: Final = (
    "manifest",
    "secrets",
    "note",
    "key0",
    "web",
    "shared",
    "key",
    "cert",
    "private",
    "public",
    "sgxQuote",
    "recoverySecret",
    "packages",
    "Packages",
    "Marbles",
    "Type",
    "Size",
)


def harmless(text: str) -> bool:
    """Return whether an answer may repeat ``text``: ``text`` has no word of ``FOREIGN``.

    Hypothesis takes some texts from the source of the tested code, which contains such words.
    """
    return FOREIGN.search(f".{text}") is None  # an answer may put "." before a name


_texts = st.one_of(
    st.sampled_from(NAMES),
    st.text(max_size=8),
    st.sampled_from(
        ["\ud800", "\0", "\u202e", "\u212aey", "-----BEGIN CERTIFICATE-----\n", "A==="]
    ),
    st.binary(max_size=12).map(b64),
).filter(harmless)
_numbers = st.one_of(
    st.sampled_from([0, -1, 255, 256, 2**31, 2**63, 2**64, 10**400]), st.integers(), st.floats()
)

values: Final[st.SearchStrategy[Any]] = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)
    ),
    max_leaves=8,
)
"""Any JSON, with relevant names and numbers."""


def _places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of ``value`` and of all values inside."""
    found = [here]
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += _places(inner, (*here, step))
    return found


@st.composite
def damaged(draw: st.DrawFn, valid: Any) -> Any:
    """Draw ``valid`` with one to three parts replaced, removed, renamed or added."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        *outer, last = draw(st.sampled_from(_places(value)[1:] or [(None,)]))
        if last is None:
            return draw(values)
        holder = value
        for step in outer:
            holder = holder[step]
        change = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        if change == "replace" or isinstance(holder, list):
            holder[last] = draw(values)
        elif change == "add":
            holder[draw(_texts)] = draw(values)
        else:
            moved = holder.pop(last)
            if change == "rename":
                holder[draw(_texts)] = moved
    return value


_MANIFEST: Final = json.loads(with_web_certificate())


@st.composite
def bad_manifests(draw: st.DrawFn) -> bytes:
    """Draw a nearly valid manifest with an unknown field, so the manifest is invalid."""
    content = draw(damaged(_MANIFEST))
    if isinstance(content, dict):
        content["No such field, and its name is longer than what is cut"] = 0
    return _written(content)


def _written(value: Any) -> bytes:
    return json.dumps(value).encode()


_UPLOAD: Final = {
    "secrets": {
        "note": {"key": b64(b"a note")},
        "key0": {"key": b64(bytes(16))},
        "web": {"cert": b64(user("web").der), "private": b64(user("web").key_pem)},
    }
}
_UPDATE: Final = {"Packages": {"lib": {"SecurityVersion": 5}}}
_OTHER: Final = {
    "sgxQuote": b64(bytes(500)),
    "recoverySecret": b64(bytes(33)),
    "recoverySecretSignature": b64(bytes(256)),
    "name": "counter",
    "value": 1,
    "packages": {"app": {"SecurityVersion": 2}},
}


@st.composite
def _cut(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Draw a body with bytes inserted, removed or replaced at one place."""
    body = draw(whole)
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 20)))
    return body[:start] + draw(st.binary(max_size=8)) + body[end:]


def bodies(path: str) -> st.SearchStrategy[bytes]:
    """Return bodies for the route at ``path``: bytes, JSON, nearly valid bodies, damaged bodies."""
    second = path.startswith("/api/v2/")
    if path.endswith("/update"):
        near = damaged(_UPDATE).map(_written)
        near = near.map(lambda raw: _written({"manifest": b64(raw)})) if second else near
    elif "secrets" in path:
        near = damaged(_UPLOAD if second else _UPLOAD["secrets"]).map(_written)
    elif "manifest" in path or "update" in path:
        near = bad_manifests().map(lambda raw: _written({"manifest": b64(raw)}) if second else raw)
    else:
        near = damaged(_OTHER).map(_written)
    return st.one_of(
        near,
        near,
        _cut(near),
        st.builds(_written, values),
        st.binary(max_size=60),
        st.sampled_from([b"", b"[" * 5000, b'{"a":' * 5000, b"9" * 50_000]),
    )


_escaped = st.one_of(
    st.sampled_from([*NAMES, "s", "nonce", "", "%", "%zz", "%00", ";", "+", "AAAA", "AA=="]),
    st.binary(max_size=6).map(quote_from_bytes),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=10),
)

queries: Final[st.SearchStrategy[str]] = st.one_of(
    st.just(""),
    st.lists(st.tuples(_escaped, st.sampled_from(["=", "", "=="]), _escaped), max_size=4).map(
        lambda pairs: "?" + "&".join("".join(pair) for pair in pairs)
    ),
).filter(lambda query: harmless(unquote(query, "latin-1")))
"""Query strings for a request line."""
