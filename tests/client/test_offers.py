"""What a holder's client requires of an offer and of keys, rule by rule."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from support.peers.peer import certify
from support.samples.recovery import OAEP, Holder, holder

from keyhouse.base.secret import Secret
from keyhouse.client import (
    HolderKey,
    TrustError,
    encrypt_share,
    require_listed,
    require_root,
    require_signed,
)
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.recovery import require_offer, require_remembered
from keyhouse.wire.client_api import Offer, RecoveryIndexData

ROOT, TEMPORARY = certify("the root of the deployment"), certify("of the recovery mode")
ANN, BEN = holder("rk0"), holder("rk1")
SHARE = Secret(bytes(range(33)))
ELLIPTIC = ec.generate_private_key(ec.SECP256R1())


def _der(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _spki(of: Holder) -> bytes:
    return _der(of.key.public_key())


def _public(bits: int = 4096, exponent: int = 65537) -> bytes:
    """Return a public key of this size; nobody has the private one."""
    return _der(rsa.RSAPublicNumbers(exponent, (1 << bits) - 159).public_key())


def _offer(
    ephemeral: bytes = b"", signed: bytes = b"", keys: Mapping[str, bytes] | None = None
) -> Offer:
    public = ephemeral or _public()
    message = signed or b"keyhouse ephemeral v1\0" + public
    return Offer(
        ephemeral_public_key=public,
        signature=TEMPORARY.key.sign(message, ec.ECDSA(hashes.SHA256())),
        index=RecoveryIndexData(
            root=ROOT.der,
            threshold=1,
            keys=dict(keys if keys is not None else {"ann": _spki(ANN), "ben": _spki(BEN)}),
        ),
    )


def test_an_offer_is_taken_that_the_temporary_root_signed_for_this_purpose() -> None:
    require_offer(_offer(), TEMPORARY.der)
    with pytest.raises(TrustError, match="not signed") as refused:
        require_offer(_offer(), ROOT.der)
    assert refused.value.hint is not None
    assert "send nothing" in refused.value.hint
    for signed in (_public(), b"keyhouse quote v1\0" + _public(), b"keyhouse ephemeral v1\0"):
        with pytest.raises(TrustError, match="not signed"):
            require_offer(_offer(signed=signed), TEMPORARY.der)


@pytest.mark.parametrize("size", [4096, 4097, 8192])
def test_strong_keys_are_encrypted_to(size: int) -> None:
    require_offer(_offer(_public(size)), TEMPORARY.der)
    assert len(encrypt_share(_public(size), SHARE)) == (size + 7) // 8


def _of_an_unknown_kind(der: bytes) -> bytes:
    """Return the elliptic key ``der`` with a kind of key that nobody knows."""
    return der.replace(bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0270"))


UNKNOWN = _of_an_unknown_kind(_der(ELLIPTIC.public_key()))

WEAK: dict[str, bytes] = {
    "garbage": b"no key",
    "of an unknown kind": UNKNOWN,
    "2048 bits": _spki(ANN),
    "4095 bits": _public(4095),
    "exponent 3": _public(exponent=3),
    "exponent 65539": _public(exponent=65539),
    "elliptic": _der(ELLIPTIC.public_key()),
}


@pytest.mark.parametrize("key", WEAK.values(), ids=WEAK)
def test_nothing_is_encrypted_to_a_weak_key_no_matter_who_signed_it(key: bytes) -> None:
    with pytest.raises(TrustError, match="4096 bits"):
        require_offer(_offer(key), TEMPORARY.der)
    with pytest.raises(TrustError, match="4096 bits"):
        encrypt_share(key, SHARE)


def test_the_root_has_to_be_the_kept_one_byte_for_byte() -> None:
    require_root(_offer(), ROOT.der)
    for other in (TEMPORARY.der, ROOT.der + b"\0", ROOT.der[:-1], b""):
        with pytest.raises(TrustError, match="root certificate that you kept"):
            require_root(_offer(), other)


def test_a_remembered_root_has_to_be_the_same_and_none_is_no_hindrance() -> None:
    require_remembered(_offer(), hashlib.sha256(ROOT.der).hexdigest())
    require_remembered(_offer(), "")
    for other in (hashlib.sha256(TEMPORARY.der).hexdigest(), "00"):
        with pytest.raises(TrustError, match="keyhouse trust show"):
            require_remembered(_offer(), other)


def test_the_holders_key_has_its_name_in_the_index() -> None:
    assert require_listed(_offer(), _spki(ANN)) == "ann"
    assert require_listed(_offer(), _spki(BEN)) == "ben"
    for keys in ({}, {"ann": _spki(BEN)}, {"ann": _spki(ANN) + b"\0"}):
        with pytest.raises(TrustError, match="not among"):
            require_listed(_offer(keys=keys), _spki(ANN))


def test_a_share_belongs_to_the_listed_key_that_signed_it() -> None:
    for by, name in ((ANN, "ann"), (BEN, "ben")):
        assert require_signed(_offer(), SHARE, by.sign(SHARE.reveal())) == name
    odd = {"garbage": b"no key", "unknown": UNKNOWN, "elliptic": _der(ELLIPTIC.public_key())}
    assert require_signed(_offer(keys=odd | {"ben": _spki(BEN)}), SHARE, BEN.sign(SHARE.reveal()))
    elliptic = ELLIPTIC.sign(SHARE.reveal(), ec.ECDSA(hashes.SHA256()))
    for keys, signature in (
        (odd, elliptic),
        ({}, ANN.sign(SHARE.reveal())),
        ({"ben": _spki(BEN)}, ANN.sign(SHARE.reveal())),
        ({"ann": _spki(ANN)}, ANN.sign(b"something else")),
        ({"ann": _spki(ANN)}, b""),
    ):
        with pytest.raises(TrustError, match="no recovery key"):
            require_signed(_offer(keys=keys), SHARE, signature)


def test_a_holders_key_decrypts_and_signs_as_the_coordinator_expects() -> None:
    key = HolderKey(Secret(ANN.private_pem))
    assert key.public_key == _spki(ANN)
    assert key.decrypt(ANN.key.public_key().encrypt(SHARE.reveal(), OAEP)) == SHARE
    assert key.sign(SHARE) == ANN.sign(SHARE.reveal())
    for ciphertext in (BEN.key.public_key().encrypt(SHARE.reveal(), OAEP), b"", bytes(256)):
        with pytest.raises(ClientSetupError):
            key.decrypt(ciphertext)


def _pem(key: Any, encryption: Any = None) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return pem


def _unknown_pem() -> bytes:
    der = ELLIPTIC.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    text = base64.encodebytes(_of_an_unknown_kind(der))
    return b"-----BEGIN PRIVATE KEY-----\n" + text + b"-----END PRIVATE KEY-----\n"


LOCKED = _pem(ANN.key, BestAvailableEncryption(b"password"))
UNUSABLE: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "garbage": (lambda: b"no key", "does not hold a PEM private key", "BEGIN PRIVATE KEY"),
    "elliptic": (lambda: _pem(ELLIPTIC), "is not an RSA key", "private key of the holder"),
    "of an unknown kind": (_unknown_pem, "damaged PEM private key", "copy the key again"),
    "encrypted": (lambda: LOCKED, "is encrypted", "passphrase"),
}


@pytest.mark.parametrize(("make", "problem", "hint"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_that_is_no_plain_rsa_key_is_refused_with_a_hint(
    make: Callable[[], bytes], problem: str, hint: str
) -> None:
    with pytest.raises(ClientSetupError, match=problem) as refused:
        HolderKey(Secret(make()))
    assert hint in str(refused.value.hint)


def test_an_encrypted_key_is_read_with_its_passphrase_only() -> None:
    assert HolderKey(Secret(LOCKED), Secret(b"password")).public_key == _spki(ANN)
    with pytest.raises(ClientSetupError, match="cannot be decrypted") as refused:
        HolderKey(Secret(LOCKED), Secret(b"pass"))
    assert "check the passphrase" in str(refused.value.hint)
