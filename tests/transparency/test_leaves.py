import json

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import (
    LEAF_BYTES,
    Leaf,
    SecretsUploadedLeaf,
    Uploads,
    encode_leaf,
    name_in_leaf,
    read_leaf,
)

H = "ab" * 32
R = "cd" * 16
AT = f"3.17.{H}"
T = 1_790_000_000_000_000
RECOVERY = leaves.RecoverySetup(holders=3, threshold=2)
PREVIOUS = leaves.PreviousLog(origin="o", size=7, root=H, reason="lost")
EXAMPLES: tuple[Leaf, ...] = (
    leaves.LogBegunLeaf(
        time=T, origin="keyhouse/1", root=H, key="v", platform="tdx", previous=PREVIOUS, imported=H
    ),
    leaves.LogBegunLeaf(
        time=T, origin="é", root=H, key="v", platform="tdx", previous=None, imported=""
    ),
    leaves.LogBegunLeaf(
        time=T, origin="o", root=H, key="v", platform="tdx", previous=PREVIOUS, imported=H,
        manifest=H, intermediate=H, public=False,
    ),
    leaves.ManifestSetLeaf(time=T, manifest=H, intermediate=H, recovery=None),
    leaves.ManifestSetLeaf(time=T, manifest=H, intermediate=H, recovery=None, public=True),
    leaves.StartedLeaf(
        time=T, at=AT, instance=R, version="0.1.0", platform="gramine", unique=H, signer=H,
        product=1, svn=2, quote="", collateral=H,
    ),
    leaves.RecoveredLeaf(time=T, at="", holders=("anna", "bert")),
    leaves.UpdateProposedLeaf(
        time=T, user="u", certificate=H, base=H, manifest=H, plan=H, needed=2, approval=""
    ),
    leaves.UpdateProposedLeaf(
        time=T, user="u", certificate=H, base=H, manifest=H, plan=H, needed=2, approval="",
        public=False,
    ),
    leaves.UpdateApprovedLeaf(
        time=T, user="u", certificate=H, manifest=H, plan="", missing=0, approval=H
    ),
    leaves.UpdateCancelledLeaf(time=T, user="", certificate="", manifest=H, approval=""),
    leaves.ManifestUpdatedLeaf(time=T, base=H, manifest=H, intermediate=H, recovery=RECOVERY),
    leaves.ManifestUpdatedLeaf(
        time=T, base=H, manifest=H, intermediate=H, recovery=RECOVERY, public=True
    ),
    leaves.PackagesUpdatedLeaf(
        time=T, user="u", certificate=H, base=H, versions=(("p", "3"),), intermediate=H, plan="",
        approval="",
    ),
    SecretsUploadedLeaf(time=0, uploads=(Uploads("u", H, ("a", "b")),)),
    leaves.TrustLeaf(
        time=T, what=leaves.TrustChange.REVOKED, user="u", certificate=H, subjects=(("type", "w"),)
    ),
    leaves.TrustLeaf(
        time=T, what="of-a-later-version", user="", certificate="", subjects=(("a", "b", "c"),)
    ),
    leaves.AnchorLeaf(time=T, at=AT, nonce=R, activations=""),
)  # fmt: skip


@pytest.mark.parametrize("leaf", EXAMPLES, ids=lambda leaf: type(leaf).__name__)
def test_each_kind_has_one_text(leaf: Leaf) -> None:
    raw = encode_leaf(leaf)
    assert read_leaf(raw) == leaf
    given = json.loads(raw)
    plain = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert raw == plain
    for spelled in (
        raw + b"\n",
        b" " + raw,
        raw.replace(b":", b": ", 1),
        json.dumps(given).encode(),
    ):
        with pytest.raises(LogInvalidError):
            read_leaf(spelled)


def test_a_leaf_of_an_older_version_does_not_state_whether_its_manifest_is_public() -> None:
    old = b'{"intermediate":"%b","kind":"manifest-set","manifest":"%b",'
    old += b'"recovery":null,"time":0,"v":1}'
    new = old.replace(b'"recovery"', b'"public":true,"recovery"')
    values = (H.encode(), H.encode())

    for raw, public in ((old % values, UNSET), (new % values, True)):
        found = read_leaf(raw)
        assert isinstance(found, leaves.ManifestSetLeaf)
        assert found.public is public
        assert encode_leaf(found) == raw


def test_the_bytes_of_a_leaf_are_these_forever() -> None:
    assert encode_leaf(
        next(each for each in EXAMPLES if isinstance(each, SecretsUploadedLeaf))
    ) == (
        b'{"kind":"secrets-uploaded","time":0,"uploads":[["u","%b",["a","b"]]],"v":1}' % H.encode()
    )
    assert encode_leaf(next(each for each in EXAMPLES if isinstance(each, leaves.StartedLeaf))) == (
        b'{"at":"3.17.%b","collateral":"%b","instance":"%b","kind":"started","platform":"gramine",'
        b'"product":1,"quote":"","signer":"%b","svn":2,"time":1790000000000000,"unique":"%b","v":1,'
        b'"version":"0.1.0"}' % (H.encode(), H.encode(), R.encode(), H.encode(), H.encode())
    )
    assert encode_leaf(next(each for each in EXAMPLES if isinstance(each, leaves.TrustLeaf))) == (
        b'{"certificate":"%b","kind":"trust","subjects":[["type","w"]],"time":1790000000000000,'
        b'"user":"u","v":1,"what":"revoked"}' % H.encode()
    )


@pytest.mark.parametrize("leaf", EXAMPLES, ids=lambda leaf: type(leaf).__name__)
def test_no_field_may_be_missing_added_or_of_another_kind(leaf: Leaf) -> None:
    given = json.loads(encode_leaf(leaf))
    optional = {"public"} | (
        {"manifest", "intermediate"} & given.keys() if "key" in given else set()
    )
    for name in given:
        others = [{key: value for key, value in given.items() if key != name}]
        others = others if name not in optional else []
        odd: list[object] = [1.5, -1, "", None, True, [], {}, "\n", H + "\n", 2**53, 2**64]
        others += [{**given, name: value} for value in odd if not _fits(name, value)]
        for other in others:
            with pytest.raises(LogInvalidError):
                read_leaf(_canonical(other))
    with pytest.raises(LogInvalidError):
        read_leaf(_canonical({**given, "zusatz": 1}))


def _fits(name: str, value: object) -> bool:
    """Tell whether some kind takes ``value`` there."""
    empty = {"imported", "at", "quote", "collateral", "plan", "approval", "user", "certificate",
             "activations", "unique", "signer"}  # fmt: skip
    if name == "public":
        return value is True
    if value is None:
        return name in {"previous", "recovery"}
    if value == []:
        return name in {"holders", "versions", "uploads", "subjects"}
    if name == "user":
        return isinstance(value, str)
    return name in empty and value == ""


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"kind":"paid","time":1,"v":1}',
        b'{"kind":"anchor"}',
        b'{"a":' + b"[" * 8_000,
        b"\xff",
        b'{"intermediate":"%b","kind":"manifest-set","manifest":"%b","recovery":null,"time":1,"v":2}',
        b'{"intermediate":"%b","kind":"manifest-set","kind":"manifest-set","manifest":"%b","recovery":null,"time":1,"v":1}',
        b'{"intermediate":"%b","kind":"manifest-set","manifest":"%b","recovery":null,"time":1,"time":1,"v":1}',
        b'{"intermediate":"%b","kind":"manifest-set","manifest":"%b","recovery":null,"time":1.0,"v":1}',
        b'{"intermediate":"%b","kind":"manifest-set","manifest":"%b","recovery":null,"time":01,"v":1}',
        b'{"intermediate":"%b","kind":"manifest-set","manifest":"\\u0061%b","recovery":null,"time":1,"v":1}',
    ],
)
def test_what_is_not_a_leaf_is_refused(raw: bytes) -> None:
    filled = raw.replace(b"\\u0061%b", b"\\u0061" + H[1:].encode()).replace(b"%b", H.encode())
    with pytest.raises(LogInvalidError):
        read_leaf(filled)


@given(st.lists(st.text(max_size=900), min_size=1, max_size=3, unique=True))
def test_no_two_names_are_written_alike(names: list[str]) -> None:
    names += [name_in_leaf(name) for name in names]
    written = {name_in_leaf(name) for name in {*names}}
    assert len(written) == len({*names})
    assert all(len(each.encode()) <= 512 for each in written)


def test_a_leaf_that_is_too_long_is_refused() -> None:
    def of(length: int) -> Leaf:
        return SecretsUploadedLeaf(
            time=0, uploads=(Uploads("u", H, ("x" * 490,) * 16 + ("y" * length,)),)
        )

    room = LEAF_BYTES - len(encode_leaf(of(1))) + 1
    assert room <= 512
    assert len(encode_leaf(of(room))) == LEAF_BYTES
    with pytest.raises(LogInvalidError, match=str(LEAF_BYTES)):
        encode_leaf(of(room + 1))


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def test_characters_of_names_are_escaped_as_rfc_8785_says() -> None:
    short = {
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
        '"': '\\"',
        "\\": "\\\\",
    }
    characters = [*map(chr, range(0x300)), "\u2028", "\ud7ff", "\ue000", "\U0001f600"]
    for each in characters:
        raw = encode_leaf(leaves.RecoveredLeaf(time=T, at="", holders=(each,)))
        escaped = short.get(each, f"\\u{ord(each):04x}" if each < " " else each)
        assert f'"holders":["{escaped}"]'.encode() in raw
